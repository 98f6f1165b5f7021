"""Runs of a study on a Slurm cluster, through submitit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from adc_wrappers.core.errors import MissingExtraError

from .engines import JobFunction, available_cores
from .job import Job, JobResult

__all__ = ["SlurmEngine"]

_POLL = 1.0


class Requeued:
    """A job function that submitit may start again where a machine was taken away: runs go on from checkpoints."""

    def __init__(self, function: JobFunction) -> None:
        self.function = function

    def __call__(self, job: Job) -> JobResult:
        """Do the job."""
        return self.function(job)

    def checkpoint(self, job: Job) -> Any:
        """Return what is submitted when the job is pre-empted: the same again."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, job)


class SlurmEngine:
    """One Slurm job per run, submitted as an array; the machines must share the study's folder.

    Args:
        logs: Where submitit keeps its files.
        cluster: ``"slurm"``, or ``"local"`` for submitit's own processes on this machine.
        minutes: Time limit of one run.
        parameters: Further parameters of submitit's executor, such as ``slurm_partition``.
        parallel: Runs at a time; by default as many as Slurm gives, or one per core with ``"local"``.
    """

    def __init__(
        self,
        logs: Path,
        *,
        cluster: str = "slurm",
        minutes: int = 24 * 60,
        parameters: Mapping[str, Any] | None = None,
        parallel: int | None = None,
    ) -> None:
        try:
            import submitit
        except ImportError as error:
            raise MissingExtraError("submitit", "slurm", "The engine 'slurm'") from error
        self._executor: Any = submitit.AutoExecutor(folder=str(logs / "%j"), cluster=cluster)
        settings = {"timeout_min": minutes, "cpus_per_task": 1, "name": "adc-study", **(parameters or {})}
        if cluster == "slurm" and parallel is not None:
            settings["slurm_array_parallelism"] = parallel
        self._executor.update_parameters(**settings)
        here = available_cores() if parallel is None else parallel
        self._window = here if cluster == "local" else None

    def map(self, function: JobFunction, jobs: Sequence[Job]) -> Iterator[JobResult]:
        """Yield results as they come."""
        waiting, window = list(jobs), self._window or len(jobs)
        running: dict[Any, Job] = {}
        while waiting or running:
            batch, waiting = waiting[: window - len(running)], waiting[window - len(running) :]
            if batch:
                running.update(zip(self._executor.map_array(Requeued(function), batch), batch, strict=True))
            for submitted in [entry for entry in running if entry.done()]:
                yield _result(submitted, running.pop(submitted))
            time.sleep(_POLL)


def _result(submitted: Any, job: Job) -> JobResult:
    error = submitted.exception()
    if error is not None:
        return JobResult.lost(job, f"Slurm job {submitted.job_id} failed: {error}")
    result: JobResult = submitted.result()
    return result
