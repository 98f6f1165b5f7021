"""Information in the data about each parameter: sensitivity, intervals, and directions that cannot be told apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .losses import squared_error

__all__ = ["Information", "Verdict", "gather_information", "judge", "linearize", "polish"]

_Array = NDArray[np.float64]
_Residuals = Callable[[_Array], _Array]
"""From points in the unit cube ``(n, dimension)`` to scaled errors ``(n, rows, channels, joints)``."""

Verdict = Literal["identified", "weak", "not identified"]

_STEP = 2e-3
_FLOOR = 1e-2  # smallest information that is told from none: a standard deviation of ten times the range
_WEAK = 0.25


@dataclass(frozen=True, kw_only=True)
class Information:
    """Sensitivity of a fit, in shares of each parameter's range of bounds."""

    half_width: _Array
    """Half of the interval of every parameter."""

    covariance: _Array
    """Of the estimate."""

    sensitivity: _Array
    """Root mean square change of the scaled errors if a parameter moves by its whole range, the others held."""

    weakest: tuple[tuple[int, float], ...]
    """Largest parts of the direction that the data say least about: parameter and share."""

    weakest_deviation: float
    """Standard deviation along it."""


def linearize(residuals: _Residuals, point: _Array) -> tuple[_Array, _Array]:
    """Return the scaled errors at a point of the unit cube, and their derivative by each of its numbers.

    Central differences, one-sided at a bound, in one batch.
    """
    steps = np.eye(len(point)) * _STEP
    ahead, behind = np.clip(point + steps, 0.0, 1.0), np.clip(point - steps, 0.0, 1.0)
    width = np.diag(ahead - behind)
    errors = residuals(np.concatenate((point[None], ahead, behind)))
    half = len(point) + 1
    return errors[0], np.asarray((errors[1:half] - errors[half:]) / width[:, None, None, None])


def polish(residuals: _Residuals, point: _Array, *, iterations: int = 8) -> tuple[_Array, float]:
    """Go downhill from a point of the unit cube by damped Gauss-Newton steps; return where it ends and the loss there.

    The step that is taken is the best of a few dampings, tried in one batch.
    """
    best = np.clip(point, 0.0, 1.0)
    loss = np.inf
    for _ in range(iterations):
        present, derivative = linearize(residuals, best)
        loss = float(squared_error(present[None])[0])
        errors, slope = present.ravel(), derivative.reshape(len(best), -1)
        if not np.isfinite(slope).all():
            break
        normal, gradient = slope @ slope.T, slope @ errors
        scale = np.diag(normal) + 1e-12 * np.trace(normal) + 1e-300
        tried = []
        for damping in (0.0, 1e-3, 1e-1, 1.0):
            matrix = normal + np.diag(damping * scale + 1e-12 * scale)
            free = ~(((best <= 0.0) & (gradient > 0.0)) | ((best >= 1.0) & (gradient < 0.0)))
            step = np.zeros_like(best)
            step[free] = np.linalg.lstsq(matrix[np.ix_(free, free)], gradient[free], rcond=None)[0]
            tried.append(np.clip(best - step, 0.0, 1.0))
        losses = squared_error(residuals(np.array(tried)))
        winner = int(np.argmin(losses))
        if not losses[winner] < loss * (1.0 - 1e-9):
            break
        moved = float(np.abs(tried[winner] - best).max())
        best, loss = tried[winner], float(losses[winner])
        if moved < 1e-5:
            break
    return best, loss


def gather_information(
    residuals: _Residuals, point: _Array, row_window: NDArray[np.int64], confidence: float
) -> Information:
    """Return what the data say at the best point.

    The covariance is the larger, parameter by parameter, of two: that of independent errors, and one that lets the
    errors of a joint within a window depend on each other in any way (a sandwich with one cluster per joint and
    window). Intervals hold for all parameters together (Bonferroni).

    Args:
        residuals: The scaled errors.
        point: The best point in the unit cube.
        row_window: Window of every row that is compared.
        confidence: Of all intervals together, such as 0.95.
    """
    dimension = len(point)
    errors, slope = linearize(residuals, point)
    normal = np.einsum("prcj,qrcj->pq", slope, slope)
    inverse = _inverse(normal)
    count = errors.size
    plain = _plain(slope, errors, inverse)
    scores = _cluster_scores(slope, errors, row_window)
    clusters = len(scores)
    robust = inverse @ (scores.T @ scores) @ inverse * clusters / max(1, clusters - dimension)
    deviation = np.sqrt(np.maximum(np.diag(robust), np.diag(plain)))
    covariance = _with_deviation(plain, deviation)
    factor = NormalDist().inv_cdf(1.0 - (1.0 - confidence) / (2.0 * dimension))
    half_width = factor * deviation
    eigenvalues, vectors = np.linalg.eigh(covariance)
    weakest = vectors[:, -1]
    order = np.argsort(-np.abs(weakest))
    return Information(
        half_width=half_width,
        covariance=covariance,
        sensitivity=np.sqrt(np.diag(normal) / count),
        weakest=tuple((int(i), float(weakest[i] ** 2)) for i in order if weakest[i] ** 2 > 0.05),
        weakest_deviation=float(np.sqrt(max(0.0, eigenvalues[-1]))),
    )


def _inverse(normal: _Array) -> _Array:
    """Invert the information; a direction that the data say nothing about gets a deviation of many ranges."""
    eigenvalues, vectors = np.linalg.eigh(normal)
    return np.asarray((vectors / np.maximum(eigenvalues, _FLOOR)) @ vectors.T)


def _plain(slope: _Array, errors: _Array, inverse: _Array) -> _Array:
    """Covariance for independent errors whose size differs between channels and joints."""
    variance = np.mean(errors**2, axis=0)
    meat = np.einsum("prcj,qrcj,cj->pq", slope, slope, variance)
    return np.asarray(inverse @ meat @ inverse) * errors.size / max(1, errors.size - len(slope)) + _unseen(inverse)


def _unseen(inverse: _Array) -> _Array:
    """Deviation along directions without information, which the sandwich would call certain."""
    eigenvalues, vectors = np.linalg.eigh(inverse)
    blind = np.where(eigenvalues >= 0.999 / _FLOOR, 1.0 / _FLOOR, 0.0)
    return np.asarray((vectors * blind) @ vectors.T)


def _cluster_scores(slope: _Array, errors: _Array, row_window: NDArray[np.int64]) -> _Array:
    """Return the summed gradient of every joint in every window, ``(clusters, dimension)``."""
    gradient = np.einsum("prcj,rcj->rjp", slope, errors)
    sums = np.zeros((int(row_window.max()) + 1, *gradient.shape[1:]))
    np.add.at(sums, row_window, gradient)
    return sums.reshape(-1, gradient.shape[2])


def _with_deviation(covariance: _Array, deviation: _Array) -> _Array:
    """Return a covariance with the same correlations and these standard deviations."""
    own = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    return np.asarray(covariance / np.outer(own, own) * np.outer(deviation, deviation))


def judge(half_width: float, value: float) -> Verdict:
    """Judge an interval in shares of the bounds' range: narrow beside the value or the range, or wide beside both."""
    if half_width <= max(0.1 * value, 0.05):
        return "identified"
    return "weak" if half_width <= _WEAK else "not identified"
