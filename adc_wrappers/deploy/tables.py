"""Tables of a trial, written row by row by a thread of their own."""

from __future__ import annotations

import csv
import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.trajectories.columns import BASE_COLUMNS as _BASE_GROUPS

__all__ = ["BASE_COLUMNS", "TableWriter", "base_numbers", "joint_columns"]

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
    """Writes rows without keeping whoever gives them waiting: to CSV files, which become Parquet files in the end.

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
