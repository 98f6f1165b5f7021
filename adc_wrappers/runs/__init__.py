"""Run folders: configuration, checkpoints, metrics, plots, evaluations, recordings; the same for every trainer."""

from .checkpoint import Checkpoint, CheckpointError, CheckpointStore
from .evaluation import EvaluationResult, evaluate, wilson_interval
from .folder import RunFolder, RunFolderError
from .metrics import MetricsFile

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "EvaluationResult",
    "MetricsFile",
    "RunFolder",
    "RunFolderError",
    "evaluate",
    "wilson_interval",
]
