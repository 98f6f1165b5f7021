"""The recording of one trial: a folder with its metadata, every state and every policy step."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.files import write_json

from .tables import BASE_COLUMNS, TableWriter, base_numbers, joint_columns

__all__ = ["FORMAT", "TrialRecorder"]

FORMAT = "adc-trial"
VERSION = 1
_KEPT_TARGETS = 1000


class TrialRecorder:
    """Listens to a backend and writes one trial.

    - ``states.parquet``: every state received while the policy drove, with the targets that the robot had acknowledged;
      a trajectory log, described by ``states.json``.
    - ``other_states.parquet``: the states before and after, which have no targets of the policy.
    - ``steps.parquet``: every policy step.
    - ``trial.json``: everything else. User names and passwords are never given to it.

    Until the trial is closed, and for ever if it never is, the tables are CSV files of the same names.

    Args:
        folder: Where to write; made, must not hold a trial yet.
        joints: Joint names in order.
        stiffness: Commanded gains, by joint in order; None if there was no robot to command.
        damping: Commanded gains, likewise.
        source: What the states come from, such as ``"practice robot"``.
        metadata: What ``trial.json`` shall say beside outcome and events.
    """

    def __init__(
        self,
        folder: Path,
        *,
        joints: Sequence[str],
        stiffness: Sequence[float] | None,
        damping: Sequence[float] | None,
        source: str,
        metadata: Mapping[str, Any],
    ) -> None:
        if (folder / "trial.json").exists():
            raise FileExistsError(f"{folder} holds a trial already: choose another folder.")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._joints = tuple(joints)
        self._metadata = {
            "format": FORMAT,
            "version": VERSION,
            "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "source": source,
            "joints": list(joints),
            "commanded": None
            if stiffness is None or damping is None
            else {
                "stiffness": dict(zip(joints, map(float, stiffness), strict=True)),
                "damping": dict(zip(joints, map(float, damping), strict=True)),
            },
            **metadata,
        }
        self._lock = threading.Lock()
        self._targets: OrderedDict[int, NDArray[np.float64]] = OrderedDict()
        self._policy_drives = self._closed = False
        self.events: list[dict[str, Any]] = []
        """Everything that happened, with the host's time since the beginning, s."""
        self._begin = time.monotonic()
        self._tables = TableWriter()
        motion = [column for kind in ("position", "velocity") for column in joint_columns(kind, joints)]
        torque = joint_columns("torque", joints)
        self._tables.declare(
            "states", folder / "states.csv",
            ["time", *motion, *joint_columns("target", joints), *torque, *BASE_COLUMNS],
        )  # fmt: skip
        self._tables.declare("other", folder / "other_states.csv", ["time", *motion, *torque, *BASE_COLUMNS])
        self._step_columns: list[str] | None = None
        self._write_metadata({"outcome": None})

    def state(self, sample: Any, targets: NDArray[np.float64] | None) -> None:
        """Take note of a state message; not after the trial was closed."""
        if self._closed:
            return
        with self._lock:
            acknowledged = self._targets.get(sample.echo) if self._policy_drives else None
        motion = [*sample.position.tolist(), *sample.velocity.tolist()]
        rest = [*sample.load.tolist(), *base_numbers(sample)]
        if acknowledged is None:
            self._tables.write("other", [sample.stamp, *motion, *rest])
        else:
            self._tables.write("states", [sample.stamp, *motion, *acknowledged.tolist(), *rest])

    def command(self, command: Any) -> None:
        """Take note of new targets; only those of the policy are kept."""
        with self._lock:
            if self._policy_drives:
                self._targets[command.key] = command.position
                if len(self._targets) > _KEPT_TARGETS:
                    self._targets.popitem(last=False)

    def event(self, name: str, details: Mapping[str, Any]) -> None:
        """Take note of an event; its own ``time`` is the robot's."""
        told = {"robot_time" if key == "time" else key: value for key, value in details.items()}
        with self._lock:
            self.events.append({"time": round(time.monotonic() - self._begin, 4), "event": name, **told})
            if name == "policy":
                self._policy_drives = True
            elif name in ("guard", "stopped", "armed", "closed"):
                self._policy_drives = False
                self._targets.clear()

    def step(self, values: Mapping[str, Any]) -> None:
        """Append a policy step; the first decides the columns."""
        if self._step_columns is None:
            self._step_columns = list(values)
            self._tables.declare("steps", self.folder / "steps.csv", self._step_columns)
        self._tables.write("steps", [values[name] for name in self._step_columns])

    def close(self, outcome: Mapping[str, Any] | None) -> Path:
        """Write everything and return the path of ``trial.json``; without an outcome the program died in it.

        It may be called again with more: an outcome that knows the motors off, and the events until then.

        Raises:
            OSError: A table could not be written to its end; the rest is there.
        """
        self._closed = True
        try:
            self._tables.close()
        finally:
            if (self.folder / "states.parquet").exists():
                names = ("joints", "commanded", "source")
                write_json(self.folder / "states.json", {name: self._metadata[name] for name in names})
            told = {"outcome": None if outcome is None else dict(outcome), "events": self.events}
            path = self._write_metadata(told)
        return path

    def _write_metadata(self, more: Mapping[str, Any]) -> Path:
        path = self.folder / "trial.json"
        write_json(path, {**self._metadata, **more})
        return path
