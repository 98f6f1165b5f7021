"""Statistics over runs, in numpy, each with a seed of its own.

Scores are arrays of shape ``(runs, tasks)``: one number per trained policy and task. The definitions are those of
Agarwal et al., *Deep Reinforcement Learning at the Edge of the Statistical Precipice* (NeurIPS 2021): the
interquartile mean over all runs and tasks, percentile intervals from a bootstrap that is stratified by task, the
probability of improvement, performance profiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.core import CurriculumError

__all__ = [
    "Estimate",
    "bootstrap",
    "iqm",
    "mean_std",
    "performance_profile",
    "probability_of_improvement",
    "resample",
]

Scores = NDArray[np.float64]
Statistic = Callable[[Scores], NDArray[np.float64]]

REPETITIONS = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number, or a row of them, with its interval."""

    value: Any
    """The statistic of the scores themselves."""

    low: Any
    """Lower end of the interval."""

    high: Any
    """Upper end of the interval."""


def as_scores(values: ArrayLike) -> Scores:
    """Return scores with shape ``(runs, tasks)``; one row of numbers is one task's."""
    scores = np.asarray(values, dtype=np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or 0 in scores.shape:
        raise CurriculumError(f"scores: expected an array (runs, tasks) with a run in it, got shape {scores.shape}.")
    if not np.isfinite(scores).all():
        raise CurriculumError("scores: expected finite numbers. Leave failed runs out before.")
    return scores


def mean_std(values: ArrayLike) -> tuple[float, float]:
    """Return mean and standard deviation over runs, as the paper prints them; the deviation of one run is 0.

    >>> mean_std([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    scores = as_scores(values).mean(axis=1)
    return float(scores.mean()), float(scores.std(ddof=1)) if len(scores) > 1 else 0.0


def iqm(scores: Scores) -> NDArray[np.float64]:
    """Return the interquartile mean over the last two axes (runs, tasks): a quarter is cut off at either end.

    >>> float(iqm(np.arange(8.0)[:, None]))
    3.5
    """
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = int(0.25 * flat.shape[-1])
    return np.asarray(flat[..., cut : flat.shape[-1] - cut].mean(axis=-1))


def resample(scores: Scores, rng: np.random.Generator, repetitions: int) -> Scores:
    """Draw runs with replacement, task by task: shape ``(repetitions, runs, tasks)``."""
    runs, tasks = scores.shape
    index = rng.integers(runs, size=(repetitions, runs, tasks))
    return scores[index, np.arange(tasks)]


def bootstrap(
    values: ArrayLike,
    statistic: Statistic = iqm,
    *,
    seed: int = 0,
    repetitions: int = REPETITIONS,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Return a statistic with its percentile interval.

    Args:
        values: Scores, ``(runs, tasks)`` or ``(runs,)``.
        statistic: From scores ``(…, runs, tasks)`` to numbers ``(…)``, or rows of them ``(…, n)``.
        seed: Seed of the resampling.
        repetitions: How often it is drawn.
        confidence: Share of the resampled statistics inside the interval.
    """
    scores = as_scores(values)
    drawn = statistic(resample(scores, np.random.default_rng(seed), repetitions))
    return _estimate(statistic(scores), drawn, confidence)


def probability_of_improvement(
    first: ArrayLike,
    second: ArrayLike,
    *,
    seed: int = 0,
    repetitions: int = REPETITIONS,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Return how likely a run of ``first`` scores higher than one of ``second``, a tie counting half.

    >>> probability_of_improvement([2.0, 3.0], [1.0, 2.0]).value
    0.875
    """
    x, y = as_scores(first), as_scores(second)
    if x.shape[1] != y.shape[1]:
        raise CurriculumError(f"expected scores of the same tasks, got {x.shape[1]} and {y.shape[1]} tasks.")
    rng = np.random.default_rng(seed)
    drawn = _improvement(resample(x, rng, repetitions), resample(y, rng, repetitions))
    return _estimate(_improvement(x, y), drawn, confidence)


def performance_profile(
    values: ArrayLike,
    thresholds: ArrayLike,
    *,
    seed: int = 0,
    repetitions: int = REPETITIONS,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Return the share of runs that score above each threshold, with pointwise intervals."""
    levels = np.asarray(thresholds, dtype=np.float64)

    def shares(scores: Scores) -> NDArray[np.float64]:
        flat = scores.reshape(*scores.shape[:-2], -1, 1)
        return np.asarray((flat > levels).mean(axis=-2))

    return bootstrap(values, shares, seed=seed, repetitions=repetitions, confidence=confidence)


def _improvement(x: Scores, y: Scores) -> NDArray[np.float64]:
    difference = x[..., :, None, :] - y[..., None, :, :]
    return np.asarray((0.5 * (np.sign(difference) + 1.0)).mean(axis=(-3, -2, -1)))


def _estimate(value: NDArray[np.float64], drawn: NDArray[np.float64], confidence: float) -> Estimate:
    if not 0.0 < confidence < 1.0:
        raise CurriculumError(f"confidence: expected a number between 0 and 1, got {confidence}.")
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(drawn, [tail, 100.0 - tail], axis=0)
    if value.ndim == 0:
        return Estimate(float(value), float(low), float(high))
    return Estimate(value, low, high)
