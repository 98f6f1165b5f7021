"""``metrics.csv``: one row per iteration, readable while the run goes on."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from adc_wrappers.core.files import write_atomically

__all__ = ["MetricsFile"]


class MetricsFile:
    """Appends rows of numbers with fixed columns, and drops the rows that a resumed run will write again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: dict[str, float]) -> None:
        """Write one row; the first row fixes the columns."""
        columns = self._header() or list(row)
        if set(row) != set(columns):
            raise ValueError(f"{self.path}: expected the columns {columns}, got {list(row)}.")
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)

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
        column = header.index("iteration")
        writer.writerows(row for row in self._rows() if float(row[column]) <= iteration)
        write_atomically(self.path, text.getvalue().encode())

    def _header(self) -> list[str]:
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return next(csv.reader(file), [])

    def _rows(self) -> list[list[str]]:
        header = self._header()
        if not header:
            return []
        with self.path.open(newline="") as file:
            lines = list(csv.reader(file))[1:]
        return [line for line in lines if len(line) == len(header) and all(map(_is_number, line))]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
