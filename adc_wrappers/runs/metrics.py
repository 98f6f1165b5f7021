"""``metrics.csv``: one row per iteration, readable while the run goes on."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from adc_wrappers.core.errors import RunFolderError
from adc_wrappers.core.files import full_disk_explained, write_atomically
from adc_wrappers.core.reading import read_text

__all__ = ["MetricsFile"]


class MetricsFile:
    """A file of rows with fixed columns, from which a resumed run drops the rows that it will write again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: dict[str, float]) -> None:
        """Write one row; the first row fixes the columns.

        A run that an older version began lacks columns that came later, and goes on without them.
        """
        columns = self._header() or list(row)
        if not set(columns) <= set(row):
            raise ValueError(f"{self.path}: expected the columns {columns}, got {list(row)}.")
        new = not self.path.exists()
        with full_disk_explained(self.path), self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            os.fsync(file.fileno())  # a checkpoint of this iteration follows, and a power cut must not keep only that

    def read(self) -> dict[str, list[float]]:
        """Return the columns; a line that was cut off by a crash is left out."""
        rows = self._rows()
        return {name: [float(row[i]) for row in rows] for i, name in enumerate(self._header())}

    def keep_until(self, iteration: int) -> None:
        """Drop every row after ``iteration``, and every row that is not whole."""
        header = self._header()
        if not header:
            return
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        if "iteration" not in header:
            raise RunFolderError(f"{self.path}: expected a column 'iteration', got {header}; it is of no training.")
        column = header.index("iteration")
        writer.writerows(row for row in self._rows() if float(row[column]) <= iteration)
        write_atomically(self.path, text.getvalue().encode())

    def _header(self) -> list[str]:
        return next(iter(self._lines()), [])

    def _rows(self) -> list[list[str]]:
        header, *lines = self._lines() or [[]]
        return [line for line in lines if len(line) == len(header) and all(map(_is_number, line))]

    def _lines(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        try:
            return list(csv.reader(io.StringIO(read_text(self.path, RunFolderError), newline="")))
        except csv.Error as error:
            raise RunFolderError(f"{self.path} is not a table that can be read ({error}).") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
