"""The lock of a run folder: one process at a time writes into it, and whoever is turned away is told who that is."""

from __future__ import annotations

import functools
import importlib
import json
import multiprocessing
import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import FrameType
from typing import IO, Any, ClassVar, Concatenate, ParamSpec, TypeVar

from adc_wrappers.core.errors import RunFolderError
from adc_wrappers.core.files import make_folder, sync_folder
from adc_wrappers.core.reading import parse_json

__all__ = ["LOCK_FILE", "FolderLock", "FolderLockedError", "LockOwner", "holding_folder"]


@dataclass(frozen=True)
class LockOwner:
    """The process that holds a lock."""

    host: str
    """Name of the machine."""

    machine: str
    """Its id, which outlives a reboot; empty where it has none."""

    boot: str
    """Id of its present boot; empty where it has none."""

    namespace: str
    """Which process numbers are meant: containers have their own."""

    pid: int
    """The process."""

    started: str
    """When the process began, in the kernel's ticks: a number may come again, this does not."""

    slurm: str
    """Its Slurm job; empty outside of Slurm."""

    restarts: int
    """How often Slurm had queued that job again."""

    command: str
    """What it was started with."""

    since: str
    """When it took the lock, UTC."""

    @classmethod
    def this_process(cls) -> LockOwner:
        """Return what this process writes into its locks."""
        pid = os.getpid()
        job = os.environ.get("SLURM_JOB_ID", "")
        return cls(
            host=socket.gethostname(),
            machine=_read("/etc/machine-id"),
            boot=_read("/proc/sys/kernel/random/boot_id"),
            namespace=_link("/proc/self/ns/pid"),
            pid=pid,
            started=_process_state(pid)[1],
            slurm=f"{os.environ.get('SLURM_CLUSTER_NAME', '')}/{job}" if job else "",
            restarts=int(os.environ.get("SLURM_RESTART_COUNT") or 0),
            command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            since=time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
        )

    @classmethod
    def parse(cls, content: bytes) -> LockOwner | None:
        """Return the owner that a lock names; None for a lock that is being written, or was left half-written."""
        try:
            values = parse_json(content, "the lock", RunFolderError)
        except RunFolderError:
            return None
        kinds = {field.name: int if field.name in ("pid", "restarts") else str for field in fields(cls)}
        whole = isinstance(values, dict) and values.keys() == kinds.keys()
        if not whole or any(type(values[name]) is not kind for name, kind in kinds.items()) or values["pid"] < 1:
            return None
        return cls(**values)

    def is_certainly_dead(self) -> bool:
        """Whether it cannot be writing any more; False wherever that cannot be known from here."""
        here = LockOwner.this_process()
        if self.slurm and self.slurm == here.slurm and self.restarts < here.restarts:
            return True  # Slurm queues a job again only when it is gone
        if (self.host, self.machine) != (here.host, here.machine):
            return False
        if self.boot != here.boot:
            return bool(self.machine and self.boot and here.boot)  # the machine has been off in between
        if self.namespace != here.namespace:
            return False
        state, started = _process_state(self.pid)
        return state in ("gone", "Z") or (bool(self.started and started) and started != self.started)

    def __str__(self) -> str:
        """Say who it is."""
        job = f", Slurm job {self.slurm.split('/')[-1]}" if self.slurm else ""
        return f"process {self.pid} on {self.host}{job} ({self.command}), since {self.since} UTC"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def _process_state(pid: int) -> tuple[str, str]:
    """Return a process's state (``"gone"``, the kernel's letter, or ``"?"``) and when it began, in ticks."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone", ""
    except (PermissionError, OverflowError):
        pass  # somebody else's: it is there
    stat = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (stat[0], stat[19]) if len(stat) > 19 else ("?", "")


LOCK_FILE = "run.lock"
_FCNTL: Any = importlib.import_module("fcntl") if os.name == "posix" else None
"""Not on Windows, where a stale lock is explained and not taken over."""

_SIGNALS = ("SIGTERM", "SIGHUP")
_ATTEMPTS = 20
_P = ParamSpec("_P")
_R = TypeVar("_R")


class FolderLockedError(RunFolderError):
    """A run folder in which another process is writing, or may be."""


class FolderLock:
    """The hold of this process on a folder: a file made with ``O_EXCL``, which network file systems honour too.

    The thread that holds it may take it again. It is given back at the end of the ``with`` block, on an exception,
    Ctrl-C, SIGTERM and SIGHUP; a process that was killed leaves it behind, and the next one on that machine takes it
    over once the old process is certainly gone. A forked child neither holds nor frees it.

    Args:
        folder: The folder; it is made if it is not there.
        heed_signals: Let SIGTERM and SIGHUP end the program as an exception does, unless somebody handles them.

    Raises:
        FolderLockedError: Somebody else holds it; says who, and what to do.
    """

    _held: ClassVar[dict[str, tuple[int, int, int]]] = {}
    """Path → process, thread and how often; of this process, and what a fork copied of its parent's."""
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, folder: Path, *, heed_signals: bool = True) -> None:
        self.folder = Path(folder)
        self._heeds = heed_signals
        self._content = b""
        self.path = self.folder / LOCK_FILE
        self._key = ""
        self._signals: dict[int, Any] = {}

    def __enter__(self) -> FolderLock:
        """Take the lock."""
        make_folder(self.folder)
        self._key = str(self.path.resolve())
        mine = (os.getpid(), threading.get_ident())
        with self._guard:
            pid, thread, count = self._held.get(self._key, (0, 0, 0))
            if (pid, thread) != mine:
                self._acquire()
                count = 0
            self._held[self._key] = (*mine, count + 1)
        if count == 0:
            self._heed_signals()
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        mine = (os.getpid(), threading.get_ident())
        with self._guard:
            pid, thread, count = self._held.get(self._key, (0, 0, 0))
            if (pid, thread) != mine:
                return  # a forked child comes by here; the lock is its parent's
            if count > 1:
                self._held[self._key] = (pid, thread, count - 1)
                return
            del self._held[self._key]
            if _content_of(self.path) == self._content:  # else somebody removed it, and it may be another's by now
                self.path.unlink(missing_ok=True)
        for number, before in self._signals.items():
            signal.signal(number, before)
        self._signals = {}

    def _acquire(self) -> None:
        content = self._content = (json.dumps(asdict(LockOwner.this_process()), indent=1) + "\n").encode()
        for _ in range(_ATTEMPTS):
            try:
                descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            except FileExistsError:
                if self._take_over(content):
                    return
                continue  # it was given back just now
            try:
                os.write(descriptor, content)
                os.fsync(descriptor)
            except OSError:
                self.path.unlink()
                raise
            finally:
                os.close(descriptor)
            sync_folder(self.folder)
            return
        raise FolderLockedError(f"{self.folder} is taken and given back by others all the time; try again.")

    def _take_over(self, content: bytes) -> bool:
        """Write our name over that of a dead owner; return False if the lock is gone by now, raise if it is alive.

        Two that find the same dead owner are on its machine; the kernel lets them in here one after the other.
        """
        try:
            file = self.path.open("rb+", buffering=0)
        except FileNotFoundError:
            return False
        with file:
            alone = _flock(file)
            try:
                same = os.path.samestat(os.fstat(file.fileno()), self.path.stat())
            except FileNotFoundError:
                return False
            if not same:
                return False
            owner = LockOwner.parse(file.read())
            if not alone or owner is None or not owner.is_certainly_dead():
                raise FolderLockedError(self._refusal(owner))
            file.seek(0)
            file.truncate()
            file.write(content)
            os.fsync(file.fileno())
        return True

    def _refusal(self, owner: LockOwner | None) -> str:
        here = LockOwner.this_process()
        if owner is None:
            return (
                f"{self.folder} is locked, and {self.path.name} does not say by whom: it is being written just now, or "
                f"was left by a process that died at that moment. If nothing trains there, remove {self.path}."
            )
        if (owner.pid, owner.host, owner.namespace) == (here.pid, here.host, here.namespace):
            return f"{self.folder} is in use by another thread of this process. Choose another folder (--out)."
        text = f"{self.folder} is in use by {owner}. Wait for it, stop it, or choose another folder (--out)."
        if (owner.host, owner.machine, owner.namespace) != (here.host, here.machine, here.namespace):
            where = owner.host if owner.host != here.host else f"{owner.host}, in another container or machine"
            text += (
                f" Whether it still runs cannot be seen from here: look on {where} (`ps -p {owner.pid}`); if it does "
                f"not, remove {self.path} and try again."
            )
        return text

    def _heed_signals(self) -> None:
        worker = multiprocessing.parent_process() is not None  # a pool would send the exception on as its answer
        if not self._heeds or worker or threading.current_thread() is not threading.main_thread():
            return
        owner = os.getpid()

        def end(number: int, frame: FrameType | None) -> None:
            if os.getpid() != owner:  # a forked child ends at once, as it would have
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
                return
            raise SystemExit(128 + number)

        for name in _SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                self._signals[number] = signal.signal(number, end)


def holding_folder(train: Callable[Concatenate[Any, Any, _P], _R]) -> Callable[Concatenate[Any, Any, _P], _R]:
    """Let a function ``train(config, folder, …)`` hold the run folder while it runs."""

    @functools.wraps(train)
    def alone(config: Any, folder: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with FolderLock(folder.path):
            return train(config, folder, *args, **kwargs)

    return alone


def _flock(file: IO[bytes]) -> bool:
    """Wait until no other process of this machine is here; False where the file system cannot do that."""
    if _FCNTL is None:
        return False
    try:
        _FCNTL.flock(file, _FCNTL.LOCK_EX)
    except OSError:
        return False
    return True


def _content_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
