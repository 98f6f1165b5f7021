"""``adc play``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from adc_wrappers.core.errors import CurriculumError

from .evaluate import open_policy

__all__ = ["Play"]


@dataclass(frozen=True, kw_only=True)
class Play:
    """Show a policy at the target gains: in a window, or as GIF or MP4."""

    policy: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN_OR_POLICY")]
    """A run folder that `adc train` made, or a policy file that `adc export` wrote."""

    backend: str | None = None
    """Show it in another engine than it was trained in."""

    out: Path | None = None
    """Film instead of window: a file that ends in .gif or .mp4."""

    episodes: int = 1
    """Episodes to show in the window."""

    seed: int = 20_000
    """Seed of the first start state."""

    seconds: float | None = None
    """Film at most so much of the episode."""

    width: int | None = None
    """Width of the film in pixels; by default that of the rendering."""

    fps: float | None = None
    """Pictures per second of the film; by default at most 25 in a GIF and all in an MP4."""

    def run(self) -> int:
        """Play."""
        from adc_wrappers.envs.registry import find_task, make_env
        from adc_wrappers.runs.recording import check_format, play_episode, record_episode
        from adc_wrappers.training.evaluating import pin_and_check

        console = Console(highlight=False, soft_wrap=True)
        if self.out is not None:
            check_format(self.out)
        policy = open_policy(self.policy)
        config = policy.config
        mode = "human" if self.out is None else "rgb_array"
        spec = find_task(config.task)
        engine = self.backend or config.backend
        if engine in spec.native:
            raise CurriculumError(
                f"{engine} has no camera without its own viewer. Show the policy in another simulator: "
                f"--backend {spec.backends[0]}."
            )
        env = make_env(config.task, backend=engine, render_mode=mode, **spec.settings_on(engine, config.settings))
        try:
            pin_and_check(policy, env, elsewhere=engine != config.backend)
            if self.out is not None:
                length, success = record_episode(
                    policy,
                    env,
                    config.curriculum,
                    self.out,
                    seed=self.seed,
                    max_seconds=self.seconds,
                    width=self.width,
                    fps=self.fps,
                )
                console.print(f"{_outcome(length, success)}\nfilm {self.out}")
                return 0
            for episode in range(self.episodes):
                length, success = play_episode(policy, env, config.curriculum, seed=self.seed + episode)
                console.print(_outcome(length, success))
        finally:
            env.close()
        return 0


def _outcome(length: int, success: bool) -> str:
    return f"episode of {length} steps, {'success' if success else 'no success'}"
