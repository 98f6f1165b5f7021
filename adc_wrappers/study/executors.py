"""Executors of a study's runs: processes here, a Ray cluster, or Slurm; and a plan done by one of them.

What is finished is left alone, what fails is reported, what was cut off goes on.
"""

from __future__ import annotations

import dataclasses
import io
import multiprocessing
import os
import threading
import time
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, Protocol

from adc_wrappers.core.cores import available_cores
from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.files import write_atomically
from adc_wrappers.runs.lock import LOCK_FILE

from .job import Job, JobResult, is_finished, run_job, write_down
from .plan import STUDY_FILE

__all__ = [
    "Executor",
    "JobFunction",
    "LocalExecutor",
    "RayExecutor",
    "SlurmExecutor",
    "StudyOutcome",
    "pack_unless_shared",
    "run_study",
    "unpack",
]


JobFunction = Callable[[Job], JobResult]

_ATTEMPTS = 2
"""Times that a run may take its process down with it before it counts as failed."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Executor(Protocol):
    """A place where jobs are done."""

    def map(self, function: JobFunction, jobs: Sequence[Job]) -> Iterator[JobResult]:
        """Yield the result of every job as it comes; a job whose process dies gives a failed one."""


class LocalExecutor:
    """Processes on this machine, each with one thread, each doing one run after another.

    Args:
        processes: How many; by default one per core.
        devices: Numbers of GPUs. One run at a time is done on each, in a process of its own that sees no other GPU: for
            every run ``cuda:0`` is its own. Such a process may have as many threads as it likes.
    """

    def __init__(self, processes: int | None = None, devices: Sequence[str] = ()) -> None:
        if processes is not None and processes < 1:
            raise ValueError(f"jobs: expected at least 1 process, got {processes}.")
        if len(set(devices)) != len(devices) or not all(device.isdecimal() for device in devices):
            raise ValueError(f"devices: expected numbers of GPUs, each once, as in 0,1; got {','.join(devices)!r}.")
        if devices and processes is not None and processes > len(devices):
            raise ValueError(f"jobs: expected at most {len(devices)}, one per device, got {processes}.")
        self.devices = tuple(devices)
        self.processes = processes if processes is not None else len(devices) or available_cores()

    def map(self, function: JobFunction, jobs: Sequence[Job]) -> Iterator[JobResult]:
        """Yield results as they come."""
        waiting, attempts = deque(jobs), Counter[str]()
        idle = [_Worker(device) for device in (self.devices or (None,) * self.processes)[: self.processes]]
        running: dict[Future[JobResult], tuple[_Worker, Job]] = {}
        with nullcontext() if self.devices else one_thread_each():
            try:
                while waiting or running:
                    while waiting and idle:
                        job, worker = waiting.popleft(), idle.pop()
                        running[worker.process().submit(function, job)] = (worker, job)
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        worker, job = running.pop(future)
                        died = isinstance(future.exception(), BrokenProcessPool)
                        if died or self.devices:  # what a simulator leaves on a GPU goes with its process
                            worker.end()
                        idle.append(worker)
                        attempts[job.folder] += died
                        if not died:
                            yield future.result()
                        elif attempts[job.folder] < _ATTEMPTS:
                            waiting.append(job)
                        else:
                            yield JobResult.lost(job, "the process died, twice: killed, out of memory, or crashed.")
            finally:
                for worker in (*idle, *(worker for worker, _ in running.values())):
                    worker.end()


class _Worker:
    """A pool of one, so that a process that dies takes nobody else's run with it.

    Args:
        device: The GPU that its process sees; None for whatever there is.
    """

    def __init__(self, device: str | None) -> None:
        self._device = device
        self._process: ProcessPoolExecutor | None = None

    def process(self) -> ProcessPoolExecutor:
        """Return the process, begun anew after :meth:`end`."""
        if self._process is None:
            spawn = multiprocessing.get_context("spawn")
            self._process = ProcessPoolExecutor(1, spawn, initializer=_begin_worker, initargs=(self._device,))
        return self._process

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.shutdown(wait=False, cancel_futures=True)
            self._process = None


class one_thread_each:  # noqa: N801 (a context manager)
    """A context in which child processes start with one thread: as many runs as cores are faster side by side."""

    def __enter__(self) -> None:
        """Set what the numerical libraries read when they are loaded."""
        self._before = {name: os.environ.get(name) for name in _THREADS}
        os.environ.update(dict.fromkeys(_THREADS, "1"))

    def __exit__(self, *_: object) -> None:
        """Put back what was there."""
        for name, value in self._before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _begin_worker(device: str | None = None) -> None:
    """End this process when the one that started it is gone, so that a study started again meets no old worker.

    Args:
        device: The one GPU that this process shall see; CUDA reads it when it is first used.
    """
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait_for([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def pack_unless_shared(function: JobFunction, job: Job) -> JobResult:
    """Do a job; if this machine does not see the study's folder, return the run folder with the result."""
    folder = Path(job.folder)
    shared = (folder.parents[1] / STUDY_FILE).exists()
    result = function(job)
    if shared:
        return result
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != LOCK_FILE:
                archive.write(path, path.relative_to(folder))
    return dataclasses.replace(result, archive=content.getvalue())


def unpack(result: JobResult, folder: Path) -> JobResult:
    """Write the run folder that came with a result, if one did."""
    if result.archive is None:
        return result
    with zipfile.ZipFile(io.BytesIO(result.archive)) as archive:
        names = archive.namelist()
        for name in names:
            if not (folder / name).resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"the run folder that came back has a file outside of itself: {name!r}.")
        for name in sorted(names, key=lambda name: name == "eval.json"):  # last: it says that the run is finished
            write_atomically(folder / name, archive.read(name))
    return dataclasses.replace(result, archive=None)


class RayExecutor:
    """One core of a Ray cluster per run.

    Run folders are found where they are if the machines share a file system; else they are sent back.

    Args:
        address: Address of a cluster, ``"auto"`` for the one this machine belongs to, None to start one here.
        gpus: GPUs that a run needs; Ray lets it see those only.
    """

    def __init__(self, address: str | None = None, gpus: int = 0) -> None:
        self.gpus = gpus
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError("ray", "ray", "The executor 'ray'") from error
        self._ray: Any = ray
        self._address = address

    def map(self, function: JobFunction, jobs: Sequence[Job]) -> Iterator[JobResult]:
        """Yield results as they come."""
        ray = self._ray
        mine = not ray.is_initialized()
        if mine:
            ray.init(address=self._address, log_to_driver=False, include_dashboard=False if not self._address else None)
        try:
            remote = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=1)(pack_unless_shared)
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


class SlurmExecutor:
    """One Slurm job per run, submitted as an array; the machines must share the study's folder.

    Args:
        logs: Where submitit keeps its files.
        cluster: ``"slurm"``, or ``"local"`` for submitit's own processes on this machine.
        minutes: Time limit of one run.
        parameters: Further parameters of submitit's executor, such as ``slurm_partition``.
        parallel: Runs at a time; by default as many as Slurm gives, or one per core with ``"local"``.
        gpus: GPUs that a run needs; Slurm lets it see those only.
    """

    def __init__(
        self,
        logs: Path,
        *,
        cluster: str = "slurm",
        minutes: int = 24 * 60,
        parameters: Mapping[str, Any] | None = None,
        parallel: int | None = None,
        gpus: int = 0,
    ) -> None:
        try:
            import submitit
        except ImportError as error:
            raise MissingExtraError("submitit", "slurm", "The executor 'slurm'") from error
        self._executor: Any = submitit.AutoExecutor(folder=str(logs / "%j"), cluster=cluster)
        needs = {"gpus_per_node": gpus} if gpus else {}
        settings = {"timeout_min": minutes, "cpus_per_task": 1, "name": "adc-study", **needs, **(parameters or {})}
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


@dataclass
class StudyOutcome:
    """The outcome of the runs."""

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
