"""Weights & Biases beside TensorBoard: the rows of ``metrics.csv``, and checkpoints only when they are asked for."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any

from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.reading import read_object
from adc_wrappers.runs import RunFolder, RunFolderError

from .config import ProgressReporter, TrainConfig
from .metrics import scalar_name

__all__ = ["WandbReporter"]

_RUN_FILE = "wandb.json"


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
