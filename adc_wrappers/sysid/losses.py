"""Losses, how far a simulation is from what was measured: row by row, or as distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .simulation import Prediction

__all__ = ["BROKEN", "LossName", "Measured", "Scales", "mmd", "residuals", "soften", "squared_error", "wasserstein"]

_Array = NDArray[np.float64]
LossName = Literal["trajectory", "wasserstein", "mmd"]

BROKEN = 1e6
"""Loss of a candidate whose simulation is not finite."""


class Measured(NamedTuple):
    """Measurements at the rows that are compared, each ``(rows, joints)``."""

    positions: _Array
    velocities: _Array
    torques: _Array | None = None


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Errors that count alike."""

    position: float = 0.01
    """rad."""

    velocity: float = 0.2
    """rad/s."""

    torque: float = 1.0
    """N·m."""

    def __post_init__(self) -> None:
        if not all(np.isfinite(value) and value > 0.0 for value in (self.position, self.velocity, self.torque)):
            raise ValueError(f"scales: expected positive numbers, got {self}.")


def residuals(predicted: Prediction, measured: Measured, scales: Scales) -> _Array:
    """Return scaled errors, ``(candidates, rows, channels, joints)``; torques count where they were measured."""
    parts = [
        (predicted.positions - measured.positions) / scales.position,
        (predicted.velocities - measured.velocities) / scales.velocity,
    ]
    if measured.torques is not None:
        parts.append((predicted.torques - measured.torques) / scales.torque)
    return np.stack(parts, axis=2)


def soften(errors: _Array) -> _Array:
    """Return errors whose squares grow as a logarithm where they are large: ``log(1 + e²)`` instead of ``e²``.

    A window that a touch of the ground turns elsewhere then counts little. Small errors stay as they are.
    """
    return np.asarray(np.sign(errors) * np.sqrt(np.log1p(errors**2)))


def squared_error(errors: _Array) -> _Array:
    """Return the mean square of :func:`residuals` per candidate; :data:`BROKEN` where it is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        loss = np.mean(errors**2, axis=(1, 2, 3))
    return np.where(np.isfinite(loss), loss, BROKEN)


def wasserstein(predicted: Prediction, measured: Measured) -> _Array:
    """Return the mean 1-Wasserstein distance per candidate between distributions of joint positions and velocities.

    Each joint's distance is divided by the standard deviation of what was measured.
    """
    quantiles = np.linspace(0.0, 1.0, 201)[1:-1]
    total = np.zeros(len(predicted.positions))
    for ours, theirs in ((predicted.positions, measured.positions), (predicted.velocities, measured.velocities)):
        with np.errstate(invalid="ignore"):
            simulated = np.quantile(ours, quantiles, axis=1)
        real = np.quantile(theirs, quantiles, axis=0)[:, None]
        spread = np.maximum(theirs.std(axis=0), 1e-9)
        total += np.mean(np.abs(simulated - real) / spread, axis=(0, 2))
    return np.where(np.isfinite(total), total, BROKEN)


def mmd(predicted: Prediction, measured: Measured, *, most: int = 400) -> _Array:
    """Return the squared maximum mean discrepancy per candidate between joint positions and velocities together.

    The kernel is Gaussian; its width is the median distance of measured samples. At most ``most`` rows are used, evenly
    spread.
    """
    real = _features(measured.positions, measured.velocities, measured)
    chosen = np.linspace(0, len(real) - 1, min(most, len(real))).astype(np.int64)
    real = real[chosen]
    width = float(np.median(_distances(real, real)[np.triu_indices(len(real), 1)])) or 1.0
    own = np.exp(-_distances(real, real) / width).mean()
    losses = np.full(len(predicted.positions), BROKEN)
    for index in range(len(losses)):
        ours = _features(predicted.positions[index], predicted.velocities[index], measured)
        ours = ours[np.linspace(0, len(ours) - 1, min(most, len(ours))).astype(np.int64)]
        if np.isfinite(ours).all():
            cross = np.exp(-_distances(ours, real) / width).mean()
            losses[index] = np.exp(-_distances(ours, ours) / width).mean() - 2.0 * cross + own
    return losses


def _features(positions: _Array, velocities: _Array, measured: Measured) -> _Array:
    """Return positions and velocities in units of their measured spread, ``(rows, 2 joints)``."""
    parts = ((positions, measured.positions), (velocities, measured.velocities))
    return np.concatenate([(a - b.mean(axis=0)) / np.maximum(b.std(axis=0), 1e-9) for a, b in parts], axis=1)


def _distances(a: _Array, b: _Array) -> _Array:
    """Return squared distances between rows."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * a @ b.T
    return np.asarray(np.maximum(squares, 0.0))
