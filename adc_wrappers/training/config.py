"""The config of a training run: everything that decides it, whoever trains, and who is told how far it is."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from typing import Any, Protocol

from adc_wrappers.core import CurriculumConfig, CurriculumError
from adc_wrappers.core.config import SEED_LIMIT
from adc_wrappers.core.errors import did_you_mean
from adc_wrappers.core.reading import check_fields
from adc_wrappers.envs.registry import find_task, make_env

from .ppo import ActionConfig, PpoConfig

__all__ = [
    "DEFAULT_DEVICE",
    "TRAINERS",
    "WORKERS",
    "ProgressReporter",
    "TrainConfig",
    "as_stored",
    "recommended_curriculum",
    "shortened",
]


class ProgressReporter(Protocol):
    """A listener that is told how far a run is."""

    def update(self, steps: int, row: dict[str, float]) -> None:
        """Take note of an iteration's end; ``row`` is the one written to ``metrics.csv``."""


TRAINERS = ("sb3", "rsl_rl")
"""Adapters that ``adc train`` can train with."""

WORKERS = ("dummy", "subproc", "batch")

DEFAULT_DEVICE = "cuda:0"
"""Where simulators of tensors run unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that decides a run."""

    task: str
    """Name of the task."""

    backend: str
    """Engine."""

    recipe: str | None = None
    """Name of the recipe that it began from; None is the task's own."""

    trainer: str = "sb3"
    """Which adapter trains, of :data:`TRAINERS`."""

    workers: str = "dummy"
    """``"dummy"``: envs one after another in this process, ``"subproc"``: a process each, ``"batch"``: a vector env."""

    seed: int = 0
    """Seed of envs, policy and curriculum."""

    curriculum: CurriculumConfig
    """The curriculum."""

    ppo: PpoConfig
    """The algorithm."""

    settings: dict[str, Any] = field(default_factory=dict)
    """The task's own settings."""

    checkpoint_every: int = 1
    """Iterations between two checkpoints."""

    early_termination: bool = True
    """Whether a failed episode ends at once in training; an evaluation always ends it."""

    episode_steps: int | None = None
    """Policy steps after which an episode of training is cut short, so that there are more beginnings to learn from; an
    evaluation, and without this number a training too, has the task's own time limit."""

    actions: ActionConfig = field(default_factory=ActionConfig)
    """What happens to actions between the policy and the env in training."""

    start_from: str | None = None
    """Run folder whose newest policy the training begins with, of this task or of one that can be lifted into it."""

    def __post_init__(self) -> None:
        spec = find_task(self.task)
        for name, known in (("trainer", TRAINERS), ("workers", WORKERS)):
            value = getattr(self, name)
            if value not in known:
                raise CurriculumError(f"unknown {name} {value!r}. {did_you_mean(value, known)}")
        if self.trainer == "rsl_rl" and self.workers != "batch":
            raise CurriculumError(
                f"trainer 'rsl_rl' steps one vector env: expected workers 'batch', got {self.workers!r}."
            )
        if self.backend in spec.native and self.workers != "batch":
            raise CurriculumError(
                f"backend {self.backend!r} steps all envs together: expected workers 'batch', got {self.workers!r}."
            )
        if self.start_from is not None and self.trainer != "rsl_rl":
            raise CurriculumError(
                f"start_from: expected trainer 'rsl_rl', which can begin with weights, got {self.trainer!r}."
            )
        if self.checkpoint_every < 1:
            raise CurriculumError(f"checkpoint_every: expected at least 1, got {self.checkpoint_every}.")
        if self.episode_steps is not None and self.episode_steps < 1:
            raise CurriculumError(f"episode_steps: expected at least 1, got {self.episode_steps}.")
        if not 0 <= self.seed < SEED_LIMIT:
            raise CurriculumError(f"seed: expected a whole number in [0, 2^32), got {self.seed}.")

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["curriculum"] = self.curriculum.to_dict()
        values["actions"] = dataclasses.asdict(self.actions)
        values["ppo"] = dataclasses.asdict(self.ppo) | {"hidden": list(self.ppo.hidden)}
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainConfig:
        """Build the config that :meth:`to_dict` wrote.

        Raises:
            CurriculumError: A setting is missing, unknown, of another kind, or out of range.
        """
        check_fields(cls, values, "training settings", skip=("curriculum", "ppo", "actions"))
        ppo, actions = values["ppo"], values.get("actions", {})
        check_fields(PpoConfig, ppo, "training settings, ppo")
        check_fields(ActionConfig, actions, "training settings, actions")
        if "hidden" in ppo:
            ppo = {**ppo, "hidden": tuple(ppo["hidden"])}
        curriculum = CurriculumConfig.from_dict(values["curriculum"])
        parts = {"curriculum": curriculum, "ppo": PpoConfig(**ppo), "actions": ActionConfig(**actions)}
        return cls(**{**values, **parts})

    @property
    def training_settings(self) -> dict[str, Any]:
        """The task's settings in training: its time limit is that of :attr:`episode_steps`, if that is less."""
        return shortened(self.task, self.settings, self.episode_steps)

    @property
    def on_tensors(self) -> bool:
        """Whether the simulator keeps its envs as tensors, so that they and the policy share a device."""
        return self.backend in find_task(self.task).native

    @property
    def device(self) -> str:
        """Where the policy is trained: where a simulator of tensors has its envs, else the CPU.

        Under ``torchrun`` every process has a GPU of its own.
        """
        if not self.on_tensors:
            return "cpu"
        chosen = str(self.settings.get("device", DEFAULT_DEVICE))
        return f"cuda:{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ and chosen != "cpu" else chosen

    def moved_to(self, device: Any) -> TrainConfig:
        """Return these settings on another device, for a run that goes on elsewhere; None leaves them alone."""
        if device is None or not self.on_tensors:
            return self
        return dataclasses.replace(self, settings={**self.settings, "device": device})

    @property
    def iterations(self) -> int:
        """Number of iterations in the whole training."""
        return self.ppo.iterations


def shortened(task: str, settings: dict[str, Any], episode_steps: int | None) -> dict[str, Any]:
    """Return a task's settings with episodes of at most so many policy steps; None leaves them alone."""
    if episode_steps is None:
        return settings
    spec = find_task(task)
    own: int = spec.build_settings(spec.task_settings(settings)).time_limit
    return {**settings, "time_limit": min(episode_steps, own)}


def as_stored(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as they come back from JSON, so that settings can be compared with stored ones."""
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def completed(values: dict[str, Any]) -> dict[str, Any]:
    """Return stored settings, with today's defaults for what an older version did not know yet.

    Raises:
        CurriculumError: As :meth:`TrainConfig.from_dict`.
    """
    return as_stored(TrainConfig.from_dict(values).to_dict())


def recommended_curriculum(task: str, backend: str, settings: dict[str, Any]) -> CurriculumConfig:
    """Return the curriculum that a task recommends."""
    spec = find_task(task)
    if backend in spec.native:  # which would start a simulator on a GPU to be asked
        known: CurriculumConfig = spec.build_settings(spec.task_settings(settings)).recommended_curriculum()
        return known
    env = make_env(task, backend=backend, **settings)
    config: CurriculumConfig = env.adc_config
    env.close()
    return config
