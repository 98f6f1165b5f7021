"""Runs a plan: what is finished is left alone, what fails is reported, what was cut off goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .executors import Executor
from .job import Job, JobResult, is_finished, run_job, write_down

__all__ = ["StudyOutcome", "run_study"]


@dataclass
class StudyOutcome:
    """What became of the runs."""

    kept: list[Job] = field(default_factory=list)
    """Finished before; not touched."""

    finished: list[JobResult] = field(default_factory=list)
    """Finished now."""

    failed: list[JobResult] = field(default_factory=list)
    """Failed; their folders are there, and they are tried again the next time."""


def run_study(
    jobs: Sequence[Job], executor: Executor, on_result: Callable[[StudyOutcome, JobResult], None] | None = None
) -> StudyOutcome:
    """Do the jobs that are not finished.

    Args:
        jobs: The runs.
        executor: Where they are done.
        on_result: Called after every run.
    """
    outcome = StudyOutcome(kept=[job for job in jobs if is_finished(job)])
    kept = {job.folder for job in outcome.kept}
    folders = {(job.condition, job.seed): Path(job.folder) for job in jobs}
    for result in executor.map(run_job, [job for job in jobs if job.folder not in kept]):
        if result.gone:
            write_down(folders[result.condition, result.seed], result.state, result.error, result.seconds)
        (outcome.finished if result.state == "finished" else outcome.failed).append(result)
        if on_result is not None:
            on_result(outcome, result)
    return outcome
