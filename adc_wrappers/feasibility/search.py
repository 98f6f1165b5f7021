"""Minimizing a function of a few numbers under constraints, without derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Minimum", "minimize"]

_Array = NDArray[np.float64]
_PATIENCE = 80  # generations without progress
_PROGRESS = 1e-5


class Minimum(NamedTuple):
    """The best point that was found."""

    point: _Array
    value: float
    violation: float
    """0 where every constraint holds."""
    generations: int


def minimize(
    function: Callable[[_Array], tuple[_Array, _Array]],
    lower: _Array,
    upper: _Array,
    *,
    rng: np.random.Generator,
    population: int = 80,
    max_generations: int = 1500,
) -> Minimum:
    """Find the least value within bounds by differential evolution (current-to-best, binomial crossover).

    Of two points the one that violates the constraints less wins, and among those that violate none the one with the
    lower value (Deb's rules), so no penalty weight must be chosen. The search ends when the best
    point has not become better by 1e-5 for 80 generations.

    Args:
        function: From points ``(n, d)`` to their values and how much they violate the constraints, both ``(n,)``.
        lower: Lower bounds, ``(d,)``.
        upper: Upper bounds, ``(d,)``.
        rng: Source of the random numbers.
        population: Points kept at a time, at least 4.
        max_generations: Where the search ends at the latest.

    Example:
        >>> def circle(points):
        ...     return points.sum(axis=1), np.maximum(0.0, (points**2).sum(axis=1) - 1.0)
        >>> best = minimize(circle, np.full(2, -2.0), np.full(2, 2.0), rng=np.random.default_rng(0))
        >>> best.point.round(4).tolist(), best.violation
        ([-0.7071, -0.7071], 0.0)
    """
    points = lower + rng.random((population, len(lower))) * (upper - lower)
    values, violations = function(points)
    generation, mark, marked = 0, (np.inf, np.inf), 0
    for generation in range(1, max_generations + 1):
        trials = _trials(points, points[_best(values, violations)], lower, upper, rng)
        trial_values, trial_violations = function(trials)
        legal = (trial_violations <= 0.0) & (violations <= 0.0)
        better = np.where(legal, trial_values <= values, trial_violations < violations)
        points[better], values[better] = trials[better], trial_values[better]
        violations[better] = trial_violations[better]
        best = _best(values, violations)
        if violations[best] < mark[0] - _PROGRESS or values[best] < mark[1] - _PROGRESS:
            mark, marked = (float(violations[best]), float(values[best])), generation
        elif generation - marked >= _PATIENCE:
            break
    best = _best(values, violations)
    return Minimum(points[best], float(values[best]), float(violations[best]), generation)


def _best(values: _Array, violations: _Array) -> int:
    return int(np.lexsort((values, violations))[0])


def _trials(points: _Array, best: _Array, lower: _Array, upper: _Array, rng: np.random.Generator) -> _Array:
    """One new point for each old one; a coordinate that leaves the bounds is put half way to them."""
    count, size = points.shape
    first, second = (rng.permutation(count) for _ in range(2))
    factor = rng.uniform(0.4, 0.9, (count, 1))
    pull = rng.uniform(0.0, 0.6, (count, 1))
    mutants = points + pull * (best - points) + factor * (points[first] - points[second])
    mutants = np.where(mutants < lower, 0.5 * (points + lower), mutants)
    mutants = np.where(mutants > upper, 0.5 * (points + upper), mutants)
    keep = rng.random((count, size)) > 0.9
    keep[np.arange(count), rng.integers(0, size, count)] = False
    return np.where(keep, points, mutants)
