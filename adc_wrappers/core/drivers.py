"""What moves progress: functions from an iteration's report to a progress in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .totals import EpisodeTotals

if TYPE_CHECKING:
    from .config import CurriculumConfig

__all__ = ["DRIVERS", "IterationReport"]


@dataclass(frozen=True)
class IterationReport:
    """What a driver may look at when an iteration has been closed."""

    iteration: int
    """Number of iterations closed so far, this one included."""

    totals: EpisodeTotals
    """The episodes completed in this iteration."""

    length_ema: float
    """Moving average of completed episode lengths, this iteration included."""

    success_ema: float
    """Moving average of the success rate, this iteration included."""

    progress: float
    """Progress before this iteration."""

    config: CurriculumConfig
    """The curriculum's settings."""


def _ramp(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0)


def episode_length(report: IterationReport) -> float:
    """Follow the moving average of completed episode lengths (the paper, Algorithm 1)."""
    return _ramp(report.length_ema, report.config.length_min, report.config.length_max)


def time(report: IterationReport) -> float:
    """Rise linearly with iterations and arrive where the hold at the target begins."""
    total = report.config.total_iterations or 1
    return _ramp(report.iteration, 0.0, total * (1.0 - report.config.hold_share))


def fixed(report: IterationReport) -> float:
    """Stay where the config says."""
    return report.config.fixed_progress


def uniform(report: IterationReport) -> float:
    """Report the mean of a stiffness that is drawn anew for every episode."""
    return 0.5


def success(report: IterationReport) -> float:
    """Follow the moving average of the success rate."""
    return _ramp(report.success_ema, report.config.success_min, report.config.success_max)


DRIVERS: dict[str, Callable[[IterationReport], float]] = {
    "episode_length": episode_length,
    "time": time,
    "fixed": fixed,
    "uniform": uniform,
    "success": success,
}
