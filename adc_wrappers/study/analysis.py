"""Numbers of a report, from a study's runs, and files of them."""

from __future__ import annotations

import csv
import io
import struct
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.files import write_atomically
from adc_wrappers.runs import RunFolderError

from .conditions import Condition
from .results import METRICS, Metric, RunRecord, StudyResults
from .statistics import Estimate, bootstrap, mean_std, performance_profile, probability_of_improvement

__all__ = ["CURVES", "ConditionNumbers", "Curve", "analyse", "curves_of", "load_scores", "profiles", "write_tables"]


REFERENCE = "adc"
"""The condition that others are compared with."""

CURVES = (
    ("stiffness", "K"),
    ("episode_length_mean", "episode length"),
    ("success_ema", "success rate, moving average"),
    ("return_mean", "return"),
    ("holding", "share of steps in the wanted state"),
)
"""Columns of ``metrics.csv`` that are drawn, where a run has them."""

_POINTS = 150
_CURVE_REPETITIONS = 400


@dataclass(frozen=True, kw_only=True)
class ConditionNumbers:
    """Numbers of a report about one condition."""

    condition: Condition
    """Which."""

    runs: int
    """Finished runs; only these are in the numbers."""

    failed: int
    """Runs that failed."""

    unfinished: int
    """Runs that have begun and are not finished."""

    mean: dict[str, tuple[float, float]]
    """Mean and standard deviation over runs, by metric."""

    iqm: dict[str, Estimate]
    """Interquartile mean, by metric."""

    beaten: dict[str, Estimate]
    """Probability that a run of ADC scores higher, by metric; empty for ADC itself, or without it."""

    modes: dict[str, float]
    """Share of episodes that ended in each way, pooled over runs."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A column of ``metrics.csv`` over env steps: interquartile mean over seeds and its pointwise interval."""

    steps: NDArray[np.float64]
    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def analyse(results: StudyResults, *, seed: int = 0) -> list[ConditionNumbers]:
    """Return the numbers of every condition that has a finished run.

    Args:
        results: The runs.
        seed: Seed of the bootstrap.
    """
    scores = {metric.name: results.scores(metric) for metric in METRICS}
    rows = []
    for condition in results.conditions:
        name, finished = condition.name, results.of(condition.name)
        if not finished:
            continue
        compared = name != REFERENCE and bool(results.of(REFERENCE))
        rows.append(
            ConditionNumbers(
                condition=condition,
                runs=len(finished),
                failed=len(results.of(name, "failed")),
                unfinished=len(results.of(name, "unfinished")),
                mean={metric: mean_std(values[name]) for metric, values in scores.items()},
                iqm={metric: bootstrap(values[name], seed=seed) for metric, values in scores.items()},
                beaten={
                    metric: probability_of_improvement(values[REFERENCE], values[name], seed=seed)
                    for metric, values in scores.items()
                    if compared
                },
                modes=_modes(finished),
            )
        )
    return rows


def profiles(
    results: StudyResults, metric: Metric, *, seed: int = 0
) -> tuple[NDArray[np.float64], dict[str, Estimate]]:
    """Return thresholds over the range of a metric, and every condition's performance profile at them."""
    scores = results.scores(metric)
    everything = np.concatenate(list(scores.values()))
    low, high = (0.0, 1.0) if metric.percent else (float(everything.min()), float(everything.max()))
    margin = 0.02 * (high - low) or 1.0
    levels = np.linspace(low - margin, high + margin, 101)
    return levels, {name: performance_profile(values, levels, seed=seed) for name, values in scores.items()}


def curves_of(runs: list[RunRecord], column: str, *, seed: int = 0) -> Curve | None:
    """Return a column over env steps, over the stretch that all runs have; None if a run does not have it."""
    columns = [run.curves() for run in runs]
    if not columns or any(column not in values or not len(values[column]) for values in columns):
        return None
    length = min(len(values["steps"]) for values in columns)
    width = max(1, length // 60)
    rows = np.stack([_smooth(values[column][:length], width) for values in columns])
    if not np.isfinite(rows).any():
        return None
    chosen = np.unique(np.linspace(0, length - 1, min(length, _POINTS)).round().astype(int))
    value, low, high = _pointwise(rows[:, chosen], seed)
    return Curve(columns[0]["steps"][:length][chosen], value, low, high)


def _pointwise(rows: NDArray[np.float64], seed: int) -> tuple[NDArray[np.float64], ...]:
    """Interquartile mean over seeds at every point, and its interval; whole curves are drawn."""
    drawn = np.random.default_rng(seed).integers(len(rows), size=(_CURVE_REPETITIONS, len(rows)))
    cut = int(0.25 * len(rows))

    def trimmed(values: NDArray[np.float64]) -> NDArray[np.float64]:
        ordered = np.sort(values, axis=-2)
        return np.asarray(ordered[..., cut : values.shape[-2] - cut, :].mean(axis=-2))

    low, high = np.percentile(trimmed(rows[drawn]), [2.5, 97.5], axis=0)
    return trimmed(rows), low, high


def _smooth(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Running mean; where no episode ended the last known number goes on."""
    known = np.isfinite(values)
    if not known.any():
        return values
    last = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1))
    filled = np.where(last < 0, values[known][0], values[np.maximum(last, 0)])
    if width == 1:
        return filled
    kernel = np.ones(width)
    return np.asarray(np.convolve(filled, kernel, "same") / np.convolve(np.ones(len(filled)), kernel, "same"))


def _modes(runs: list[RunRecord]) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update((run.summary or {}).get("modes", {}))
    total = sum(counts.values()) or 1
    return {mode: count / total for mode, count in counts.items()}


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
