"""Options of every command that trains."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from adc_wrappers.envs.registry import find_task

from .overrides import PpoOptions, given, parse_settings

if TYPE_CHECKING:
    from adc_wrappers.training import TrainConfig

__all__ = ["TrainingOptions"]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What is trained, where and how; what is not given is as the task's recipe says."""

    task: tyro.conf.Positional[str]
    """Name of the task; `adc envs` lists them."""

    backend: str | None = None
    """Engine; by default the task's first."""

    recipe: str | None = None
    """Named settings to start from; by default the task's own. `paper` has the paper's PPO."""

    trainer: Literal["sb3", "rsl_rl"] | None = None
    """Who trains: Stable-Baselines3 or RSL-RL; by default as the recipe says."""

    steps: int | None = None
    """Env steps of a whole training; by default the task's preset. A resumed run may be given more."""

    num_envs: int | None = None
    """Envs that are stepped together in training."""

    workers: Literal["dummy", "subproc", "batch"] | None = None
    """dummy: envs one after another in this process; subproc: a process each; batch: one vector env."""

    checkpoint_every: int | None = None
    """Iterations between two checkpoints."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Settings of the task itself, such as start_angle=0.1."""

    ppo: PpoOptions = field(default_factory=PpoOptions)
    """The algorithm; what is not given is the task's preset."""

    @property
    def engine(self) -> str:
        """The backend that was asked for, or the recipe's, or the task's first."""
        from adc_wrappers.training.recipes import find_recipe

        task = find_task(self.task)
        return self.backend or find_recipe(self.task, self.recipe).backend or task.backends[0]

    def new_config(self, seed: int) -> TrainConfig:
        """Return the recipe's config with the options that were given; the curriculum is the recipe's."""
        from adc_wrappers.training import default_config

        settings = parse_settings(self.set)
        return self.applied_to(default_config(self.task, self.engine, settings, recipe=self.recipe, seed=seed))

    def applied_to(self, base: TrainConfig) -> TrainConfig:
        """Return ``base`` with the options that were given."""
        ppo_changes: dict[str, Any] = given(self.ppo)
        if self.steps is not None:
            ppo_changes["total_steps"] = self.steps
        if self.num_envs is not None:
            ppo_changes["num_envs"] = self.num_envs
        names = ("backend", "recipe", "trainer", "workers", "checkpoint_every")
        changes: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.trainer == "rsl_rl" and self.workers is None:
            changes["workers"] = "batch"
        if self.set:
            changes["settings"] = {**base.settings, **parse_settings(self.set)}
        return dataclasses.replace(base, task=self.task, ppo=dataclasses.replace(base.ppo, **ppo_changes), **changes)
