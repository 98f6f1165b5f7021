"""``adc view``."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console

from adc_wrappers.core.errors import did_you_mean
from adc_wrappers.envs.registry import TASKS, make_env
from adc_wrappers.runs import RunFolderError

from .evaluate import is_policy_file, open_policy
from .options import parse_settings

if TYPE_CHECKING:
    from adc_wrappers.viewing import Playback

__all__ = ["View"]

_RANDOMIZE = "randomize"
_SEEN = {
    "standing": "the joints hold the robot's nominal pose on four feet; it does not try the task. `adc view POLICY` "
    "shows one that does.",
    "zero": "every action is zero, so that the joints are sent to their nominal pose whatever happens.",
    "random": "actions are drawn at random, as in the first steps of a training: expect falls, again and again.",
}


@dataclass(frozen=True, kw_only=True)
class View:
    """Watch a policy, or a task without one, live in the browser or in MuJoCo's window."""

    target: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN_OR_POLICY_OR_TASK")]
    """A run folder that `adc train` made, a policy file that `adc export` wrote, or the name of a task."""

    backend: str | None = None
    """Engine; by default the run's, or the task's first."""

    viewer: Literal["browser", "mujoco"] = "browser"
    """browser: a page on this computer, no screen needed; mujoco: MuJoCo's own window."""

    port: int = 8080
    """Port of the page; the next free one if it is taken."""

    action: Literal["zero", "random", "standing"] | None = None
    """What to do without a policy; by default Spot stands and a cart gets zero."""

    stiffness: float | None = None
    """K of every joint; by default the target of the run's or the task's curriculum."""

    seed: int = 0
    """Seed of the first start state."""

    seconds: float | None = None
    """Stop after so much time; by default with Ctrl+C, or with the window."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Settings of the task itself, such as randomize=False; they replace the run's."""

    def run(self) -> int:
        """View."""
        playback, env, title = self._playback()
        console = Console(highlight=False, soft_wrap=True)
        if self.target in TASKS:
            console.print(self._without_policy(playback))
        try:
            show = self._browser if self.viewer == "browser" else self._window
            show(playback, console, title)
        finally:
            env.close()
        return 0

    def _playback(self) -> tuple[Playback, Any, str]:
        """Return what is shown, its env, and what it is called."""
        from adc_wrappers.envs.fit import check_env
        from adc_wrappers.training.evaluating import asked_differences
        from adc_wrappers.viewing import Playback, make_action

        path = Path(self.target)
        has_policy = is_policy_file(path) or (path / "config.json").is_file()
        if not has_policy and self.target not in TASKS:
            raise RunFolderError(
                f"{self.target!r} is neither a run folder (it has no config.json) nor a policy file (.onnx) nor a "
                f"task. {did_you_mean(self.target, TASKS)}"
            )
        settings = parse_settings(self.set)
        if has_policy:
            trained = open_policy(path)
            config = trained.config
            policy: Callable[[NDArray[np.float32]], NDArray[np.float32]] = trained
            env = make_env(config.task, backend=self.backend or config.backend, **{**config.settings, **settings})
            curriculum, title = config.curriculum, f"{config.task}, {trained.steps:,} steps"
        else:
            env = make_env(self.target, backend=self.backend, **_calm(self.target, settings))
            curriculum, title = env.adc_config, self.target
            policy = make_action(self.action, env.task, self.seed)
        stiffness = curriculum.target_stiffness if self.stiffness is None else self.stiffness
        playback = Playback(env, policy, stiffness=np.asarray(stiffness), curriculum=curriculum, seed=self.seed)
        if has_policy:
            elsewhere = bool(settings) or self.backend not in (None, config.backend)
            asked = asked_differences(settings=elsewhere, stiffness=self.stiffness is not None)
            check_env(trained, env, asked=asked)
        return playback, env, title

    def _without_policy(self, playback: Playback) -> str:
        """Say what is to be seen of a task without a policy."""
        from adc_wrappers.viewing import chosen_action

        name = chosen_action(self.action, playback.task)
        text = f"no policy: {_SEEN[name]}"
        if _RANDOMIZE in _settings_of(self.target) and _RANDOMIZE not in parse_settings(self.set):
            text += " Nothing is randomized; --set randomize=True brings back starts, masses and pushes."
        return text

    def _going(self) -> Callable[[], bool]:
        end = float("inf") if self.seconds is None else time.perf_counter() + self.seconds
        return lambda: time.perf_counter() < end

    def _browser(self, playback: Playback, console: Console, title: str) -> None:
        from adc_wrappers.viewing import BrowserView, puppet_of

        view = BrowserView(playback, puppet_of(playback.task), port=self.port, title=title)
        try:
            console.print(f"watch {view.address}\nCtrl+C ends it. From elsewhere: ssh -L PORT:{view.address[7:]} HOST")
            playback.run(view.draw, self._going())
        finally:
            view.close()

    def _window(self, playback: Playback, console: Console, title: str) -> None:
        from adc_wrappers.viewing import MujocoScreen

        window = MujocoScreen(playback.task)
        try:
            console.print(f"showing {title}; close the window or press Ctrl+C to end it")
            going = self._going()
            playback.run(window.draw, lambda: going() and window.is_open)
        finally:
            window.close()


def _settings_of(task: str) -> list[str]:
    return [field.name for field in dataclasses.fields(TASKS[task].settings_class())]


def _calm(task: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without randomization, unless they say so: what only stands falls when it is thrown about."""
    return {_RANDOMIZE: False, **settings} if _RANDOMIZE in _settings_of(task) else settings
