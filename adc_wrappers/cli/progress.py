"""How far a run is: a live bar in a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["TrainingProgress"]

_LINE_EVERY = 10.0


class TrainingProgress:
    """Shows steps, steps per second, episode length and K.

    Args:
        console: Where to write.
        total: Env steps of the whole run.
        done: Env steps already done by an earlier part of it.
    """

    def __init__(self, console: Console, total: int, done: int = 0) -> None:
        self._console = console
        self._total = total
        self._last_line = time.perf_counter()
        self._live = console.is_terminal
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task("training", total=total, completed=done, numbers="")

    def __enter__(self) -> TrainingProgress:
        if self._live:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._bar.stop()

    def update(self, steps: int, row: dict[str, float]) -> None:
        """Show an iteration's numbers."""
        speed, length, stiffness = (row[key] for key in ("steps_per_second", "episode_length_ema", "stiffness"))
        numbers = f"{speed:5.0f} steps/s  length {length:6.1f}  K {stiffness:6.2f}"
        if self._live:
            self._bar.update(self._task, completed=min(steps, self._total), numbers=numbers)
            return
        now = time.perf_counter()
        if now - self._last_line >= _LINE_EVERY or steps >= self._total:
            self._last_line = now
            self._console.print(f"{steps:>9,} / {self._total:,} steps  {numbers}", highlight=False)
