"""Who holds a lock, and whether that process can still be there."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path

from adc_wrappers.core.reading import parse_json

from .errors import RunFolderError

__all__ = ["LockOwner"]


@dataclass(frozen=True)
class LockOwner:
    """Who holds a lock."""

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
