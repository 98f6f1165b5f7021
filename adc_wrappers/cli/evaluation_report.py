"""An evaluation in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["evaluation_title", "format_rate", "print_evaluation"]


def print_evaluation(console: Console, summary: dict[str, Any]) -> None:
    """Print a summary as small tables: success, length and return; how episodes ended; terms of the reward."""
    table = Table(title=evaluation_title(summary), title_justify="left")
    for column in ("success rate (95 %)", "episode length", "return"):
        table.add_column(column)
    table.add_row(
        format_rate(summary["success_rate"], summary["success_95"]),
        f"{summary['length_mean']:.1f} ± {summary['length_std']:.1f}",
        f"{summary['return_mean']:.1f} ± {summary['return_std']:.1f}",
    )
    console.print(table)
    total = summary["episodes"]
    ends = {mode: f"{count} ({count / total:.1%})" for mode, count in summary["modes"].items() if count}
    console.print(_two_columns("how episodes ended", "episodes", ends))
    terms = {name: f"{value:.3g}" for name, value in summary["reward_terms"].items()}
    if terms:
        console.print(_two_columns("reward term", "mean per episode", terms))


def _two_columns(left: str, right: str, rows: dict[str, str]) -> Table:
    table = Table(left, right, box=None, padding=(0, 2))
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def format_rate(rate: float, interval: Sequence[float]) -> str:
    """Return a rate with its interval."""
    return f"{rate:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"


def evaluation_title(summary: dict[str, Any], *, short: bool = False) -> str:
    """Return what was evaluated, at which stiffness, and whether that is the target; ``short`` without the batch."""
    where = f"{summary['episodes']} episodes of {summary['task']} in {summary['backend']}"
    trained = summary["trained"]["backend"]
    if trained != summary["backend"]:
        where += f" (trained in {trained})"
    stiffness = _numbers(summary["stiffness"])
    at = f"at the target stiffness K = {stiffness}"
    if not summary["at_target"]:
        at = f"at K = {stiffness}, which is NOT the target ({_numbers(summary['target_stiffness'])})"
    return f"{where}, {at}" if short else f"{where}, {summary['num_envs']} at a time, {at}"


def _numbers(values: Any) -> str:
    if isinstance(values, dict):
        return ", ".join(f"{name} {value:g}" for name, value in values.items())
    distinct = list(values) if isinstance(values, list | tuple) else [values]
    if len(set(distinct)) == 1:
        distinct = distinct[:1]
    return ", ".join(f"{value:g}" for value in distinct)
