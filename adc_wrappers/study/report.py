"""A study's report: one HTML page that needs nothing else, and everything written beside it."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers.core.files import write_atomically

from .analysis import CURVES, ConditionNumbers, analyse, curves_of, profiles, write_tables
from .markdown import Cell, Table, conditions_shown, facts_of, how_to_repeat, is_ours, markdown_report, study_tables
from .pictures import FILM_SEED, condition_colours, cut_range, draw_pictures, film_of, mode_colours, record_films
from .results import METRICS, StudyResults, read_results
from .verdict import Verdict, verdict_of

__all__ = ["curve_charts", "estimate_charts", "html_page", "mode_chart", "profile_charts", "write_report"]


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


def html_page(results: StudyResults, numbers: Sequence[ConditionNumbers], *, seed: int = 0) -> str:
    """Return the page: style, script, numbers and films are inside it."""
    colours = condition_colours([condition.name for condition in results.conditions])
    curves = curve_charts(results, colours, seed)
    estimates = estimate_charts(numbers, colours)
    shares = profile_charts(results, colours, seed)
    modes = mode_chart(numbers)
    tables = study_tables(results, numbers)
    found = verdict_of(numbers)
    notes = "".join(f"<p>{_prose(part)}</p>" for part in results.notes.split("\n\n") if part.strip())
    ours = "The paper's tables and ours" if len(tables) > 2 else "All conditions"
    body = [
        _header(results, found),
        _films(results),
        _section("What it says", f'<div class="notes">{notes}</div>') if notes else "",
        '<div class="legend" role="group" aria-label="conditions: press to hide or show"></div>',
        _section("How sure we are", _figures(estimates), _table(tables[-1], colours), _STATISTICS.format(seed=seed)),
        _section(ours, *(_table(table, colours) for table in tables[:-1]), _MEANING),
        _section("Training", _CURVES_TEXT, _figures(curves, zoom=True)),
        _section("How episodes ended", _figures([modes], wide=True)),
        _section("Performance profiles", "<p>Share of runs that score above a threshold.</p>", _figures(shares, True)),
        _section("Conditions", _conditions(results)),
        _section("Every run", _folded(f"{len(results.runs)} runs", _runs(results, colours))),
        _section("Commands", f"<pre>{_escape(chr(10).join(how_to_repeat(results)))}</pre>"),
    ]
    shown = [{"name": c.name, "title": c.title, "colour": colours[c.name]} for c in conditions_shown(results)]
    data = {"conditions": shown, "charts": [*estimates, *curves, modes, *shares]}
    return _fill(
        "page.html",
        title=_escape(f"Study: {results.config()['task']}"),
        about=_escape(re.sub(r"_([*0])", r"\1", found.text)),
        style=_asset("page.css"),
        script=_asset("page.js"),
        body="\n".join(part for part in body if part),
        data=_script_json(data),
    )


_MEANING = '<p class="soft">Mean ± standard deviation over runs (n − 1). Press a column\'s name to sort by it.</p>'
_STATISTICS = (
    '<p class="soft">IQM: the mean of the middle half of the runs. Intervals: 95 %, percentiles of 2000 resamplings '
    "of the runs, seed {seed}. With ten runs they cover the truth a little less often than they say. Failed and "
    "unfinished runs are in no number.</p>"
)
_CURVES_TEXT = (
    '<p class="soft">Interquartile mean over seeds with pointwise 95 % intervals, smoothed over a sixtieth of the '
    "training. Drag over a plot to zoom, press twice for the first view, ⟲ for the whole range.</p>"
)


def _escape(text: str) -> str:
    return html.escape(text, quote=True)


def _prose(text: str) -> str:
    """Escape a paragraph, with K_* and K_0 as they are printed, and Markdown's bold and code."""
    plain = re.sub(r"\b([Kα])_([*0])", r"\1<sub>\2</sub>", _escape(text))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", plain))


def _asset(name: str) -> str:
    return (resources.files("adc_wrappers.study") / "assets" / name).read_text(encoding="utf-8")


def _fill(template: str, **parts: str) -> str:
    """Return the template with its marks replaced, in one pass: what is put in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], _asset(template))


def _script_json(data: Any) -> str:
    """Return JSON that stays inside its script element, whatever texts are in it: no ``<``, ``>`` or ``&``."""
    text = json.dumps(data, separators=(",", ":"))
    return re.sub(r"[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{_escape(summary)}</summary>{content}</details>"


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{_escape(title)}</h2>{''.join(parts)}</section>"


def _header(results: StudyResults, found: Verdict) -> str:
    """Return what a page begins with: the task, the verdict, what was done."""
    config = results.config()
    warning = f'<p class="warning">{_prose(found.warning)}</p>' if found.warning else ""
    facts = "".join(
        f"<div><dt>{_escape(name)}</dt><dd>{_escape(value)}</dd></div>" for name, value in facts_of(results)
    )
    return (
        f'<header><p class="eyebrow">Actuator Dynamics Curriculum · study in {_escape(config["backend"])}</p>'
        f"<h1>{_escape(config['task'])}</h1>"
        f'<div class="verdict {found.kind}"><p>{_prose(found.text)}</p>{warning}</div>'
        f'<dl class="facts">{facts}</dl></header>'
    )


def _figures(charts: Sequence[dict[str, Any]], zoom: bool = False, wide: bool = False) -> str:
    tools = '<span class="chart-tools"></span>' if zoom else ""
    figures = [
        f'<figure id="{_escape(chart["id"])}"><figcaption><span>{_escape(chart["title"])}</span>{tools}</figcaption>'
        "</figure>"
        for chart in charts
    ]
    kind = "charts wide" if wide else "charts" if zoom else "charts small"
    return f'<div class="{kind}">{"".join(figures)}</div>'


def _rows(
    head: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]], colours: dict[str, str], caption: str = ""
) -> str:
    """Return a table; on a narrow screen its rows become cards, for which every cell carries its column's name."""
    title = f"<caption>{_escape(caption)}</caption>" if caption else ""
    heads = "".join(f'<th scope="col">{_escape(name)}</th>' for name in head)
    lines = []
    for name, cells in rows:
        emphasis = ' class="ours"' if is_ours(name) and caption else ""
        style = f' style="--colour: {colours[name]}"' if name in colours else ""
        values = "".join(_cell(label, cell) for label, cell in zip(head, cells, strict=True))
        lines.append(f'<tr data-condition="{_escape(name)}"{emphasis}{style}>{values}</tr>')
    body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table class="sortable">{title}{body}</table></div>'


def _cell(label: str, cell: Cell) -> str:
    value = "" if cell.value is None else f' data-value="{cell.value:.10g}"'
    note = f" <small>{_escape(cell.note)}</small>" if cell.note else ""
    return f'<td data-label="{_escape(label)}"{value}><span>{_escape(cell.text)}{note}</span></td>'


def _table(table: Table, colours: dict[str, str]) -> str:
    return _rows(table.head, table.rows, colours, table.title)


def _runs(results: StudyResults, colours: dict[str, str]) -> str:
    rows = []
    for run in results.runs:
        error = (run.error or "").strip().splitlines()[-1:]
        cells = [Cell(run.condition), Cell(str(run.seed), run.seed), Cell(": ".join([run.state, *error]))]
        for metric in METRICS:
            score = run.score(metric) if run.summary else None
            cells.append(Cell("") if score is None else Cell(metric.format(score), score))
        cells.append(Cell("") if run.seconds is None else Cell(f"{run.seconds:.0f}", run.seconds))
        rows.append((run.condition, cells))
    return _rows(["condition", "seed", "state", *(metric.label for metric in METRICS), "seconds"], rows, colours)


def _conditions(results: StudyResults) -> str:
    items = [
        f"<li><b>{_escape(condition.title)}</b> (<code>{_escape(condition.name)}</code>). {_prose(condition.differs)} "
        f'<span class="soft">Left open: {_prose(condition.open)}</span></li>'
        for condition in conditions_shown(results)
    ]
    return f"<ul>{''.join(items)}</ul>"


def _films(results: StudyResults) -> str:
    figures = []
    for condition in conditions_shown(results):
        found = film_of(results, condition.name)
        if found is not None:
            run, path = found
            source = base64.b64encode(path.read_bytes()).decode()
            figures.append(
                f'<figure><img alt="{_escape(condition.title)}, seed {run.seed}" '
                f'src="data:image/gif;base64,{source}"><figcaption>{_escape(condition.title)}, seed {run.seed}'
                "</figcaption></figure>"
            )
    if not figures:
        return ""
    text = (
        f'<p class="soft">One episode at the target stiffness from the same start (seed {FILM_SEED}), first finished '
        "seed of each condition. A film that is short shows an episode that was.</p>"
    )
    return _section("Films", text, f'<div class="films">{"".join(figures)}</div>')


def write_report(
    folder: Path, out: Path | None = None, *, films: bool = True, seed: int = 0
) -> tuple[StudyResults, Path]:
    """Write the report of a study's finished runs.

    Args:
        folder: The study.
        out: Where the files go; by default ``report/`` in it.
        films: Film a policy of every condition, where that has not been done.
        seed: Seed of the bootstrap.

    Returns:
        What was read, and the path of the page; the other files are beside it.
    """
    results = read_results(folder)
    out = folder / "report" if out is None else out
    numbers = analyse(results, seed=seed)
    if films:
        record_films(results)
    write_tables(results, numbers, out, seed=seed)
    pictures = draw_pictures(results, numbers, out, seed=seed)
    text = markdown_report(results, numbers, [path.name for path in pictures], seed=seed)
    write_atomically(out / "report.md", text.encode())
    page = out / "report.html"
    write_atomically(page, html_page(results, numbers, seed=seed).encode())
    return results, page
