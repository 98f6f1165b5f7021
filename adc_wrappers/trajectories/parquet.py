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

_PARQUET_ERRORS = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
"""What pyarrow raises for a damaged file: OSError for Thrift and checksums, ValueError for names that are no text."""

__all__ = ["csv_to_parquet", "parquet_bytes", "read_parquet"]


def parquet_bytes(columns: Mapping[str, NDArray[np.float64]]) -> bytes:
    """Return a table as a Parquet file."""
    return _file_of(pa.table({name: pa.array(values) for name, values in columns.items()}))


def csv_to_parquet(file: Path) -> Path:
    """Turn a CSV file into a Parquet file of the same name and return its path; then the CSV file goes.

    Raises:
        TrajectoryError: The Parquet file does not read back as it was written; the CSV file stays.
    """
    made = file.with_suffix(".parquet")
    table = pc.read_csv(file)
    write_atomically(made, _file_of(table))
    back = _checked_table(made)
    if back.schema.names != table.schema.names or back.num_rows != table.num_rows:
        raise TrajectoryError(f"{made}: expected {table.num_rows} rows, read {back.num_rows}; {file.name} is kept.")
    file.unlink()
    return made


def _file_of(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_page_checksum=True)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _checked_table(file: Path) -> Any:
    """Read a file and compare every page with its checksum."""
    try:
        with file.open("rb") as source:
            table = pq.ParquetFile(source, page_checksum_verification=True).read(use_threads=False)
        table.validate(full=True)
    except _PARQUET_ERRORS as error:
        raise TrajectoryError(f"{file}: not a whole Parquet file: {error}") from error
    return table


def read_parquet(file: Path) -> dict[str, NDArray[np.float64]]:
    """Read the columns of a Parquet file as numbers; an empty cell reads NaN."""
    table = _checked_table(file)
    names = [str(name) for name in table.column_names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TrajectoryError(f"{file}: column {twice[0]!r} is there twice.")
    return {name: _numbers(file, name, column) for name, column in zip(names, table.columns, strict=True)}


def _numbers(file: Path, name: str, column: Any) -> NDArray[np.float64]:
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise TrajectoryError(f"{file}: row 1, column {name!r}: expected numbers, got {column.type}.")
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowInvalid as error:
        raise TrajectoryError(f"{file}: column {name!r}: expected numbers of a float64: {error}") from error
