"""The file kinds by name; a module is imported when one of its kinds is fuzzed."""

from __future__ import annotations

import importlib

from .targets import Target

__all__ = ["KINDS", "find_target"]

KINDS = {
    "policy": "policies:PolicyTarget",
    "trajectory-csv": "tables:CsvTarget",
    "trajectory-parquet": "tables:ParquetTarget",
    "trajectory-description": "tables:DescriptionTarget",
    "metrics-csv": "tables:MetricsTarget",
    "scores-npz": "tables:ScoresTarget",
    "checkpoint": "checkpoints:CheckpointTarget",
    "checkpoint-resume": "checkpoints:ResumeTarget",
    "run-config": "documents:ConfigTarget",
    "curriculum-state": "documents:CurriculumTarget",
    "condition-toml": "documents:ConditionTarget",
    "trial": "documents:TrialTarget",
    "identification": "documents:IdentificationTarget",
    "search-state": "documents:SearchTarget",
    "select-k0": "documents:SelectionTarget",
    "study": "documents:StudyTarget",
    "study-run": "documents:StudyRunTarget",
    "run-marker": "folders:MarkerTarget",
    "run-lock": "folders:LockTarget",
}


def find_target(kind: str) -> type[Target]:
    """Return the class of a kind, or of ``module:class``."""
    module, name = KINDS.get(kind, kind).split(":")
    found: type[Target] = getattr(importlib.import_module(f".{module}", __package__), name)
    return found
