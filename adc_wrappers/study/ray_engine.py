"""Runs of a study on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from adc_wrappers.core.errors import MissingExtraError

from .engines import JobFunction
from .job import Job, JobResult
from .transport import pack_unless_shared, unpack

__all__ = ["RayEngine"]


class RayEngine:
    """One core of a Ray cluster per run.

    Run folders are found where they are if the machines share a file system; else they are sent back.

    Args:
        address: Address of a cluster, ``"auto"`` for the one this machine belongs to, None to start one here.
    """

    def __init__(self, address: str | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError("ray", "ray", "The engine 'ray'") from error
        self._ray: Any = ray
        self._address = address

    def map(self, function: JobFunction, jobs: Sequence[Job]) -> Iterator[JobResult]:
        """Yield results as they come."""
        ray = self._ray
        mine = not ray.is_initialized()
        if mine:
            ray.init(address=self._address, log_to_driver=False, include_dashboard=False if not self._address else None)
        try:
            remote = ray.remote(num_cpus=1, max_retries=1)(pack_unless_shared)
            waiting = {remote.remote(function, job): job for job in jobs}
            while waiting:
                done, _ = ray.wait(list(waiting), num_returns=1)
                for reference in done:
                    yield self._result(reference, waiting.pop(reference))
        finally:
            if mine:
                ray.shutdown()

    def _result(self, reference: Any, job: Job) -> JobResult:
        try:
            result: JobResult = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return JobResult.lost(job, f"Ray lost the run: {error}")
        return unpack(result, Path(job.folder))
