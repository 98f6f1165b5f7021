"""Rows of ``metrics.csv``, the same for every trainer, and Weights & Biases, which gets the same rows."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.reading import read_object
from adc_wrappers.core.wrapper_methods import CurriculumMethods
from adc_wrappers.runs import RunFolder, RunFolderError

from .config import ProgressReporter, TrainConfig

__all__ = ["Pace", "WandbReporter", "metrics_row", "scalar_name"]

_OF_THE_CURRICULUM = ("stiffness", "damping_mean", "progress", "episode_length_ema", "success_ema")

_RUN_FILE = "wandb.json"


def scalar_name(column: str) -> str:
    """Return what a column of ``metrics.csv`` is called in TensorBoard and W&B.

    >>> scalar_name("stiffness"), scalar_name("return_mean")
    ('adc/stiffness', 'train/return_mean')
    """
    return f"{'adc' if column in _OF_THE_CURRICULUM else 'train'}/{column}"


class Pace:
    """Env steps per second since it was last asked."""

    def __init__(self) -> None:
        self.restart(0)

    def restart(self, steps: int) -> None:
        """Begin to count here.

        Args:
            steps: Env steps so far.
        """
        self._since, self._steps = time.perf_counter(), steps

    def at(self, steps: int) -> float:
        """Return the steps per second up to now.

        Args:
            steps: Env steps so far.
        """
        since, before = self._since, self._steps
        self.restart(steps)
        return (steps - before) / max(self._since - since, 1e-9)


def metrics_row(
    wrapper: CurriculumMethods,
    *,
    steps: int,
    returns: Sequence[float],
    learning_rate: float,
    pace: Pace,
    holding: float | None = None,
    action_std: float | None = None,
) -> dict[str, float]:
    """Return the row of the iteration that the curriculum has just closed.

    Args:
        wrapper: The curriculum's wrapper.
        steps: Env steps so far, summed over envs.
        returns: Returns of recent episodes.
        learning_rate: The present one.
        pace: Is asked for the steps per second.
        holding: Share of the iteration's steps in the wanted state, where the trainer knows it.
        action_std: Standard deviation of the policy, where the trainer knows it.
    """
    curriculum, report, totals = wrapper.curriculum, wrapper.adc.report, wrapper.adc.last_totals
    row: dict[str, float | None] = {
        "iteration": curriculum.iteration,
        "steps": steps,
        "stiffness": report["stiffness"],
        "damping_mean": report["damping_mean"],
        "progress": curriculum.progress,
        "episode_length_ema": curriculum.length_ema,
        "episode_length_mean": totals.mean_length,
        "episodes": totals.episodes,
        "success_ema": curriculum.success_ema,
        "holding": holding,
        "return_mean": float(np.mean(returns)) if len(returns) else math.nan,
        "action_std": action_std,
        "learning_rate": learning_rate,
        "steps_per_second": round(pace.at(steps), 1),
    }
    return {name: value for name, value in row.items() if value is not None}


class WandbReporter:
    """A reporter that tells Weights & Biases about every iteration, and another reporter too.

    A run folder keeps the id of its W&B run, so that a resumed training goes on there. Where and whether anything is
    sent is W&B's own affair: ``WANDB_MODE=offline`` keeps all of it on this computer, in ``WANDB_DIR`` or ``./wandb``.

    Args:
        reporter: Is told as well.
        config: The run's settings, which W&B shows.
        folder: The run folder.
        project: W&B project.
        checkpoints: Upload the newest checkpoint when the training is done.

    Raises:
        MissingExtraError: wandb is not installed.
    """

    def __init__(
        self, reporter: ProgressReporter, config: TrainConfig, folder: RunFolder, *, project: str, checkpoints: bool
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("wandb", "wandb", "--wandb") from error
        self._wandb: Any = wandb
        self._reporter, self._folder, self._checkpoints = reporter, folder, checkpoints
        path = folder.path / _RUN_FILE
        known = read_object(path, RunFolderError).get("id") if path.exists() else None
        self._run: Any = wandb.init(
            project=project,
            name=folder.path.name,
            id=known,
            resume="allow",
            config=config.to_dict(),
            settings=wandb.Settings(console="off", save_code=False, disable_git=True, silent=True),
        )
        folder.write_json(_RUN_FILE, {"id": self._run.id, "project": project})

    def __enter__(self) -> WandbReporter:
        return self

    def update(self, steps: int, row: dict[str, float]) -> None:
        """Take note of an iteration's end."""
        self._reporter.update(steps, row)
        numbers = {scalar_name(name): value for name, value in row.items() if math.isfinite(value)}
        self._run.log(numbers, step=steps)

    def summarize(self, evaluation: dict[str, Any]) -> None:
        """Show the evaluation at the target gains beside the curves."""
        for name in ("success_rate", "length_mean", "return_mean", "episodes"):
            self._run.summary[f"eval/{name}"] = evaluation[name]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._checkpoints and kind is None:
            artifact = self._wandb.Artifact(f"{self._folder.path.name}-checkpoint", type="model")
            artifact.add_file(str(self._folder.checkpoints.load_latest().path))
            self._run.log_artifact(artifact)
        self._run.finish(exit_code=0 if kind is None else 1)
