"""A study's numbers as files: CSV for spreadsheets, and the dict of arrays that statistics packages take."""

from __future__ import annotations

import csv
import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers.core.files import write_atomically
from adc_wrappers.runs import RunFolderError

from .analysis import CURVES, ConditionNumbers, curves_of
from .results import METRICS, StudyResults

__all__ = ["load_scores", "write_tables"]


_NPZ_ERRORS = (
    zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, RuntimeError,
    MemoryError, OverflowError, SyntaxError, tokenize.TokenError, struct.error,
)  # fmt: skip
"""What numpy raises for a damaged file, whose headers it reads as Python literals."""


def write_tables(results: StudyResults, numbers: Sequence[ConditionNumbers], out: Path, *, seed: int = 0) -> list[Path]:
    """Write ``runs.csv``, ``conditions.csv``, ``curves.csv`` and ``scores-METRIC.npz``."""
    files = [
        _write(out / "runs.csv", _run_rows(results)),
        _write(out / "conditions.csv", _condition_rows(numbers)),
        _write(out / "curves.csv", _curve_rows(results, seed)),
    ]
    for metric in METRICS:
        content = io.BytesIO()
        scores: dict[str, Any] = results.scores(metric)
        np.savez(content, **scores)
        files.append(out / f"scores-{metric.name}.npz")
        write_atomically(files[-1], content.getvalue())
    return files


def load_scores(path: Path) -> dict[str, Any]:
    """Return condition → array ``(runs, tasks)`` from a ``scores-METRIC.npz``: the format that rliable takes."""
    try:
        with np.load(path, allow_pickle=False) as file:
            scores = dict(file)
    except _NPZ_ERRORS as error:
        raise RunFolderError(f"{path} is not a table of scores ({error}).") from error
    for name, values in scores.items():
        if not isinstance(values, np.ndarray):
            raise RunFolderError(f"{path}: {name!r}: expected an array, got something else; the file is damaged.")
        if values.ndim != 2 or values.dtype != np.float64:
            raise RunFolderError(
                f"{path}: {name!r}: expected numbers (runs, tasks), got {values.dtype} {values.shape}."
            )
    return scores


def _run_rows(results: StudyResults) -> Iterable[dict[str, Any]]:
    modes = sorted({mode for run in results.runs for mode in (run.summary or {}).get("modes", {})})
    for run in results.runs:
        summary = run.summary or {}
        yield {
            "condition": run.condition,
            "seed": run.seed,
            "state": run.state,
            **{metric.key: summary.get(metric.key, "") for metric in METRICS},
            "episodes": summary.get("episodes", ""),
            "steps": summary.get("trained", {}).get("steps", ""),
            "seconds": "" if run.seconds is None else run.seconds,
            **{f"mode: {mode}": summary.get("modes", {}).get(mode, "") for mode in modes},
        }


def _condition_rows(numbers: Sequence[ConditionNumbers]) -> Iterable[dict[str, Any]]:
    for row in numbers:
        values: dict[str, Any] = {"condition": row.condition.name, "runs": row.runs, "failed": row.failed}
        for metric in METRICS:
            name = metric.name
            values[f"{name}_mean"], values[f"{name}_std"] = row.mean[name]
            estimate = row.iqm[name]
            values |= {f"{name}_iqm": estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
            beaten = row.beaten.get(name)
            for end in ("value", "low", "high"):
                values[f"{name}_adc_better_{end}"] = "" if beaten is None else getattr(beaten, end)
        yield values


def _curve_rows(results: StudyResults, seed: int) -> Iterable[dict[str, Any]]:
    for condition in results.conditions:
        for column, _ in CURVES:
            curve = curves_of(results.of(condition.name), column, seed=seed)
            if curve is None:
                continue
            for steps, value, low, high in zip(curve.steps, curve.value, curve.low, curve.high, strict=True):
                yield {
                    "condition": condition.name,
                    "column": column,
                    "steps": int(steps),
                    "iqm": f"{value:.6g}",
                    "low": f"{low:.6g}",
                    "high": f"{high:.6g}",
                }


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    table = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]) if table else ["condition"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    write_atomically(path, text.getvalue().encode())
    return path
