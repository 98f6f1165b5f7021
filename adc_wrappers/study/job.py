"""One run of a study: train, evaluate at the target gains, say how it went. Every engine maps this function."""

from __future__ import annotations

import json
import os
import socket
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adc_wrappers.core import CurriculumError
from adc_wrappers.core.files import write_json
from adc_wrappers.runs import RunFolder
from adc_wrappers.training import TrainConfig, load_trained, trainer_module
from adc_wrappers.training.evaluating import EvaluationSetup, evaluate_policy

__all__ = [
    "EVALUATION_SEED",
    "JOB_FILE",
    "Job",
    "JobResult",
    "is_complete",
    "is_finished",
    "run_job",
    "stored_config",
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
    """How a run went."""

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


class _Quiet:
    """Is told about every iteration and says nothing; the numbers are in ``metrics.csv``."""

    def update(self, steps: int, row: dict[str, float]) -> None:
        """Take note of an iteration's end."""


def is_finished(job: Job) -> bool:
    """Whether the run is trained and evaluated as the job asks."""
    path = Path(job.folder) / "eval.json"
    if not path.exists():
        return False
    summary = json.loads(path.read_text())
    return is_complete(summary, job.config) and bool(summary["episodes"] == job.episodes)


def is_complete(summary: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether an evaluation is one of a study: of the whole training, at the target gains, with the study's seed."""
    enough = summary["trained"]["steps"] >= config["ppo"]["total_steps"]
    return bool(enough and summary["at_target"] and summary["seed"] == EVALUATION_SEED)


def run_job(job: Job) -> JobResult:
    """Train and evaluate one run, or what is missing of that; a failure is written down and returned, not raised."""
    begin = time.perf_counter()
    folder = Path(job.folder)
    try:
        if not is_finished(job):
            _train(job)
            _evaluate(job)
        summary = json.loads((folder / "eval.json").read_text())
        result = {"state": "finished", "summary": summary, "error": None}
    except Exception:  # whatever it is, the other runs of the study go on and the report shows it
        result = {"state": "failed", "summary": None, "error": traceback.format_exc(limit=20)}
    seconds = time.perf_counter() - begin
    write_down(folder, result["state"], result["error"], seconds)
    return JobResult(condition=job.condition, seed=job.seed, seconds=seconds, **result)


def stored_config(path: Path) -> dict[str, Any]:
    """Return the settings of a run folder, with today's defaults for what an older one does not say."""
    config = TrainConfig.from_dict(RunFolder.open(path).config()).to_dict()
    values: dict[str, Any] = json.loads(json.dumps(config))
    return values


def _train(job: Job) -> None:
    path, config = Path(job.folder), TrainConfig.from_dict(job.config)
    begun = (path / "config.json").exists()
    if not begun:
        (path / JOB_FILE).unlink(missing_ok=True)  # of an attempt whose process died before it began
    if begun and stored_config(path) != json.loads(json.dumps(config.to_dict())):
        raise CurriculumError(f"{path} was trained with other settings than this study. Remove it, or choose --out.")
    folder = RunFolder.open(path) if begun else RunFolder.create(path, config.to_dict())
    done = folder.checkpoints.load_latest().step if folder.checkpoints.paths() else 0
    if done < config.ppo.total_steps:
        trainer_module(config.trainer).train(config, folder, resume=begun, reporter=_Quiet())


def _evaluate(job: Job) -> None:
    folder = RunFolder.open(Path(job.folder))
    policy = load_trained(folder)
    result, summary = evaluate_policy(
        policy,
        EvaluationSetup.of(policy.config),
        episodes=job.episodes,
        seed=EVALUATION_SEED,
        num_envs=job.eval_envs,
    )
    result.write_csv(folder.path / "eval.csv")
    folder.write_json("eval.json", summary)  # last: its presence says that the run is finished


def write_down(folder: Path, state: str, error: str | None, seconds: float) -> None:
    """Keep state, error, and how long all attempts took together."""
    path = folder / JOB_FILE
    before = json.loads(path.read_text()) if path.exists() else {"seconds": 0.0, "attempts": 0}
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "state": state,
        "error": error,
        "seconds": round(before["seconds"] + seconds, 1),
        "attempts": before["attempts"] + 1,
        "host": socket.gethostname(),
        "process": os.getpid(),
    }
    write_json(path, values)
