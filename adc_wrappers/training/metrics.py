"""Rows of ``metrics.csv``, the same for every trainer."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from adc_wrappers.core.wrapper_methods import CurriculumMethods

__all__ = ["Pace", "metrics_row", "scalar_name"]

_OF_THE_CURRICULUM = ("stiffness", "damping_mean", "progress", "episode_length_ema", "success_ema")


def scalar_name(column: str) -> str:
    """Return what a column of ``metrics.csv`` is called in TensorBoard and W&B.

    >>> scalar_name("stiffness"), scalar_name("return_mean")
    ('adc/stiffness', 'train/return_mean')
    """
    return f"{'adc' if column in _OF_THE_CURRICULUM else 'train'}/{column}"


class Pace:
    """Env steps per second since it was last asked."""

    def __init__(self) -> None:
        self.restart(0)

    def restart(self, steps: int) -> None:
        """Begin to count here.

        Args:
            steps: Env steps so far.
        """
        self._since, self._steps = time.perf_counter(), steps

    def at(self, steps: int) -> float:
        """Return the steps per second up to now.

        Args:
            steps: Env steps so far.
        """
        since, before = self._since, self._steps
        self.restart(steps)
        return (steps - before) / max(self._since - since, 1e-9)


def metrics_row(
    wrapper: CurriculumMethods,
    *,
    steps: int,
    returns: Sequence[float],
    learning_rate: float,
    pace: Pace,
    holding: float | None = None,
    action_std: float | None = None,
) -> dict[str, float]:
    """Return the row of the iteration that the curriculum has just closed.

    Args:
        wrapper: The curriculum's wrapper.
        steps: Env steps so far, summed over envs.
        returns: Returns of recent episodes.
        learning_rate: The present one.
        pace: Is asked for the steps per second.
        holding: Share of the iteration's steps in the wanted state, where the trainer knows it.
        action_std: Standard deviation of the policy, where the trainer knows it.
    """
    curriculum, report, totals = wrapper.curriculum, wrapper.adc.report, wrapper.adc.last_totals
    row: dict[str, float | None] = {
        "iteration": curriculum.iteration,
        "steps": steps,
        "stiffness": report["stiffness"],
        "damping_mean": report["damping_mean"],
        "progress": curriculum.progress,
        "episode_length_ema": curriculum.length_ema,
        "episode_length_mean": totals.mean_length,
        "episodes": totals.episodes,
        "success_ema": curriculum.success_ema,
        "holding": holding,
        "return_mean": float(np.mean(returns)) if len(returns) else math.nan,
        "action_std": action_std,
        "learning_rate": learning_rate,
        "steps_per_second": round(pace.at(steps), 1),
        "strictness": None if wrapper.inner_task is None else wrapper.inner_task.state_dict().get("level"),
    }
    return {name: value for name, value in row.items() if value is not None}
