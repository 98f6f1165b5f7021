"""Where the runs of a study are done: one function, mapped over jobs by processes here, by Ray, or by Slurm."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import Protocol

from .job import Job, JobResult

__all__ = ["Engine", "JobFunction", "LocalEngine"]

JobFunction = Callable[[Job], JobResult]

_ATTEMPTS = 2
"""Times that a run may take its process down with it before it counts as failed."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Engine(Protocol):
    """Does jobs somewhere."""

    def map(self, function: JobFunction, jobs: Sequence[Job]) -> Iterator[JobResult]:
        """Yield the result of every job as it comes; a job whose process dies gives a failed one."""


class LocalEngine:
    """Processes on this machine, each with one thread, each doing one run after another.

    Args:
        processes: How many; by default one per core.
    """

    def __init__(self, processes: int | None = None) -> None:
        if processes is not None and processes < 1:
            raise ValueError(f"jobs: expected at least 1 process, got {processes}.")
        self.processes = available_cores() if processes is None else processes

    def map(self, function: JobFunction, jobs: Sequence[Job]) -> Iterator[JobResult]:
        """Yield results as they come."""
        waiting, attempts = deque(jobs), Counter[str]()
        idle = [_process() for _ in range(min(self.processes, len(waiting)))]
        running: dict[Future[JobResult], tuple[ProcessPoolExecutor, Job]] = {}
        with one_thread_each():
            try:
                while waiting or running:
                    while waiting and idle:
                        job, process = waiting.popleft(), idle.pop()
                        running[process.submit(function, job)] = (process, job)
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        process, job = running.pop(future)
                        died = isinstance(future.exception(), BrokenProcessPool)
                        idle.append(_process() if died else process)
                        attempts[job.folder] += died
                        if not died:
                            yield future.result()
                        elif attempts[job.folder] < _ATTEMPTS:
                            waiting.append(job)
                        else:
                            yield JobResult.lost(job, "the process died, twice: killed, out of memory, or crashed.")
            finally:
                for process in (*idle, *(process for process, _ in running.values())):
                    process.shutdown(wait=False, cancel_futures=True)


def _process() -> ProcessPoolExecutor:
    """Return a pool of one, so that a process that dies takes nobody else's run with it."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_begin_worker)


class one_thread_each:  # noqa: N801 (a context manager)
    """Lets child processes start with one thread: as many runs as cores are faster side by side."""

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


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _begin_worker() -> None:
    """End this process when the one that started it is gone, so that a study started again meets no old worker."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait_for([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
