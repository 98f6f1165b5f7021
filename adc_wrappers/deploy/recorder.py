"""The recording of one trial: a folder with its metadata, every state and every policy step."""

from __future__ import annotations

import csv
import queue
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
from adc_wrappers.trajectories.columns import BASE_COLUMNS as _BASE_GROUPS

__all__ = ["BASE_COLUMNS", "FORMAT", "TableWriter", "TrialRecorder", "base_numbers", "joint_columns"]


BASE_COLUMNS: tuple[str, ...] = tuple(name for names in _BASE_GROUPS.values() for name in names)
"""Columns of the body in a trajectory log; velocities are in the body frame."""


def joint_columns(kind: str, joints: Sequence[str]) -> list[str]:
    """Return the columns of one number per joint.

    >>> joint_columns("position", ["fl_hx", "fl_hy"])
    ['position.fl_hx', 'position.fl_hy']
    """
    return [f"{kind}.{joint}" for joint in joints]


def base_numbers(sample: Any) -> list[float]:
    """Return the numbers of :data:`BASE_COLUMNS` from a state sample."""
    parts: tuple[NDArray[np.float64], ...] = (
        sample.base_position, sample.base_quaternion, sample.linear_velocity, sample.angular_velocity,
    )  # fmt: skip
    return [float(value) for part in parts for value in part]


class TableWriter:
    """A writer that keeps nobody waiting who gives it rows: to CSV files, which become Parquet files in the end.

    A process that dies in between leaves what it wrote until then as CSV.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """

    def __init__(self) -> None:
        from adc_wrappers.trajectories.parquet import csv_to_parquet

        self._finish = csv_to_parquet
        self._rows: queue.SimpleQueue[tuple[str, list[Any]] | None] = queue.SimpleQueue()
        self._tables: dict[str, tuple[Path, tuple[str, ...]]] = {}
        self._files: dict[str, Any] = {}
        self._writers: dict[str, Any] = {}
        self._errors: dict[str, OSError] = {}
        self._thread = threading.Thread(target=self._run, name="trial tables", daemon=True)
        self._thread.start()

    def declare(self, name: str, path: Path, columns: Sequence[str]) -> None:
        """Say where a table is to be; it is made with its first row."""
        self._tables[name] = (path, tuple(columns))

    def _open(self, name: str) -> None:
        path, columns = self._tables[name]
        self._files[name] = file = path.open("w", newline="", encoding="utf-8")
        self._writers[name] = csv.writer(file, lineterminator="\n")
        self._writers[name].writerow(columns)

    def write(self, name: str, row: list[Any]) -> None:
        """Append a row to a table."""
        self._rows.put((name, row))

    def close(self) -> None:
        """Write what is left and turn every table into a Parquet file; may be called twice.

        Raises:
            OSError: Something could not be written. Tables that are not whole stay CSV files.
        """
        if self._thread.is_alive():
            self._rows.put(None)
            self._thread.join()
        for name, file in self._files.items():
            try:
                file.close()
                if name not in self._errors:
                    self._finish(self._tables[name][0])
            except OSError as error:
                self._errors[name] = error
        self._files.clear()
        if self._errors:
            what = "; ".join(f"{self._tables[name][0].name}: {error}" for name, error in self._errors.items())
            self._errors = {}
            raise OSError(f"the recording is not complete ({what}).")

    def _run(self) -> None:
        while (item := self._rows.get()) is not None:
            name, row = item
            if name in self._errors:
                continue
            try:
                if name not in self._writers:
                    self._open(name)
                self._writers[name].writerow(row)
            except OSError as error:  # told at the end: whoever gives rows drives a robot
                self._errors[name] = error


FORMAT = "adc-trial"
VERSION = 1
_KEPT_TARGETS = 1000


class TrialRecorder:
    """A listener to a backend that writes one trial.

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
            # the event that ends a policy's time comes after what was done to the robot: states of in between have none
            driven = self._policy_drives and targets is not None
            acknowledged = self._targets.get(sample.echo) if driven else None
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
