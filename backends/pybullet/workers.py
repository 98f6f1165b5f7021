"""Rows of a batch: simulated in this process one after another, or in worker processes.

State and commands lie in memory that all processes map. It has no name in the file system, so nothing is left behind,
however a process ends. A policy step costs one short message to each worker and one back.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from adc_wrappers.core.errors import BackendError

from .arrays import BatchArrays
from .model import WorldSettings
from .world import World

__all__ = ["LocalBatch", "WorkerPool"]


class LocalBatch:
    """The worlds of some rows of the arrays.

    Args:
        settings: Common to the batch.
        arrays: Commands, requests and states of the whole batch.
        link_names: Links whose contact is reported.
        first: First row that is simulated here.
        count: Number of rows that are.
    """

    def __init__(
        self, settings: WorldSettings, arrays: BatchArrays, link_names: Sequence[str], first: int, count: int
    ) -> None:
        self._arrays = arrays
        self._rows = slice(first, first + count)
        self._worlds: list[World] = []
        try:
            for _ in range(count):
                self._worlds.append(World(settings, link_names))
        except BaseException:
            self.close()
            raise

    def advance(self) -> None:
        """Carry out what was requested, then simulate one policy step of every row."""
        arrays, rows = self._arrays, self._rows
        for row, requested in enumerate(arrays.requested[rows].tolist(), start=rows.start):
            if requested:
                self._carry_out_requests(row)
        arrays.states[rows] = [
            world.advance(targets, stiffness, damping)
            for world, targets, stiffness, damping in zip(
                self._worlds,
                arrays.targets[rows].tolist(),
                arrays.stiffness[rows].tolist(),
                arrays.damping[rows].tolist(),
                strict=True,
            )
        ]

    def save(self) -> None:
        """Save every world into its row."""
        self._arrays.saved[self._rows] = [world.save() for world in self._worlds]

    def load(self) -> None:
        """Put every world into what is in its row, under the row's parameters; requests stay."""
        for world, row in zip(self._worlds, range(self._rows.start, self._rows.stop), strict=True):
            self._set_parameters(row)
            world.load(self._arrays.saved[row].tolist())

    def _set_parameters(self, row: int) -> None:
        arrays, world = self._arrays, self._worlds[row - self._rows.start]
        arrays.parameters_changed[row] = 0.0
        world.set_parameters(
            float(arrays.friction[row]), float(arrays.base_mass_offset[row]), int(arrays.command_delay[row])
        )
        world.set_joint_friction(arrays.joint_coulomb[row].tolist(), arrays.joint_viscous[row].tolist())

    def _carry_out_requests(self, row: int) -> None:
        """Take over parameters, start and push of a row, in this order, and take the requests back."""
        arrays, world = self._arrays, self._worlds[row - self._rows.start]
        arrays.requested[row] = 0.0
        if arrays.parameters_changed[row]:
            self._set_parameters(row)
        if arrays.reset_wanted[row]:
            arrays.reset_wanted[row] = 0.0
            world.reset(arrays.starts[row].tolist())
        if arrays.pushes[row].any():
            world.push(arrays.pushes[row].tolist())
            arrays.pushes[row] = 0.0

    def settle(self) -> None:
        """Nothing is ever at work here between two calls."""
        return

    def close(self) -> None:
        """Give every physics client back; may be called twice."""
        for world in self._worlds:
            world.close()


_STEP: Final = b"step"
_SAVE: Final = b"save"
_LOAD: Final = b"load"
_STOP: Final = b"stop"
_DONE: Final = b"done"
_PATIENCE: Final = 300.0
_GOODBYE: Final = 5.0
_start_lock = threading.Lock()


class _Shape(NamedTuple):
    num_envs: int
    joints: int
    link_names: tuple[str, ...]


class _Worker(NamedTuple):
    process: Any
    pipe: Connection


class WorkerPool:
    """Worker processes that simulate a batch together.

    Args:
        settings: Common to the batch.
        num_envs: Rows of the batch.
        joints: Joints of a robot.
        link_names: Links whose contact is reported.
        count: Number of worker processes, at most ``num_envs``.

    Raises:
        BackendError: A worker could not start.
    """

    def __init__(
        self, settings: WorldSettings, num_envs: int, joints: int, link_names: Sequence[str], count: int
    ) -> None:
        context = multiprocessing.get_context("spawn")
        size = BatchArrays.size(num_envs, joints, len(link_names))
        shape = _Shape(num_envs, joints, tuple(link_names))
        memory = context.RawArray("d", size)
        self.arrays = BatchArrays(num_envs, joints, len(link_names), memory)
        self._workers: list[_Worker] = []
        self._owing: list[_Worker] = []
        self._stop = weakref.finalize(self, _stop, self._workers, os.getpid())
        try:
            for part in np.array_split(np.arange(num_envs), count):
                first, rows = int(part[0]), len(part)
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_serve, args=(theirs, settings, shape, memory, first, rows), daemon=True
                )
                self._workers.append(_Worker(process, ours))
                with theirs, _start_lock, _without_main():
                    process.start()
            self._owing.extend(self._workers)
            self.settle()
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.process.pid for worker in self._workers]

    def advance(self) -> None:
        """Simulate one policy step of every row.

        Raises:
            BackendError: A worker died or failed; the pool is closed then.
        """
        self._tell(_STEP)

    def save(self) -> None:
        """Save every world into its row; raises as :meth:`advance` does."""
        self._tell(_SAVE)

    def load(self) -> None:
        """Put every world into what is in its row; raises as :meth:`advance` does."""
        self._tell(_LOAD)

    def _tell(self, task: bytes) -> None:
        if not self._stop.alive:
            raise BackendError("the workers of this backend have been stopped. Make a new backend.")
        self.settle()
        for worker in self._workers:
            with suppress(OSError):  # a dead worker is reported with its exit code, when its answer is due
                worker.pipe.send_bytes(task)
            self._owing.append(worker)
        self.settle()

    def settle(self) -> None:
        """Wait until no worker is at work, after an interrupted call too: until then the arrays are theirs.

        Raises:
            BackendError: A worker died or failed; the pool is closed then.
        """
        while self._owing:
            complaint = _answer(self._owing[0])
            if complaint:
                self.close()
                raise BackendError(complaint)
            del self._owing[0]

    def close(self) -> None:
        """Stop the workers and wait for them; may be called twice."""
        self._owing.clear()
        self._stop()


def _answer(worker: _Worker) -> str | None:
    """Wait for a worker's answer and return what is wrong, if anything is."""
    try:
        if not worker.pipe.poll(_PATIENCE):
            return (
                f"a worker process (pid {worker.process.pid}) did not answer within {_PATIENCE:g} s and is given up. "
                "Make a new backend, with fewer envs or more workers."
            )
        reply = worker.pipe.recv_bytes()
    except (EOFError, OSError):
        return _obituary(worker)
    return None if reply == _DONE else f"a worker process failed:\n{reply.decode()}"


def _obituary(worker: _Worker) -> str:
    worker.process.join(_GOODBYE)
    code = worker.process.exitcode
    cause = ""
    if code is not None and code < 0:
        with suppress(ValueError):
            cause = f" ({signal.Signals(-code).name})"
    return (
        f"a worker process (pid {worker.process.pid}) died with exit code {code}{cause}. Its envs are lost and the "
        "backend is closed: make a new one. After a SIGKILL, look for a lack of memory first (an env takes about "
        "36 MB) and use fewer envs; otherwise see what the worker printed, or use workers=0 to see the error itself."
    )


def _stop(workers: list[_Worker], owner: int) -> None:
    """Ask every worker to end, wait, and end those that do not; a fork of the owner leaves them alone."""
    if os.getpid() != owner:
        return
    started = [worker for worker in workers if worker.process.pid is not None]
    for worker in workers:
        with suppress(OSError):
            worker.pipe.send_bytes(_STOP)
        worker.pipe.close()
    for worker in started:
        worker.process.join(_GOODBYE)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def _serve(pipe: Connection, settings: WorldSettings, shape: _Shape, memory: Any, first: int, count: int) -> None:
    """Body of a worker process: simulate on demand, until told to stop or until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    try:
        arrays = BatchArrays(shape.num_envs, shape.joints, len(shape.link_names), memory)
        batch = LocalBatch(settings, arrays, shape.link_names, first, count)
        gc.freeze()  # the collector need not look at what stays
        pipe.send_bytes(_DONE)
        duties = {_STEP: batch.advance, _SAVE: batch.save, _LOAD: batch.load}
        while (duty := duties.get(pipe.recv_bytes())) is not None:
            duty()
            pipe.send_bytes(_DONE)
    except (EOFError, ConnectionError):
        return
    except Exception:
        with suppress(OSError):
            pipe.send_bytes(traceback.format_exc().encode())


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the user's script from ``multiprocessing``, which would run it again in every worker.

    Workers need nothing of it: so a script needs no ``if __name__ == "__main__"``, and a worker does not load torch.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
