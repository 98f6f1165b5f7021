"""Parquet, the one place where pyarrow is imported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.files import write_atomically

from .log import TrajectoryError

try:
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq
except ImportError as error:
    raise MissingExtraError("pyarrow", "sysid", "A Parquet table") from error

__all__ = ["csv_to_parquet", "parquet_bytes", "read_parquet"]


def parquet_bytes(columns: Mapping[str, NDArray[np.float64]]) -> bytes:
    """Return a table as a Parquet file."""
    return _file_of(pa.table({name: pa.array(values) for name, values in columns.items()}))


def csv_to_parquet(file: Path) -> Path:
    """Turn a CSV file into a Parquet file of the same name and return its path; then the CSV file goes."""
    made = file.with_suffix(".parquet")
    write_atomically(made, _file_of(pc.read_csv(file)))
    file.unlink()
    return made


def _file_of(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_parquet(file: Path) -> dict[str, NDArray[np.float64]]:
    """Read the columns of a Parquet file as numbers; an empty cell reads NaN."""
    try:
        table = pq.read_table(file)
    except pa.ArrowException as error:
        raise TrajectoryError(f"{file}: not a Parquet file: {error}") from error
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            raise TrajectoryError(f"{file}: row 1, column {name!r}: expected numbers, got {column.type}.")
        columns[name] = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    return columns
