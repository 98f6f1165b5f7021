"""Options of every command that trains."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import tyro

from adc_wrappers.core.config import CurriculumConfig
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.registry import find_task

from .options import changes_of, parse_settings, recipe_value, recipes_of_task

if TYPE_CHECKING:
    from adc_wrappers.training import TrainConfig

__all__ = ["CurriculumChanges", "PpoChanges", "TrainingOptions", "curriculum_options", "ppo_options"]


def ppo_options(*more: str) -> Any:
    """Return an option for every setting of PPO; ``--steps``, ``--num-envs`` and more are short names."""
    from adc_wrappers.training.ppo import PpoConfig

    aliases = {"total_steps": ("--steps", *more), "num_envs": ("--num-envs",)}
    return changes_of(PpoConfig, aliases=aliases, section="ppo")


def curriculum_options(*decided: str) -> Any:
    """Return an option for every setting of the curriculum but those that a command decides itself."""
    return changes_of(CurriculumConfig, without=decided, section="curriculum")


def _action_options() -> Any:
    from adc_wrappers.training.ppo import ActionConfig

    return changes_of(ActionConfig, section="actions")


# made when a command reads its words, so that those that do not train do not wait for it
PpoChanges: TypeAlias = Annotated[dict[str, Any], tyro.conf.arg(constructor_factory=ppo_options)]
CurriculumChanges: TypeAlias = Annotated[dict[str, Any], tyro.conf.arg(constructor_factory=curriculum_options)]
_ActionChanges: TypeAlias = Annotated[dict[str, Any], tyro.conf.arg(constructor_factory=_action_options)]


def _as_recipe(name: str) -> Any:
    return tyro.conf.arg(help_behavior_hint=recipe_value(name))


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of a training: what is not given is as the task's recipe says."""

    task: tyro.conf.Positional[str]
    """Name of the task; `adc envs` lists them."""

    backend: Annotated[str | None, _as_recipe("backend")] = None
    """Engine; by default the task's first."""

    recipe: Annotated[str | None, tyro.conf.arg(help_behavior_hint=recipes_of_task)] = None
    """Named settings to start from; by default the task's own. `paper` has the paper's PPO."""

    trainer: Annotated[Literal["sb3", "rsl_rl"] | None, _as_recipe("trainer")] = None
    """Who trains: Stable-Baselines3 or RSL-RL; by default as the recipe says."""

    workers: Annotated[Literal["dummy", "subproc", "batch"] | None, _as_recipe("workers")] = None
    """dummy: envs one after another in this process; subproc: a process each; batch: one vector env."""

    device: str | None = None
    """Where simulators of tensors (isaaclab, mjlab) and the policies in them run: cuda:0, cpu; by default cuda:0. Under
    torchrun every process takes the GPU of its own number."""

    checkpoint_every: Annotated[int | None, _as_recipe("checkpoint_every")] = None
    """Iterations between two checkpoints."""

    early_termination: Annotated[bool | None, _as_recipe("early_termination")] = None
    """Whether a failed episode ends at once in training; an evaluation always ends it."""

    episode_steps: Annotated[int | None, _as_recipe("episode_steps")] = None
    """Policy steps after which an episode of training is cut short, for more beginnings to learn from; an evaluation
    has the task's own time limit."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Settings of the task itself, such as start_angle=0.1; `adc envs` lists them."""

    ppo: PpoChanges = field(default_factory=dict)
    """The algorithm; what is not given is as the recipe says. Another number of envs keeps the recipe's numbers of
    minibatches and of iterations, unless batch_size and steps are given too. A resumed run may be given more steps."""

    curriculum: CurriculumChanges = field(default_factory=dict)
    """The curriculum; what is not given is as the recipe says, or else as the task recommends. Values per joint are one
    word: 40 for all, 40,40,60 in joint order, '*_kn=40,*_h?=60' by name or pattern."""

    actions: _ActionChanges = field(default_factory=dict)
    """What happens to actions between the policy and the joints in training; evaluation leaves them alone."""

    @property
    def engine(self) -> str:
        """The backend that was asked for, or the recipe's, or the task's first."""
        from adc_wrappers.training.recipes import find_recipe

        task = find_task(self.task)
        return self.backend or find_recipe(self.task, self.recipe).backend or task.backends[0]

    def new_config(self, seed: int, say: Callable[[str], None]) -> TrainConfig:
        """Return the recipe's config with the options that were given, but for those of the curriculum.

        Args:
            seed: Seed of envs, policy and curriculum.
            say: Is told what was changed that nobody gave.
        """
        from adc_wrappers.training import default_config

        return self.applied_to(
            default_config(
                self.task,
                self.engine,
                self.given_settings(),
                recipe=self.recipe,
                seed=seed,
                episode_steps=self.episode_steps,
            ),
            say,
        )

    def given_settings(self) -> dict[str, Any]:
        """Return the settings of the task, and the device, that were given.

        Raises:
            CurriculumError: A device was given to a simulator that has none.
        """
        settings = parse_settings(self.set)
        if self.device is None:
            return settings
        known = find_task(self.task).native
        if self.engine not in known:
            raise CurriculumError(
                f"--device {self.device}: the backend {self.engine!r} runs on the CPU. Simulators of tensors for the "
                f"task {self.task!r}: {', '.join(known) or 'none'}."
            )
        return {**settings, "device": self.device}

    def applied_to(self, base: TrainConfig, say: Callable[[str], None]) -> TrainConfig:
        """Return ``base`` with the options that were given, but for those of the curriculum."""
        ppo, said = base.ppo.changed(self.ppo)
        if said:
            say(said)
        names = ("backend", "recipe", "trainer", "workers", "checkpoint_every", "early_termination", "episode_steps")
        changes: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.trainer == "rsl_rl" and self.workers is None:
            changes["workers"] = "batch"
        settings = self.given_settings()
        if settings:
            changes["settings"] = {**base.settings, **settings}
        actions = dataclasses.replace(base.actions, **self.actions)
        return dataclasses.replace(base, task=self.task, ppo=ppo, actions=actions, **changes)

    def scheduled(self, config: TrainConfig, *, begun: bool = False) -> TrainConfig:
        """Return the config with the curriculum that was given, fitted to the training's length.

        Args:
            config: What :meth:`applied_to` returned.
            begun: Whether the run goes on with an earlier part: it keeps its schedule.
        """
        changes = dict(self.curriculum)
        hold = changes.get("hold_share", config.curriculum.hold_share)
        timed = hold > 0.0 or changes.get("driver", config.curriculum.driver) == "time"
        if timed and (not begun or config.curriculum.total_iterations is None):
            changes.setdefault("total_iterations", config.iterations)
        return dataclasses.replace(config, curriculum=dataclasses.replace(config.curriculum, **changes))
