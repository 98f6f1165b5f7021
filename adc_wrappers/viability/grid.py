"""A value on a grid, swept until the horizon: the finite-horizon viability kernel of any discrete-time system.

With a level ``l`` that is negative exactly on the termination set, the kernel of horizon T is where

    V_0 = l,    V_{k+1}(s) = min(l(s), max_u V_k(F(s, u)))

is not negative at k = T. The value is kept in the vertices of a grid and interpolated multilinearly in between. Because
a level set moves continuously where a grid of booleans jumps by whole cells, few points suffice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError

from .compiled import backup, locate, look_up, spread

__all__ = ["Grid", "Transitions", "sweep", "tabulate"]

_Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Grid:
    """Equally spaced points along every axis."""

    low: tuple[float, ...]
    """Lower end of each axis."""

    high: tuple[float, ...]
    """Upper end of each axis."""

    points: tuple[int, ...]
    """Points along each axis, at least two."""

    def __post_init__(self) -> None:
        if not len(self.low) == len(self.high) == len(self.points) > 0:
            raise CurriculumError(f"grid: expected as many low, high and points, got {self}.")
        if min(self.points) < 2 or any(a >= b for a, b in zip(self.low, self.high, strict=True)):
            raise CurriculumError(f"grid: expected low < high and at least two points along every axis, got {self}.")

    @property
    def size(self) -> int:
        """Number of vertices."""
        return int(np.prod(self.points))

    @property
    def spacing(self) -> NDArray[np.float64]:
        """Distance of neighbours along each axis."""
        return np.asarray((np.array(self.high) - np.array(self.low)) / (np.array(self.points) - 1))

    @property
    def mirrored(self) -> bool:
        """Whether the grid is its own mirror image through the origin."""
        return bool(np.allclose(self.low, np.negative(self.high)))

    def vertices(self) -> NDArray[np.float64]:
        """Return all vertices, ``(size, axes)``, the last axis running fastest."""
        axes = [np.linspace(a, b, n) for a, b, n in zip(self.low, self.high, self.points, strict=True)]
        return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)

    def offsets(self) -> NDArray[np.int64]:
        """Return the distance in memory from a cell's first corner to each of its corners."""
        strides = [int(np.prod(self.points[axis + 1 :])) for axis in range(len(self.points))]
        corners = itertools.product((0, 1), repeat=len(strides))
        return np.array([sum(c * s for c, s in zip(corner, strides, strict=True)) for corner in corners])

    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Return low, spacing and points as arrays, for the compiled loops."""
        return np.array(self.low, dtype=np.float64), self.spacing, np.array(self.points, dtype=np.int64)

    def interpolate(self, values: _Floats, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values at states ``(n, axes)``; a state off the grid has that of its nearest edge."""
        out = np.empty(len(states))
        look_up(np.ascontiguousarray(states, dtype=np.float64), *self.arrays(), values, self.offsets(), out)
        return out


class Transitions(NamedTuple):
    """Destinations of each choice from each vertex."""

    corners: NDArray[np.int32]
    """First corner of the cell that is reached, ``(vertices, choices)``."""

    shares: _Floats
    """Shares of the way across that cell, ``(vertices, choices, axes)``."""

    floors: _Floats
    """Least level met on the way, ``(vertices, choices)``."""


def tabulate(
    grid: Grid,
    choices: int,
    successors: Callable[[int, int, _Floats, _Floats], None],
    *,
    strict: tuple[bool, ...] | None = None,
    mirrored: bool = False,
) -> Transitions:
    """Tabulate a system's transitions.

    Args:
        grid: The grid.
        choices: Number of commands, or of command sequences, to choose from.
        successors: ``(first, last, ends, floors)`` writes for the vertices ``first`` to ``last`` and every choice the
            state that is reached and the least level met on the way, that state's included.
        strict: Axes along which leaving the grid counts as failure; elsewhere the nearest edge stands in.
        mirrored: The system commutes with s → −s: half of the vertices suffices.
    """
    count = (grid.size + 1) // 2 if mirrored else grid.size
    ends = np.empty((count, choices, len(grid.points)), dtype=np.float32)
    floors = np.empty((count, choices), dtype=np.float32)
    corners = np.empty((count, choices), dtype=np.int32)
    edges = np.array(strict if strict is not None else (False,) * len(grid.points))

    def part(first: int, last: int) -> None:
        successors(first, last, ends, floors)
        locate(first, last, *grid.arrays(), edges, ends, floors, corners)

    spread(part, count)
    return Transitions(corners, ends, floors)


def sweep(
    grid: Grid,
    levels: _Floats,
    transitions: Transitions,
    stages: int,
    *,
    tolerance: float = 0.0,
    progress: Callable[[], None] | None = None,
) -> tuple[_Floats, int]:
    """Return the value after so many backups, and how many were needed.

    Args:
        grid: The grid.
        levels: The level at each vertex.
        transitions: From :func:`tabulate`; where they hold half of the vertices, the other half is their mirror image.
        stages: Number of backups.
        tolerance: Stop earlier once no value changes by more than this.
        progress: Called after each backup.
    """
    count = len(transitions.corners)
    mirrored = count < grid.size
    values, other, offsets = levels.copy(), levels.copy(), grid.offsets()
    for stage in range(stages):
        before, after = values, other

        def part(first: int, last: int, before: _Floats = before, after: _Floats = after) -> float:
            table = (transitions.corners, transitions.shares, transitions.floors)
            return backup(first, last, mirrored, before, levels, *table, offsets, after)

        change = max(spread(part, count))
        values, other = after, before
        if progress is not None:
            progress()
        if change <= tolerance:
            return values, stage + 1
    return values, stages
