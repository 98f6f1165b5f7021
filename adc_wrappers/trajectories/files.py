"""Logs on disk: a CSV or Parquet table, and beside it a JSON file that describes it."""

from __future__ import annotations

import csv
import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.files import write_atomically, write_json
from adc_wrappers.core.reading import read_object

from .columns import log_from_columns, log_to_columns
from .log import TrajectoryError, TrajectoryLog

__all__ = ["check_log_name", "read_log", "write_log"]

_Array = NDArray[np.float64]


def read_log(path: str | Path) -> TrajectoryLog:
    """Read a log; ``NAME.json`` beside ``NAME.csv`` or ``NAME.parquet`` describes it.

    Raises:
        TrajectoryError: A file is missing or not usable; names row and column.
        MissingExtraError: A Parquet file, and pyarrow is not installed.
    """
    file = Path(path)
    description = _read_description(file)
    columns = _read_parquet(file) if file.suffix == ".parquet" else _read_csv(file)
    return log_from_columns(columns, description, str(file))


def check_log_name(path: Path) -> None:
    """Refuse a name under which no log can be written, before anything is recorded.

    Raises:
        TrajectoryError: It ends in neither ``.csv`` nor ``.parquet``.
        MissingExtraError: It ends in ``.parquet``, and pyarrow is not installed.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise TrajectoryError(f"{path}: expected a name that ends in .csv or .parquet.")
    if path.suffix == ".parquet":
        importlib.import_module("adc_wrappers.trajectories.parquet")


def write_log(log: TrajectoryLog, path: str | Path) -> Path:
    """Write a log and its description; the path's ending, ``.csv`` or ``.parquet``, decides the format."""
    file = Path(path)
    check_log_name(file)
    columns = log_to_columns(log)
    if file.suffix == ".parquet":
        from .parquet import parquet_bytes

        content = parquet_bytes(columns)
    else:
        content = _csv_bytes(columns)
    write_json(file.with_suffix(".json"), _description(log))
    write_atomically(file, content)
    return file


def _description(log: TrajectoryLog) -> dict[str, Any]:
    gains = {"stiffness": log.commanded_stiffness, "damping": log.commanded_damping}
    commanded = {
        name: dict(zip(log.joint_names, values.tolist(), strict=True)) for name, values in gains.items()
    }  # fmt: skip
    return {"joints": list(log.joint_names), "commanded": commanded, "source": log.source}


def _read_description(file: Path) -> dict[str, Any]:
    beside = file.with_suffix(".json")
    if not file.is_file():
        raise TrajectoryError(f"{file}: no such file. Logs are made by `adc sysid collect`.")
    if not beside.is_file():
        raise TrajectoryError(
            f"{file}: its description {beside.name} is missing. Write one with 'joints' (names in order), 'commanded' "
            "({'stiffness': …, 'damping': …}, the gains that were sent to the robot) and 'source'."
        )
    return read_object(beside, TrajectoryError)


def _read_csv(file: Path) -> dict[str, _Array]:
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            reader = csv.reader(lines)
            header = [name.strip() for name in next(reader, [])]
            _check_header(header, file)
            rows = [_numbers(cells, header, number, file) for number, cells in enumerate(reader, 1) if cells]
    except (UnicodeDecodeError, csv.Error) as error:
        raise TrajectoryError(f"{file}: not a CSV text file: {error}") from error
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(header))
    return {name: table[:, i] for i, name in enumerate(header)}


def _check_header(header: list[str], file: Path) -> None:
    if not header:
        raise TrajectoryError(f"{file}: expected the names of the columns in the first line, got an empty one.")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise TrajectoryError(f"{file}: column {twice[0]!r} is there twice.")


def _numbers(cells: list[str], header: list[str], row: int, file: Path) -> list[float]:
    if len(cells) != len(header):
        last = header[min(len(cells), len(header)) - 1]
        raise TrajectoryError(
            f"{file}: row {row}, column {last!r}: expected {len(header)} cells as in the header, got {len(cells)}."
        )
    values = []
    for name, cell in zip(header, cells, strict=True):
        try:
            values.append(float(cell))
        except ValueError as error:
            raise TrajectoryError(f"{file}: row {row}, column {name!r}: expected a number, got {cell!r}.") from error
    return values


def _csv_bytes(columns: dict[str, _Array]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(repr, values.tolist()) for values in columns.values()), strict=True))
    return text.getvalue().encode()


def _read_parquet(file: Path) -> dict[str, _Array]:
    from .parquet import read_parquet

    return read_parquet(file)
