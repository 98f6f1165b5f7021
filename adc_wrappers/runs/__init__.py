"""Run folders: configuration, checkpoints, metrics, plots, evaluations, recordings; the same for every trainer."""

from adc_wrappers.core.errors import CheckpointError, RunFolderError

from .checkpoint import Checkpoint, CheckpointStore
from .evaluation import EvaluationResult, evaluate, wilson_interval
from .folder import RunFolder
from .lock import FolderLock, FolderLockedError, holding_folder
from .metrics import MetricsFile

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "EvaluationResult",
    "FolderLock",
    "FolderLockedError",
    "MetricsFile",
    "RunFolder",
    "RunFolderError",
    "evaluate",
    "holding_folder",
    "wilson_interval",
]
