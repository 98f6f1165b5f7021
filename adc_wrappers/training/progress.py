"""Who is told how far a run is."""

from __future__ import annotations

from typing import Protocol

__all__ = ["ProgressReporter"]


class ProgressReporter(Protocol):
    """Is told how far a run is."""

    def update(self, steps: int, row: dict[str, float]) -> None:
        """Take note of an iteration's end; ``row`` is the one written to ``metrics.csv``."""
