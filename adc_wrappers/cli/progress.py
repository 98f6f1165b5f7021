"""Progress of a command, as a live bar or a line every few seconds; tables; a curriculum in words."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from adc_wrappers.core.config import CurriculumConfig

__all__ = [
    "CommandProgress",
    "EvaluationProgress",
    "RunsProgress",
    "TrainingProgress",
    "curriculum_in_words",
    "interruption_explained",
    "narrow_table",
]


@contextlib.contextmanager
def interruption_explained(explain: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl+C in the midst of a long command say what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(explain()) from interrupt


_LINE_EVERY = 10.0
_LATELY = 10  # iterations
_Self = TypeVar("_Self", bound="CommandProgress")


class CommandProgress:
    """Progress of a known number of things, with some numbers beside it.

    Args:
        console: Where to write.
        what: What the command is doing.
        unit: What is counted.
        total: How many there will be.
        done: How many an earlier part of the command has done.
    """

    def __init__(self, console: Console, what: str, unit: str, total: int, done: int = 0) -> None:
        self._console = console
        self._unit = unit
        self._total = total
        self._last_line = time.perf_counter()
        self._live = console.is_terminal
        self._bar = Progress(
            TextColumn(what),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task(what, total=total, completed=done, numbers="")

    def __enter__(self: _Self) -> _Self:
        if self._live:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._bar.stop()

    def show(self, done: int, numbers: str) -> None:
        """Show how much is done."""
        if self._live:
            self._bar.update(self._task, completed=min(done, self._total), numbers=numbers)
            return
        now = time.perf_counter()
        if now - self._last_line >= _LINE_EVERY or done >= self._total:
            self._last_line = now
            self._console.print(f"{done:>9,} / {self._total:,} {self._unit}  {numbers}", highlight=False)


class TrainingProgress(CommandProgress):
    """Progress of a training: steps, steps per second, episode length, success and K.

    The length is that of episodes that ended lately, and beside it the curriculum's moving average, which begins at 0
    and moves K.

    Args:
        console: Where to write.
        total: Env steps of the whole run.
        done: Env steps already done by an earlier part of it.
    """

    def __init__(self, console: Console, total: int, done: int = 0) -> None:
        super().__init__(console, "training", "steps", total, done)
        self._lately: deque[tuple[float, float]] = deque(maxlen=_LATELY)

    def update(self, steps: int, row: dict[str, float]) -> None:
        """Show an iteration's numbers."""
        speed, average, stiffness = (row[key] for key in ("steps_per_second", "episode_length_ema", "stiffness"))
        success = row.get("success_ema", math.nan)
        known = "" if math.isnan(success) else f"  success {success:4.0%}"
        strictness = f"  strictness {row['strictness']:.2f}" if "strictness" in row else ""
        length = f"length {self._recent_length(row):6.1f} (average {average:.1f})"
        self.show(steps, f"{speed:5.0f} steps/s  {length}{known}  K {stiffness:6.2f}{strictness}")

    def _recent_length(self, row: dict[str, float]) -> float:
        """Mean length of the episodes of the last iterations; NaN as long as none has ended."""
        if row["episodes"]:
            self._lately.append((row["episode_length_mean"], row["episodes"]))
        episodes = sum(count for _, count in self._lately)
        return sum(mean * count for mean, count in self._lately) / episodes if episodes else math.nan


class EvaluationProgress(CommandProgress):
    """Progress of an evaluation in episodes and env steps; episodes of one batch may all end together.

    Args:
        console: Where to write.
        episodes: How many will be played.
    """

    def __init__(self, console: Console, episodes: int) -> None:
        super().__init__(console, "evaluating", "episodes", episodes)
        self._begun = time.perf_counter()

    def update(self, episodes: int, steps: int) -> None:
        """Show how many episodes and env steps are done."""
        speed = steps / max(time.perf_counter() - self._begun, 1e-9)
        self.show(episodes, f"{steps:,} env steps  {speed:5.0f} steps/s")


class RunsProgress:
    """Progress of trainings side by side: a bar for each in a terminal, a line for each now and then elsewhere.

    Args:
        console: Where to write.
        names: What the trainings are called.
        total: Env steps of each.
    """

    def __init__(self, console: Console, names: Sequence[str], total: int) -> None:
        self._console, self._total = console, total
        self._width = max(len(name) for name in names)
        self._live = console.is_terminal
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks = {name: self._bars.add_task(name, total=total, numbers="begins") for name in names}
        self._lines = dict.fromkeys(names, 0.0)
        self._shown = dict.fromkeys(names, 0)

    def __enter__(self) -> RunsProgress:
        if self._live:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._bars.stop()

    def update(self, name: str, row: dict[str, float]) -> None:
        """Show the newest iteration of a training, if it is new."""
        done = int(row["steps"])
        if done == self._shown[name]:
            return
        self._shown[name] = done
        holding = row.get("holding", math.nan)
        known = "" if math.isnan(holding) else f"  in place {holding:4.0%}"
        numbers = f"length {row['episode_length_ema']:5.0f}{known}  K {row['stiffness']:5.1f}"
        if self._live:
            self._bars.update(self._tasks[name], completed=min(done, self._total), numbers=numbers)
            return
        now = time.perf_counter()
        if now - self._lines[name] >= _LINE_EVERY or done >= self._total:
            self._lines[name] = now
            self._console.print(f"{name:<{self._width}}  {done:>9,} / {self._total:,} steps  {numbers}", markup=False)


def narrow_table(title: str, heads: tuple[str, ...]) -> Table:
    """Return a table of numbers without lines between its columns, so that nine fit into 80 characters.

    Heads are broken where they say so and nowhere else: rich, left to itself, cuts words.
    """
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    first, *others = heads
    table.add_column(first, no_wrap=True)
    for head in others:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def curriculum_in_words(config: CurriculumConfig) -> str:
    """Return what moves K, and for how long it is held at the target.

    >>> curriculum_in_words(CurriculumConfig(driver="time", hold_share=0.4, total_iterations=50))
    'K falls evenly with time, whatever the policy can do; for the last 40 % of training it is held at the target'
    """
    parts = [_driver_in_words(config)]
    if config.monotone:
        parts.append("never back to stiffer joints")
    if config.hold_share:
        parts.append(f"for the last {100 * config.hold_share:.0f} % of training it is held at the target")
    elif config.driver in ("episode_length", "success", "task_progress", "adaptive"):
        parts.append("it is never held at the target: training may end before it arrives")
    return "; ".join(parts)


def _driver_in_words(config: CurriculumConfig) -> str:
    if not isinstance(config.driver, str):
        return "K follows a function of your own"
    words = {
        "episode_length": f"K follows the average episode length and arrives at {config.length_max:.0f} steps",
        "time": "K falls evenly with time, whatever the policy can do",
        "fixed": f"K stays where it is, at progress {config.fixed_progress:g}",
        "uniform": "K is drawn anew for every iteration",
        "success": f"K follows the success rate and arrives at {100 * config.success_max:.0f} %",
        "task_progress": f"K follows the task's own progress and arrives at {config.task_progress_max:g}",
        "adaptive": f"K goes a step on or back by {config.adaptive_measure.replace('_', ' ')}",
    }
    return words[config.driver]
