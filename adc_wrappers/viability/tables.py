"""Results as CSV files."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from adc_wrappers.core.files import write_atomically

from .narrowness import Narrowness
from .success import SuccessCurve

__all__ = ["narrowness_rows", "survival_rows", "write_records", "write_rows", "write_success"]


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a table; floats with six digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in row])
    write_atomically(path, text.getvalue().encode())
    return path


def write_records(path: Path, records: Sequence[Any]) -> Path:
    """Write dataclass instances of one kind, a column per field."""
    header = [field.name for field in dataclasses.fields(records[0])]
    return write_rows(path, header, ([getattr(record, name) for name in header] for record in records))


def write_success(folder: Path, curve: SuccessCurve) -> list[Path]:
    """Write p(ω_n), and the maps behind it, one row per start."""
    rates = zip(curve.frequencies, curve.rates.tolist(), curve.errors.tolist(), strict=True)
    angles, angular = curve.starts.axes()
    maps = (
        [angle, rate, *curve.maps[:, i, j].astype(int).tolist()]
        for i, angle in enumerate(angles.tolist())
        for j, rate in enumerate(angular.tolist())
    )
    return [
        write_rows(folder / "success.csv", ("natural_frequency", "success_rate", "error"), rates),
        write_rows(folder / "maps.csv", ("angle", "rate", *(f"{value:g}" for value in curve.frequencies)), maps),
    ]


def narrowness_rows(
    found: Sequence[Narrowness], kernel: Sequence[float] | None = None
) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows, one per stiffness."""
    header = ["stiffness", "epsilon_lower", "epsilon_upper", "interval_low", "interval_high", "alive_share"]
    header += ["coverage_lower", "coverage_upper", "random_length_mean", "random_length_median"]
    rows = []
    for item in found:
        numbers = [item.stiffness, item.lower, item.upper, *item.interval, item.alive_share, *item.coverage]
        rows.append([*numbers, float(item.lengths.mean()), float(sorted(item.lengths)[len(item.lengths) // 2])])
    if kernel is not None:
        header.append("epsilon_kernel")
        rows = [[*row, value] for row, value in zip(rows, kernel, strict=True)]
    return header, rows


def survival_rows(found: Sequence[Narrowness]) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows of the survival curves, one per policy step."""
    header = ["step", *(f"K={item.stiffness:g}" for item in found)]
    return header, [[step, *(float(item.survival[step]) for item in found)] for step in range(found[0].horizon + 1)]
