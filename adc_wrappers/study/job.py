"""One run of a study: train, evaluate at the target gains, say how it went. Every executor maps this function."""

from __future__ import annotations

import os
import socket
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adc_wrappers.core.files import write_json
from adc_wrappers.core.reading import check_fields, read_object
from adc_wrappers.runs import FolderLock, FolderLockedError, RunFolderError
from adc_wrappers.training import TrainConfig, load_trained
from adc_wrappers.training.evaluating import EvaluationSetup, evaluate_and_keep
from adc_wrappers.training.trainer import finish_run

__all__ = [
    "EVALUATION_SEED",
    "JOB_FILE",
    "Job",
    "JobResult",
    "is_complete",
    "is_finished",
    "read_evaluation",
    "read_job",
    "run_job",
    "write_down",
]

JOB_FILE = "job.json"
EVALUATION_SEED = 10_000
"""Seed of the evaluations: the first episode of every env begins alike for all policies."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run: a condition and a seed."""

    condition: str
    """Name of the condition."""

    seed: int
    """Seed of the training."""

    folder: str
    """The run folder."""

    config: dict[str, Any]
    """Settings of the training, as :meth:`TrainConfig.to_dict` wrote them."""

    episodes: int
    """Episodes of the evaluation."""

    eval_envs: int | None = None
    """Envs that are stepped together in it."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.condition}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """The result of one run."""

    condition: str
    """Name of the condition."""

    seed: int
    """Seed of the training."""

    state: str
    """``"finished"`` or ``"failed"``."""

    seconds: float = 0.0
    """What it took, this time."""

    summary: dict[str, Any] | None = None
    """The evaluation."""

    error: str | None = None
    """What went wrong."""

    archive: bytes | None = None
    """The run folder, where the caller cannot see it."""

    gone: bool = False
    """Whether its process is gone, and could not write down what happened."""

    @classmethod
    def lost(cls, job: Job, reason: str) -> JobResult:
        """Return the result of a run whose process is gone."""
        return cls(condition=job.condition, seed=job.seed, state="failed", error=reason, gone=True)


def is_finished(job: Job) -> bool:
    """Whether the run is trained and evaluated as the job asks."""
    path = Path(job.folder) / "eval.json"
    if not path.exists():
        return False
    summary = read_evaluation(path)
    return is_complete(summary, job.config) and bool(summary["episodes"] == job.episodes)


@dataclass
class _EvaluationKinds:
    """Kinds of what a study reads of ``eval.json``."""

    trained: dict[str, Any]
    at_target: bool
    seed: int
    episodes: int
    success_rate: float
    length_mean: float
    return_mean: float
    modes: dict[str, int] = field(default_factory=dict)


@dataclass
class _TrainedKinds:
    steps: int


def read_evaluation(path: Path) -> dict[str, Any]:
    """Return the ``eval.json`` of a run.

    Raises:
        RunFolderError: It is no evaluation of this library.
    """
    values = read_object(path, RunFolderError)
    check_fields(_EvaluationKinds, values, str(path), RunFolderError, more=True)
    check_fields(_TrainedKinds, values["trained"], f"{path}, trained", RunFolderError, more=True)
    if values["episodes"] < 1:
        raise RunFolderError(f"{path}: expected at least one episode, got {values['episodes']}.")
    return values


@dataclass
class _JobKinds:
    """Kinds of what ``job.json`` and the older ``done.json`` hold."""

    state: str = ""
    error: str | None = None
    seconds: float | None = None
    attempts: int = 0


def read_job(path: Path) -> dict[str, Any]:
    """Return how a run went so far; nothing if it has not begun.

    Raises:
        RunFolderError: The file is damaged.
    """
    if not path.exists():
        return {}
    values = read_object(path, RunFolderError)
    check_fields(_JobKinds, values, str(path), RunFolderError, more=True)
    return values


def is_complete(summary: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether an evaluation is one of a study: of the whole training, at the target gains, with the study's seed."""
    enough = summary["trained"]["steps"] >= config["ppo"]["total_steps"]
    return bool(enough and summary["at_target"] and summary["seed"] == EVALUATION_SEED)


def run_job(job: Job) -> JobResult:
    """Train and evaluate one run, or what is missing of that; a failure is written down and returned, not raised."""
    begin = time.perf_counter()
    folder = Path(job.folder)
    try:
        with FolderLock(folder):
            result = _attempt(job)
            seconds = time.perf_counter() - begin
            write_down(folder, result["state"], result["error"], seconds)
    except FolderLockedError as error:  # it is somebody else's to say how that run goes
        return JobResult(condition=job.condition, seed=job.seed, state="failed", error=str(error))
    return JobResult(condition=job.condition, seed=job.seed, seconds=seconds, **result)


def _attempt(job: Job) -> dict[str, Any]:
    try:
        if not is_finished(job):
            _train_and_evaluate(job)
        summary = read_evaluation(Path(job.folder) / "eval.json")
    except Exception:  # whatever it is, the other runs of the study go on and the report shows it
        return {"state": "failed", "summary": None, "error": traceback.format_exc(limit=20)}
    return {"state": "finished", "summary": summary, "error": None}


def _train_and_evaluate(job: Job) -> None:
    """Do what is missing; the evaluation's summary comes last and says that the run is finished."""
    folder = finish_run(TrainConfig.from_dict(job.config), Path(job.folder))
    policy = load_trained(folder)
    evaluate_and_keep(
        policy,
        EvaluationSetup.of(policy.config),
        folder.path,
        episodes=job.episodes,
        seed=EVALUATION_SEED,
        num_envs=job.eval_envs,
    )


def write_down(folder: Path, state: str, error: str | None, seconds: float) -> None:
    """Keep state, error, and how long all attempts took together."""
    path = folder / JOB_FILE
    before = read_job(path)
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "state": state,
        "error": error,
        "seconds": round((before.get("seconds") or 0.0) + seconds, 1),
        "attempts": before.get("attempts", 0) + 1,
        "host": socket.gethostname(),
        "process": os.getpid(),
    }
    write_json(path, values)
