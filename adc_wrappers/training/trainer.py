"""Trainers: what an RL library behind ``adc train`` can do, and runs that are brought to their end with it."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from adc_wrappers.core.errors import CurriculumError, MissingExtraError, did_you_mean
from adc_wrappers.runs import Checkpoint, RunFolder

from .config import TRAINERS, ProgressReporter, TrainConfig, as_stored, completed

if TYPE_CHECKING:
    import torch

__all__ = [
    "QuietReporter",
    "Trainer",
    "check_trainer",
    "find_trainer",
    "finish_run",
    "quietly",
    "steps_done",
    "stored_config",
    "trainer_for",
    "trainer_module",
]


class Trainer(Protocol):
    """The interface of a module ``adc_wrappers.<library>.training``."""

    def make_training_env(self, config: TrainConfig) -> Any:
        """Build the env that a config trains in, as the library sees it."""

    def train(self, config: TrainConfig, folder: RunFolder, /, *, resume: bool, reporter: ProgressReporter) -> Any:
        """Train in a run folder, which is locked meanwhile, from the start or from its newest whole checkpoint.

        Args:
            config: The run's settings.
            folder: The run folder, already made.
            resume: Go on from the newest checkpoint.
            reporter: Is told about every iteration.

        Returns:
            The library's own object with the trained policy; its state is in the newest checkpoint too.
        """

    def load_module(self, config: TrainConfig, checkpoint: Checkpoint) -> torch.nn.Module:
        """Return the policy of a checkpoint: from observations to the mean action, clipped to the action space."""


def find_trainer(name: str) -> Trainer:
    """Return a trainer by name, imported now.

    Raises:
        CurriculumError: There is no such trainer.
        MissingExtraError: Its library is not installed.
    """
    if name == "sb3":
        from adc_wrappers.sb3 import training as sb3

        return sb3
    if name == "rsl_rl":
        from adc_wrappers.rsl_rl import training as rsl_rl

        return rsl_rl
    raise CurriculumError(f"unknown trainer {name!r}. {did_you_mean(name, TRAINERS)}")


def trainer_for(config: TrainConfig) -> Trainer:
    """Return the trainer of a run.

    Raises:
        MissingExtraError: Its library is not installed; offers another trainer that is and that can do the same.
    """
    try:
        return find_trainer(config.trainer)
    except MissingExtraError as error:
        others = [name for name in TRAINERS if name != config.trainer and _can_train(name, config)]
        if not others:
            raise
        offer = f"Or train with what is installed: --trainer {others[0]}"
        raise MissingExtraError(error.package, error.extra, error.purpose, offer) from error


def check_trainer(config: TrainConfig) -> None:
    """Refuse a run whose trainer is not installed, before anything is written; one that is is not imported.

    Raises:
        MissingExtraError: As of :func:`trainer_for`.
    """
    if not _installed(config.trainer):
        trainer_for(config)


def _installed(name: str) -> bool:
    packages = ("torch", "rsl_rl" if name == "rsl_rl" else "stable_baselines3")
    return all(importlib.util.find_spec(package) is not None for package in packages)


def _can_train(name: str, config: TrainConfig) -> bool:
    """Whether a trainer is installed and has every setting of a run."""
    return _installed(name) and (name == "rsl_rl" or not config.ppo.of_rsl_rl_only())


def trainer_module(name: str) -> Any:
    """Return :func:`find_trainer`'s answer under its old name."""
    warnings.warn("trainer_module is now find_trainer.", DeprecationWarning, stacklevel=2)
    return find_trainer(name)


class QuietReporter:
    """A listener that says nothing about an iteration; the numbers are in ``metrics.csv``."""

    def update(self, steps: int, row: dict[str, float]) -> None:
        """Take note of an iteration's end."""


def quietly(done: int) -> AbstractContextManager[ProgressReporter]:
    """Show nothing of a training; for :func:`finish_run`."""
    return nullcontext(QuietReporter())


def steps_done(folder: RunFolder) -> int:
    """Return the env steps in a run's newest whole checkpoint; 0 if it has none."""
    return folder.checkpoints.load_latest().step if folder.checkpoints.paths() else 0


def stored_config(path: Path) -> dict[str, Any]:
    """Return the settings of a run folder, with today's defaults for what an older one does not say."""
    return completed(RunFolder.open(path).config())


def finish_run(
    config: TrainConfig, path: Path, show: Callable[[int], AbstractContextManager[ProgressReporter]] = quietly
) -> RunFolder:
    """Train in a run folder what is missing: all of it, the rest after the newest whole checkpoint, or nothing.

    Args:
        config: The run's settings.
        path: The run folder; one that is not there is made.
        show: From the env steps that are done to what is told about the others.

    Returns:
        The run folder.

    Raises:
        CurriculumError: The run was begun with other settings.
    """
    begun = (path / "config.json").exists()
    if begun and stored_config(path) != as_stored(config.to_dict()):
        raise CurriculumError(
            f"{path} was trained with other settings than it is to go on with. Remove it, or choose --out."
        )
    folder = RunFolder.open(path) if begun else RunFolder.create(path, config.to_dict())
    done = steps_done(folder)
    if done < config.ppo.total_steps:
        with show(done) as reporter:
            find_trainer(config.trainer).train(config, folder, resume=begun, reporter=reporter)
    return folder
