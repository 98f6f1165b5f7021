"""A study's report in words: tables, the head, commands, as Markdown and for the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adc_wrappers.core.markdown import markdown_table
from adc_wrappers.core.markdown import plain_markdown as plain

from .analysis import REFERENCE, ConditionNumbers
from .conditions import Condition
from .results import METRICS, StudyResults
from .statistics import Estimate
from .verdict import probability_note, verdict_of

__all__ = ["Cell", "Table", "facts_of", "headline", "how_to_repeat", "markdown_report", "study_tables"]


_TITLES = {1: "Table 1 of the paper (ablation study) and ours", 2: "Table 2 of the paper (appendix) and ours"}
HANDSTAND = "spot-handstand"


@dataclass(frozen=True)
class Cell:
    """A cell: what is shown, and the number that it is sorted by."""

    text: str
    value: float | None = None
    note: str = ""
    """What is said more quietly behind it: an interval, a spread."""

    @property
    def full(self) -> str:
        """Text and note in one line."""
        return f"{self.text} {self.note}".rstrip()


@dataclass(frozen=True)
class Table:
    """A table of conditions."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    """Name of the condition, and its cells."""


def headline(results: StudyResults) -> str:
    """Return what was done, in a sentence or two."""
    config, sizes = results.config(), results.sizes()
    finished = sum(run.state == "finished" for run in results.runs)
    seconds = [run.seconds for run in results.runs if run.seconds is not None]
    steps = " or ".join(f"{value:,}" for value in sizes["steps"])
    episodes = " or ".join(str(value) for value in sizes["episodes"])
    commits = _commits(results)
    text = (
        f"{finished} finished runs of {len(results.conditions)} conditions on {config['task']} ({config['backend']}): "
        f"{steps} env steps each, then {episodes} episodes at exactly the target stiffness"
    )
    if seconds:
        text += f"; {sum(seconds) / 3600:.1f} h of run time in all"
    if commits:
        text += f"; commit {', '.join(commits)}"
    return text + "."


def _commits(results: StudyResults) -> list[str]:
    return sorted({commit for run in results.runs if (commit := run.commit()) is not None})


def facts_of(results: StudyResults) -> list[tuple[str, str]]:
    """Return what was done, as names and numbers."""
    sizes = results.sizes()
    seconds = [run.seconds for run in results.runs if run.seconds is not None]
    finished = [run for run in results.runs if run.state == "finished"]
    facts = [("conditions", str(len(results.conditions))), ("finished runs", str(len(finished)))]
    facts.append(("env steps each", " or ".join(f"{value:,}" for value in sizes["steps"])))
    facts.append(("episodes at K*", " or ".join(f"{value:,}" for value in sizes["episodes"])))
    facts += [("run time", f"{sum(seconds) / 3600:.1f} h")] if seconds else []
    return facts + [("commit", commit) for commit in _commits(results)]


def study_tables(results: StudyResults, numbers: Sequence[ConditionNumbers]) -> list[Table]:
    """Return a table of all conditions, for the paper's task its two tables beside ours, and the estimates."""
    if results.config()["task"] != HANDSTAND:
        return [_beside_paper(results, _ours_last(numbers), "Means over runs"), _estimates(numbers)]
    tables = [
        _beside_paper(results, rows, title)
        for number, title in _TITLES.items()
        if (rows := [row for row in numbers if row.condition.paper and number in row.condition.paper.tables])
    ]
    tables = [_with_ours_last(table) for table in tables]
    others = [row for row in numbers if row.condition.paper is None]
    if others:
        tables.append(_beside_paper(results, others, "Conditions that are not in the paper"))
    return [*tables, _estimates(numbers)]


def conditions_shown(results: StudyResults) -> list[Condition]:
    """Return the conditions with a finished run."""
    return [condition for condition in results.conditions if results.of(condition.name)]


def how_to_repeat(results: StudyResults) -> list[str]:
    """Return the commands that made the runs."""
    if results.study is not None:
        return [
            f"{_as_typed(entry['command'])}  # {entry['started']} UTC, commit {entry['commit']}"
            for entry in results.study["commands"]
        ]
    return [_as_typed(line) for run in results.runs for line in run.command()]


def _as_typed(command: str) -> str:
    """Return a command that was given as ``python -m adc_wrappers.cli`` in its short form."""
    return re.sub(r"^__main__\.py ", "adc ", command)


def _beside_paper(results: StudyResults, rows: Sequence[ConditionNumbers], title: str) -> Table:
    measured = results.config()["task"] == HANDSTAND and any(row.condition.paper is not None for row in rows)
    head = ["condition", "runs"]
    head += ["paper: length", "paper: reward"] if measured else []
    head += [f"ours: {metric.label}" if measured else metric.label for metric in METRICS]
    title += _difference(results.config()) if measured else ""
    body = []
    for row in rows:
        paper = row.condition.paper
        cells = [Cell(row.condition.title), _runs(row)]
        if measured and paper is not None:
            cells += [_spread(paper.length, "{:.0f}"), _spread(paper.reward, "{:g}")]
        for metric in METRICS:
            mean, std = row.mean[metric.name]
            cells.append(Cell(metric.format(mean), mean, f"± {metric.format(std)}"))
        body.append((row.condition.name, tuple(cells)))
    return Table(title, tuple(head), tuple(body))


def _difference(config: dict[str, Any]) -> str:
    """Say in what our numbers are of something else than the paper's."""
    settings = config.get("settings", {})
    preset = settings.get("preset", "paper")
    if preset != "paper" or settings.get("weights"):
        return f" (returns do not compare: ours are of the reward preset {preset!r}, not of the paper's reward)"
    return ""


def _ours_last(numbers: Sequence[ConditionNumbers]) -> list[ConditionNumbers]:
    return sorted(numbers, key=lambda row: is_ours(row.condition.name))


def _with_ours_last(table: Table) -> Table:
    """Return the rows in the paper's order."""
    return Table(table.title, table.head, tuple(sorted(table.rows, key=lambda row: is_ours(row[0]))))


def _estimates(numbers: Sequence[ConditionNumbers]) -> Table:
    head = ["condition", "runs"]
    for metric in METRICS:
        head += [f"IQM {metric.label}", "P(ADC better)"]
    body = []
    ours = sum(row.runs for row in numbers if is_ours(row.condition.name))
    for row in numbers:
        cells = [Cell(row.condition.title), _runs(row)]
        for metric in METRICS:
            iqm, beaten = row.iqm[metric.name], row.beaten.get(metric.name)
            interval = f"({metric.format(iqm.low)} to {metric.format(iqm.high)})"
            cells.append(Cell(metric.format(iqm.value), float(iqm.value), interval))
            cells.append(Cell("–") if beaten is None else _probability(beaten, ours, row.runs))
        body.append((row.condition.name, tuple(cells)))
    title = "Interquartile means with 95 % bootstrap intervals, and how likely a run of ADC beats one of the condition"
    return Table(title, tuple(head), tuple(body))


def _probability(estimate: Estimate, first: int, second: int) -> Cell:
    note = f"({probability_note(estimate, first, second)})"
    return Cell(f"{estimate.value:.2f}", float(estimate.value), note)


def _spread(pair: tuple[float, float], form: str) -> Cell:
    return Cell(form.format(pair[0]), pair[0], f"± {form.format(pair[1])}")


def _runs(row: ConditionNumbers) -> Cell:
    missing = [f"{row.failed} failed"] if row.failed else []
    missing += [f"{row.unfinished} unfinished"] if row.unfinished else []
    return Cell(f"{row.runs}" + (f" ({', '.join(missing)})" if missing else ""), row.runs)


def is_ours(condition: str) -> bool:
    """Whether a row is the method itself, for emphasis."""
    return condition == REFERENCE


def markdown_report(
    results: StudyResults, numbers: Sequence[ConditionNumbers], pictures: Sequence[str], *, seed: int = 0
) -> str:
    """Return the report; pictures are named relative to it."""
    parts = [f"# Study: {plain(results.config()['task'])}", plain(headline(results))]
    found = verdict_of(numbers)
    parts += [f"**{plain(found.text)}**", found.warning, results.notes.strip()]
    for table in study_tables(results, numbers):
        parts += [f"## {plain(table.title)}", _table(table)]
    parts += [
        "Mean ± standard deviation over runs (n − 1). IQM: the mean of the middle half of the runs; intervals by "
        f"resampling runs 2000 times (percentile method, seed {seed}). Failed and unfinished runs are in no number."
    ]
    parts += [f"![{name}]({name})" for name in pictures]
    parts += ["## How episodes ended", _modes(numbers)]
    parts += ["## Conditions", _conditions(results), "## Every run", _run_list(results)]
    failed = [run for run in results.runs if run.state == "failed"]
    if failed:
        lines = [f"- {plain(run.condition)}, seed {run.seed}: {_code(_last_line(run.error))}" for run in failed]
        parts += ["## Failed runs", "\n".join(lines)]
    commands = "\n".join(how_to_repeat(results))
    fence = "`" * max(3, _longest_ticks(commands) + 1)
    parts += ["## Commands", f"{fence}sh\n{commands}\n{fence}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _code(text: str) -> str:
    """Return a text as code that no backtick inside ends."""
    fence = "`" * (_longest_ticks(text) + 1)
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def _longest_ticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _last_line(error: str | None) -> str:
    return ((error or "").strip().splitlines() or ["?"])[-1]


def _table(table: Table) -> str:
    lines = markdown_table(
        table.head, [[cell.full for cell in cells] for _, cells in table.rows], right=True
    ).splitlines()
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
    return markdown_table(["condition", *modes], rows, right=True)


def _conditions(results: StudyResults) -> str:
    lines = []
    for condition in conditions_shown(results):
        differs, left_open = _no_html(condition.differs), _no_html(condition.open)
        lines.append(f"- **{plain(condition.title)}** ({_code(condition.name)}). {differs} *Left open:* {left_open}")
    return "\n".join(lines)


def _run_list(results: StudyResults) -> str:
    rows = []
    for run in results.runs:
        scores = [metric.format(run.score(metric)) if run.summary else "" for metric in METRICS]
        seconds = "" if run.seconds is None else f"{run.seconds:.0f}"
        rows.append([run.condition, str(run.seed), run.state, *scores, seconds])
    head = ["condition", "seed", "state", *(metric.label for metric in METRICS), "seconds"]
    return markdown_table(head, rows, right=True)
