"""A study's report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .analysis import ConditionNumbers
from .results import METRICS, StudyResults
from .texts import Table, conditions_shown, headline, how_to_repeat, is_ours, study_tables

__all__ = ["markdown_report"]


def markdown_report(
    results: StudyResults, numbers: Sequence[ConditionNumbers], pictures: Sequence[str], *, seed: int = 0
) -> str:
    """Return the report; pictures are named relative to it."""
    parts = [f"# Study: {_plain(results.config()['task'])}", _plain(headline(results)), results.notes.strip()]
    for table in study_tables(results, numbers):
        parts += [f"## {_plain(table.title)}", _table(table)]
    parts += [
        "Mean ± standard deviation over runs (n − 1). IQM: the mean of the middle half of the runs; intervals by "
        f"resampling runs 2000 times (percentile method, seed {seed}). Failed and unfinished runs are in no number."
    ]
    parts += [f"![{name}]({name})" for name in pictures]
    parts += ["## How episodes ended", _modes(numbers)]
    parts += ["## Conditions", _conditions(results), "## Every run", _runs(results)]
    failed = [run for run in results.runs if run.state == "failed"]
    if failed:
        lines = [f"- {_plain(run.condition)}, seed {run.seed}: {_code(_last_line(run.error))}" for run in failed]
        parts += ["## Failed runs", "\n".join(lines)]
    commands = "\n".join(how_to_repeat(results))
    fence = "`" * max(3, _longest_ticks(commands) + 1)
    parts += ["## Commands", f"{fence}sh\n{commands}\n{fence}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is: no HTML, no emphasis, no end of a table's cell."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return re.sub(r"([*|`\[\]])", r"\\\1", escaped)


def _code(text: str) -> str:
    """Return a text as code that no backtick inside ends."""
    fence = "`" * (_longest_ticks(text) + 1)
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def _longest_ticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _last_line(error: str | None) -> str:
    return ((error or "").strip().splitlines() or ["?"])[-1]


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(map(_plain, head)) + " |", "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"]
    lines += ["| " + " | ".join(map(_plain, row)) + " |" for row in rows]
    return "\n".join(lines)


def _table(table: Table) -> str:
    lines = _grid(table.head, [[cell.text for cell in cells] for _, cells in table.rows]).splitlines()
    for i, (name, _) in enumerate(table.rows):
        if is_ours(name):
            cells = lines[i + 2].strip("| ").split(" | ")
            lines[i + 2] = "| " + " | ".join(f"**{cell}**" for cell in cells) + " |"
    return "\n".join(lines)


def _no_html(text: str) -> str:
    """Return a sentence with its Markdown, which conditions may have, and without HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _modes(numbers: Sequence[ConditionNumbers]) -> str:
    modes = list(dict.fromkeys(mode for row in numbers for mode, share in row.modes.items() if share > 0))
    rows = [[row.condition.title, *(f"{100 * row.modes.get(mode, 0.0):.1f} %" for mode in modes)] for row in numbers]
    return _grid(["condition", *modes], rows)


def _conditions(results: StudyResults) -> str:
    lines = []
    for condition in conditions_shown(results):
        differs, left_open = _no_html(condition.differs), _no_html(condition.open)
        lines.append(f"- **{_plain(condition.title)}** ({_code(condition.name)}). {differs} *Left open:* {left_open}")
    return "\n".join(lines)


def _runs(results: StudyResults) -> str:
    rows = []
    for run in results.runs:
        scores = [metric.format(run.score(metric)) if run.summary else "" for metric in METRICS]
        seconds = "" if run.seconds is None else f"{run.seconds:.0f}"
        rows.append([run.condition, str(run.seed), run.state, *scores, seconds])
    return _grid(["condition", "seed", "state", *(metric.label for metric in METRICS), "seconds"], rows)
