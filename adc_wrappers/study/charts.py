"""The numbers behind a page's charts, as its script takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .analysis import CURVES, ConditionNumbers, curves_of, profiles
from .markdown import conditions_shown
from .pictures import cut_range, mode_colours
from .results import METRICS, StudyResults

__all__ = ["curve_charts", "estimate_charts", "mode_chart", "profile_charts"]


def _numbers(values: Any) -> list[float | None]:
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in np.asarray(values)]


def _series(name: str, title: str, colour: str, x: Any, found: Any) -> dict[str, Any]:
    rows = {"x": x, "y": found.value, "low": found.low, "high": found.high}
    return {
        "condition": name,
        "title": title,
        "colour": colour,
        **{key: _numbers(values) for key, values in rows.items()},
    }


def curve_charts(results: StudyResults, colours: dict[str, str], seed: int) -> list[dict[str, Any]]:
    """Return a chart for every column of ``metrics.csv`` that is drawn."""
    charts = []
    for column, label in CURVES:
        found = [
            (condition, curve)
            for condition in conditions_shown(results)
            if (curve := curves_of(results.of(condition.name), column, seed=seed)) is not None
        ]
        if not found:
            continue
        series = [_series(c.name, c.title, colours[c.name], curve.steps, curve) for c, curve in found]
        chart: dict[str, Any] = {"id": f"curve-{column}", "title": label, "x": "env steps", "series": series}
        cut = cut_range({condition.title: curve.value for condition, curve in found})
        if cut is not None:
            chart |= {"view": _numbers([cut.low, cut.high]), "outside": cut.outside}
        charts.append(chart)
    return charts


def profile_charts(results: StudyResults, colours: dict[str, str], seed: int) -> list[dict[str, Any]]:
    """Return a performance profile for every metric."""
    titles = {condition.name: condition.title for condition in results.conditions}
    charts = []
    for metric in METRICS:
        levels, found = profiles(results, metric, seed=seed)
        series = [_series(name, titles[name], colours[name], levels, profile) for name, profile in found.items()]
        title = f"share of runs with a higher {metric.label}"
        charts.append({"id": f"profile-{metric.name}", "title": title, "x": metric.label, "series": series})
    return charts


def estimate_charts(numbers: Sequence[ConditionNumbers], colours: dict[str, str]) -> list[dict[str, Any]]:
    """Return a row per condition with its interquartile mean and interval, for every metric."""
    return [
        {
            "id": f"iqm-{metric.name}",
            "title": f"IQM {metric.label}",
            "percent": metric.percent,
            "rows": [
                {
                    "condition": row.condition.name,
                    "title": row.condition.title,
                    "colour": colours[row.condition.name],
                    "value": row.iqm[metric.name].value,
                    "low": row.iqm[metric.name].low,
                    "high": row.iqm[metric.name].high,
                }
                for row in numbers
            ],
        }
        for metric in METRICS
    ]


def mode_chart(numbers: Sequence[ConditionNumbers]) -> dict[str, Any]:
    """Return a bar per condition of the ways in which episodes ended."""
    modes = list(dict.fromkeys(mode for row in numbers for mode, share in row.modes.items() if share > 0))
    return {
        "id": "modes",
        "title": "share of episodes, all runs of a condition together",
        "percent": True,
        "parts": [{"name": mode, "colour": colour} for mode, colour in mode_colours(modes).items()],
        "rows": [
            {
                "condition": row.condition.name,
                "title": row.condition.title,
                "shares": [round(row.modes.get(mode, 0.0), 5) for mode in modes],
            }
            for row in numbers
        ],
    }
