"""The finite-horizon viability kernel of the cart-pole, on a 4-D grid and verified by simulation.

The grid's fourth axis is not θ̇ but the unstable coordinate ``e = w·s``, where w is the left eigenvector of the linearized
closed loop's unstable eigenvalue μ, scaled so that ``ė = μ (e ∓ x_d / x̄_d)``. No bounded command can bring the linearized
pole back from |e| > 1, at any horizon; and the kernel, a sliver in (x, ẋ, θ, θ̇), fills most of the box in (x, ẋ, θ, e). A grid
along θ̇ with the same number of points overestimates the kernel by half.

The grid's value has an interpolation error. So membership can also be *verified*: drive the state by the value, with the exact
dynamics; what stays inside the box for the horizon is viable, whatever the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError

from .compiled import cart_successors, follow
from .engine import spread
from .grid import Grid, sweep, tabulate
from .plant import CartPlant

__all__ = ["CartPoleKernel", "Drive", "KernelSettings", "cartpole_kernel", "unstable_direction"]

_BATCH = 4096  # states driven at once, for the memory that their paths take


@dataclass(frozen=True, kw_only=True)
class KernelSettings:
    """Horizon and numerics."""

    horizon: float = 2.0
    """T in seconds; a whole number of stages."""

    command_rate: float = 50.0
    """Commands per second, each held until the next; the box is checked at this rate."""

    stage: int = 5
    """Commands in one backup. The value is interpolated once per backup, so fewer backups blur less; within one, the
    command may switch once between its bounds, or stay at one of five values."""

    points: int = 21
    """Points along each axis."""

    speed: float = 8.0
    """Cart speeds on the grid, m/s; a faster cart is taken for one at this speed."""

    reach: float = 1.2
    """Unstable coordinates on the grid; what leaves them has failed."""

    depth: float = 0.5
    """Levels are clipped to ± this."""

    def __post_init__(self) -> None:
        for name in ("horizon", "command_rate", "speed", "reach", "depth"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0.0):
                raise CurriculumError(f"{name}: expected a positive number, got {getattr(self, name)}.")
        if self.stage < 1 or self.points < 3:
            raise CurriculumError(f"expected stage >= 1 and points >= 3, got {self.stage} and {self.points}.")
        stages = self.horizon * self.command_rate / self.stage
        if stages < 0.5 or abs(stages - round(stages)) > 1e-6:
            raise CurriculumError(
                f"horizon: expected a multiple of {self.stage / self.command_rate:g} s ({self.stage} commands at "
                f"{self.command_rate:g} Hz), got {self.horizon:g} s."
            )

    @property
    def stages(self) -> int:
        """Backups until the horizon."""
        return round(self.horizon * self.command_rate / self.stage)

    def sequences(self, limit: float) -> NDArray[np.float64]:
        """Return the command sequences of one stage: five constants, and one switch between the bounds."""
        constant = [[share * limit] * self.stage for share in (0.0, -1.0, 1.0, -0.5, 0.5)]
        switched = [
            [sign * limit] * first + [-sign * limit] * (self.stage - first)
            for sign in (-1.0, 1.0)
            for first in range(1, self.stage)
        ]
        return np.array(constant + switched)


class Drive(NamedTuple):
    """States driven by a kernel's value."""

    path: NDArray[np.float64]
    """States at every command, ``(n, commands + 1, 4)``; NaN after leaving the box."""

    commands: NDArray[np.float64]
    """x_d, ``(n, commands)``."""

    lowest: NDArray[np.float64]
    """Least level on the way; not negative where the state stayed inside the box."""


@dataclass(frozen=True)
class CartPoleKernel:
    """A kernel on its grid."""

    plant: CartPlant
    settings: KernelSettings
    grid: Grid
    unstable: NDArray[np.float64]
    """w, ``(4,)``."""
    values: NDArray[np.float32]
    """V at the vertices; the kernel is where it is not negative."""

    def coordinate(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the unstable coordinate e of states ``(n, 4)``."""
        return np.asarray(states @ self.unstable)

    def value(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return V at states ``(n, 4)`` of x, ẋ, θ, θ̇."""
        unstable = self.coordinate(states)
        value = self.grid.interpolate(self.values, np.column_stack((states[:, :3], unstable)))
        outside = (np.abs(states[:, 0]) > self.plant.position_limit) | (np.abs(states[:, 2]) > self.plant.angle_limit)
        return np.where(outside | (np.abs(unstable) > self.settings.reach), -self.settings.depth, value)

    def contains(self, states: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which states the grid's value calls viable."""
        return np.asarray(self.value(states) >= 0.0)

    def drive(self, states: NDArray[np.float64], replan: int = 1) -> Drive:
        """Drive states by the value, with the exact dynamics, until the horizon.

        Args:
            states: ``(n, 4)``.
            replan: Commands after which a new sequence is chosen; a divisor of the number of commands.
        """
        settings, rows = self.settings, np.ascontiguousarray(states, dtype=np.float64)
        step, steps = _integration(self.plant, settings)
        sequences = settings.sequences(self.plant.command_limit)
        count = settings.stages * settings.stage
        path, commands = np.full((len(rows), count + 1, 4), np.nan), np.full((len(rows), count), np.nan)
        lowest = np.empty(len(rows))

        def part(first: int, last: int) -> None:
            here = slice(first, last)
            system = (self.unstable, sequences, replan, self.plant.vector(), step, steps)
            value = (*self.grid.arrays(), self.values, self.grid.offsets())
            follow(rows[here], *system, *value, path[here], commands[here], lowest[here])

        spread(part, len(rows))
        return Drive(path, commands, lowest)

    def verified(self, states: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which states are viable for certain: driving them by the value keeps them inside the box.

        Those that are lost when a new sequence is chosen at every stage are driven again, with a choice at every command.
        """
        alive = np.zeros(len(states), dtype=bool)
        for replan in (self.settings.stage, 1):
            rows = np.flatnonzero(~alive & (np.abs(self.coordinate(states)) <= self.settings.reach))
            for part in np.array_split(rows, len(rows) // _BATCH + 1):
                alive[part] = self.drive(states[part], replan).lowest >= 0.0
        return alive


def unstable_direction(plant: CartPlant) -> NDArray[np.float64]:
    """Return w: ``e = w·s`` grows as ``ė = μ (e ∓ x_d / x̄_d)`` in the linearized closed loop."""
    a, b = plant.linearized()
    eigenvalues, vectors = np.linalg.eig(a.T)
    fastest = int(np.argmax(eigenvalues.real))
    direction = vectors[:, fastest].real
    scale = eigenvalues[fastest].real / (np.abs(direction @ b[:, 0]) * plant.command_limit)
    return np.asarray(direction * scale * np.sign(direction[3]))


def cartpole_kernel(
    plant: CartPlant, settings: KernelSettings | None = None, progress: Callable[[], Any] | None = None
) -> CartPoleKernel:
    """Compute the kernel of the discrete-time system with held, bounded commands.

    Args:
        plant: The plant; its force limit is part of it.
        settings: Horizon and numerics.
        progress: Called after each backup.
    """
    settings = settings or KernelSettings()
    high = (plant.position_limit, settings.speed, plant.angle_limit, settings.reach)
    grid = Grid(tuple(-end for end in high), high, (settings.points,) * 4)
    unstable, sequences = unstable_direction(plant), settings.sequences(plant.command_limit)
    step, steps = _integration(plant, settings)

    def successors(first: int, last: int, ends: NDArray[np.float32], floors: NDArray[np.float32]) -> None:
        system = (unstable, sequences, plant.vector(), step, steps, settings.depth)
        cart_successors(first, last, *grid.arrays(), *system, ends, floors)

    transitions = tabulate(grid, len(sequences), successors, strict=(False, False, False, True), mirrored=True)
    vertices = grid.vertices()
    level = np.minimum(1.0 - np.abs(vertices[:, 0]) / high[0], 1.0 - np.abs(vertices[:, 2]) / high[2])
    levels = np.clip(level, -settings.depth, settings.depth).astype(np.float32)
    values, _ = sweep(grid, levels, transitions, settings.stages, tolerance=1e-5, progress=progress)
    return CartPoleKernel(plant, settings, grid, unstable, values)


def _integration(plant: CartPlant, settings: KernelSettings) -> tuple[float, int]:
    """Return the length and number of RK4 steps under one held command."""
    period = 1.0 / settings.command_rate
    steps = max(1, int(np.ceil(period * plant.natural_frequency * max(1.0, plant.damping_ratio) / 0.25 - 1e-9)))
    return period / steps, steps
