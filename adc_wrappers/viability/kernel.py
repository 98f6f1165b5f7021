"""The finite-horizon viability kernel of the cart-pole, on a 4-D grid and verified by simulation.

The grid's fourth axis is not θ̇ but the unstable coordinate ``e = w·s``, where w is the left eigenvector of the
linearized closed loop's unstable eigenvalue μ, scaled so that ``ė = μ (e ∓ x_d / x̄_d)``. No bounded command can bring
the linearized pole back from |e| > 1, at any horizon; and the kernel, a sliver in (x, ẋ, θ, θ̇), fills most of the box
in (x, ẋ, θ, e).

The grid's value has an interpolation error. So membership can also be *verified*: drive the state by the value, with
the exact dynamics; what stays inside the box for the horizon is viable, whatever the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError

from .compiled import cart_successors, follow, spread
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

    stage: int = 4
    """Commands in one backup, all equal. The value is interpolated once per backup, so fewer backups blur less; that
    the command changes only so often makes the kernel smaller, not larger."""

    levels: int = 9
    """Commands to choose from, equally spaced between the bounds; twice as many when a state is driven."""

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
        if self.stage < 1 or self.points < 3 or self.levels < 2:
            given = (self.stage, self.points, self.levels)
            raise CurriculumError(f"expected stage >= 1, points >= 3 and levels >= 2, got {given}.")
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

    def commands(self, limit: float, levels: int) -> NDArray[np.float64]:
        """Return the choices of one stage, a row of equal commands each."""
        return np.repeat(np.linspace(-limit, limit, levels)[:, np.newaxis], self.stage, axis=1)


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

    def drive(self, states: NDArray[np.float64]) -> Drive:
        """Drive states by the value, with the exact dynamics, until the horizon."""
        settings, rows = self.settings, np.ascontiguousarray(states, dtype=np.float64)
        step, steps = _integration(self.plant, settings)
        choices = settings.commands(self.plant.command_limit, 2 * settings.levels - 1)
        count = settings.stages * settings.stage
        path, commands = np.full((len(rows), count + 1, 4), np.nan), np.full((len(rows), count), np.nan)
        lowest = np.empty(len(rows))

        def part(first: int, last: int) -> None:
            here = slice(first, last)
            system = (self.unstable, choices, self.plant.vector(), step, steps)
            value = (*self.grid.arrays(), self.values, self.grid.offsets())
            follow(rows[here], *system, *value, path[here], commands[here], lowest[here])

        spread(part, len(rows))
        return Drive(path, commands, lowest)

    def verified(self, states: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which states are viable for certain: driving them by the value keeps them inside the box."""
        alive = np.zeros(len(states), dtype=bool)
        rows = np.flatnonzero(np.abs(self.coordinate(states)) <= self.settings.reach)
        for part in np.array_split(rows, len(rows) // _BATCH + 1):
            alive[part] = self.drive(states[part]).lowest >= 0.0
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
    unstable, choices = unstable_direction(plant), settings.commands(plant.command_limit, settings.levels)
    step, steps = _integration(plant, settings)

    def successors(first: int, last: int, ends: NDArray[np.float32], floors: NDArray[np.float32]) -> None:
        low, spacing, points = grid.arrays()
        axes = (low, spacing, points, unstable)
        cart_successors(first, last, *axes, choices, plant.vector(), step, steps, settings.depth, ends, floors)

    transitions = tabulate(grid, len(choices), successors, strict=(False, False, False, True), mirrored=True)
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
