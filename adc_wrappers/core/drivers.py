"""Drivers of progress: functions from an iteration's report to a progress in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .episode_totals import EpisodeTotals

if TYPE_CHECKING:
    from .config import CurriculumConfig

__all__ = ["DRIVERS", "MEASURES", "IterationReport"]


@dataclass(frozen=True)
class IterationReport:
    """Numbers that a driver may look at when an iteration has been closed."""

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

    task_progress_ema: float = 0.0
    """Moving average of the task's own progress, this iteration included."""

    settled: int = 1
    """Iterations in the present window, this one included: at one stiffness, and no more than
    ``adaptive_iterations``."""

    since: EpisodeTotals = field(default_factory=EpisodeTotals)
    """All episodes and steps of that window: what is known of the present stiffness."""


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


def task_progress(report: IterationReport) -> float:
    """Follow the moving average of the task's own progress, such as the share of steps in a stance."""
    config = report.config
    return _ramp(report.task_progress_ema, config.task_progress_min, config.task_progress_max)


MEASURES: dict[str, Callable[[IterationReport], float]] = {
    "task_progress": lambda report: report.since.mean_progress,
    "success": lambda report: report.since.success_rate,
    "episode_length": lambda report: min(report.since.mean_length / report.config.length_max, 1.0),
}
"""What the adaptive driver may look at, each in [0, 1], since the stiffness last changed; NaN if unknown."""


def adaptive(report: IterationReport) -> float:
    """Take a step towards the target when the policy copes with the present stiffness, and one back when it does not.

    In the manner of automatic domain randomization: it decides after every ``adaptive_iterations`` iterations at one
    stiffness, by what was seen in them.
    """
    config = report.config
    measure = MEASURES[config.adaptive_measure](report)
    if report.settled < config.adaptive_iterations or measure != measure:  # NaN: nothing is known yet
        return report.progress
    if measure >= config.adaptive_upper:
        return min(report.progress + config.adaptive_step, 1.0)
    if measure < config.adaptive_lower:
        return max(report.progress - config.adaptive_step, 0.0)
    return report.progress


DRIVERS: dict[str, Callable[[IterationReport], float]] = {
    "episode_length": episode_length,
    "time": time,
    "fixed": fixed,
    "uniform": uniform,
    "success": success,
    "task_progress": task_progress,
    "adaptive": adaptive,
}
