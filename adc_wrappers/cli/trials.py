"""``adc trials``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import tyro
from rich.console import Console
from rich.table import Table

from .evaluate import format_rate

if TYPE_CHECKING:
    from adc_wrappers.deploy import Trial

__all__ = ["SUMMARY_ROWS", "Trials"]


@dataclass(frozen=True, kw_only=True)
class Trials:
    """Report recorded trials: success, times, retries, failures, timing.

    Every attempt counts, whatever became of it. Simulation, practice robot and robot stand side by side, each clock and
    each set of the guard's limits for itself.
    """

    folders: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="FOLDER")] = (Path("trials"),)
    """Folders that hold trials, at any depth."""

    out: Path | None = None
    """Write the numbers to this JSON file too."""

    seed: int = 0
    """Seed of the bootstrap intervals."""

    def run(self) -> int:
        """Report."""
        from adc_wrappers.core.files import write_json
        from adc_wrappers.deploy import find_trials, summarize

        console = Console(highlight=False, soft_wrap=True)
        found, problems = find_trials(self.folders)
        for problem in problems:
            console.print(f"left out: {problem}", markup=False)
        if not found:
            raise ValueError("no trials: record some with `adc deploy`.")
        groups: dict[str, list[Trial]] = {}
        for trial in found:
            groups.setdefault(trial.group, []).append(trial)
        summaries = {group: summarize(trials, seed=self.seed) for group, trials in groups.items()}
        console.print(_table(summaries))
        if self.out is not None:
            write_json(self.out, summaries)
            console.print(f"numbers {self.out}")
        return 0


def _table(summaries: dict[str, dict[str, Any]]) -> Table:
    table = Table(title="trials, 95 % intervals", title_justify="left")
    table.add_column("")
    for group in summaries:
        table.add_column(group)
    for name, show in SUMMARY_ROWS.items():
        table.add_row(name, *(show(summary) for summary in summaries.values()))
    return table


def _rate(value: dict[str, Any] | None) -> str:
    return (
        "none" if value is None else f"{value['count']}/{value['of']}  {format_rate(value['rate'], value['interval'])}"
    )


def _mean(value: dict[str, Any] | None) -> str:
    if value is None:
        return "never"
    low, high = value["interval"]
    return f"{value['mean']:.2f} ({low:.2f} to {high:.2f})"


def _percentiles(timing: dict[str, float], name: str) -> str:
    parts = [f"p{end} {timing[f'{name}_p{end}_ms']:.2f}" for end in (50, 95, 99) if f"{name}_p{end}_ms" in timing]
    largest = timing.get(f"{name}_p100_ms")
    return ", ".join(parts) + (f", max {largest:.2f}" if largest is not None else "")


SUMMARY_ROWS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "trials": lambda s: str(s["trials"]),
    "policy drove": lambda s: _rate(s["driven"]),
    "success, of all": lambda s: _rate(s["success"]),
    "success, where it drove": lambda s: _rate(s["success_driven"]),
    "stance reached, of all": lambda s: _rate(s["transition"]),
    "time to stance, s": lambda s: _mean(s["time_to_stance"]),
    "longest hold, s": lambda s: _mean(s["longest_hold"]),
    "retries": lambda s: _mean(s["retries"]),
    "pushes recovered": lambda s: _rate(s["pushes_recovered"]),
    "how they ended": lambda s: ", ".join(f"{mode} {count}" for mode, count in s["modes"].items()),
    "motors": lambda s: ", ".join(f"{motors} {count}" for motors, count in s["motors"].items()),
    "loop period, ms": lambda s: _percentiles(s["timing"], "period"),
    "policy, ms": lambda s: _percentiles(s["timing"], "inference"),
    "state to command, ms": lambda s: _percentiles(s["timing"], "state_to_command"),
    "command to echo, ms": lambda s: _percentiles(s["timing"], "command_to_echo"),
}
"""What is told of trials of one kind: how each number of a summary reads."""
