"""The paper's figure: from which starts one regulator keeps the pole up, and what open parameters do to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.cartpole import CartPoleModel
from adc_wrappers.core.errors import CurriculumError

from .compiled import spread, survive
from .plant import WEIGHTS, CartPlant, regulator

__all__ = [
    "VARIANTS",
    "RegulatorSettings",
    "StartGrid",
    "SuccessCurve",
    "influence_curves",
    "success_curve",
    "survival_times",
]


@dataclass(frozen=True, kw_only=True)
class RegulatorSettings:
    """The outer LQR and how its success is judged; the paper leaves all of this open."""

    weights: tuple[float, float, float, float] = WEIGHTS
    """Diagonal of Q: cart position and velocity, pole angle and rate."""

    effort: float = 10.0
    """R."""

    command_rate: float | None = None
    """Commands per second, each held until the next; None lets the command follow the state continuously."""

    sampled_design: bool = False
    """Design the LQR for the held command instead of in continuous time."""

    horizon: float = 5.0
    """Seconds that a start must be kept inside the box."""

    step: float = 0.005
    """Largest integration step (RK4), s; fast loops get a shorter one."""

    def __post_init__(self) -> None:
        for name in ("effort", "horizon", "step", "command_rate"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0.0):
                raise CurriculumError(f"{name}: expected a positive number, got {value}.")
        if self.sampled_design and self.command_rate is None:
            raise CurriculumError("sampled_design: expected a command_rate as well, got none.")


@dataclass(frozen=True, kw_only=True)
class StartGrid:
    """Starts with the cart at rest in the middle: the figure's plane of pole angle and rate."""

    angle: float = 0.8
    """θ_0 from − to + this, rad."""

    rate: float = 5.0
    """θ̇_0 from − to + this, rad/s."""

    points: int = 61
    """Points along each of the two axes."""

    def __post_init__(self) -> None:
        if not (self.angle > 0.0 and self.rate > 0.0 and self.points >= 3):
            raise CurriculumError(f"start grid: expected positive widths and at least 3 points, got {self}.")

    def axes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return angles and rates."""
        return np.linspace(-self.angle, self.angle, self.points), np.linspace(-self.rate, self.rate, self.points)

    def states(self) -> NDArray[np.float64]:
        """Return all starts, ``(points², 4)``, the rate running fastest."""
        angles, rates = np.meshgrid(*self.axes(), indexing="ij")
        zero = np.zeros(angles.size)
        return np.stack((zero, zero, angles.ravel(), rates.ravel()), axis=1)

    def share(self, inside: NDArray[np.bool_]) -> tuple[float, float]:
        """Return the share of the plane's area that is inside, and what the grid's coarseness makes of it.

        Every cell counts by the share of its corners that are inside. A cell whose corners disagree is cut by the
        boundary, and the boundary is somewhere in it: half of all such cells is the error.
        """
        corners = inside.reshape(self.points, self.points)
        count = sum(
            corners[i : self.points - 1 + i, j : self.points - 1 + j].astype(np.int64) for i in (0, 1) for j in (0, 1)
        )
        return float(np.mean(count) / 4.0), float(0.5 * np.mean((np.asarray(count) % 4) != 0))


@dataclass(frozen=True)
class SuccessCurve:
    """p(ω_n) and the maps behind it."""

    frequencies: tuple[float, ...]
    starts: StartGrid
    maps: NDArray[np.bool_]
    """Which starts survive, ``(frequencies, points, points)``: angle, then rate."""
    rates: NDArray[np.float64]
    """p: the share of the plane that survives."""
    errors: NDArray[np.float64]
    """What the grid's coarseness may change in it."""


def survival_times(plant: CartPlant, settings: RegulatorSettings, states: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the seconds, at most the horizon, for which the regulator keeps each state inside the box."""
    period = None if settings.command_rate is None else 1.0 / settings.command_rate
    gain = regulator(plant, settings.weights, settings.effort, period if settings.sampled_design else None)
    a, b = plant.linearized()
    fastest = np.abs(np.linalg.eigvals(a if period else a - b @ gain[np.newaxis])).max()
    step = min(settings.step, 0.1 / float(fastest))
    hold = 0
    if period is not None:
        hold = max(1, int(np.ceil(period / step - 1e-9)))
        step = period / hold
    steps = int(np.ceil(settings.horizon / step - 1e-9))
    alive = np.empty(len(states))
    rows = np.ascontiguousarray(states, dtype=np.float64)

    def part(first: int, last: int) -> None:
        chosen = rows[first:last], gain, plant.command_limit, plant.vector()
        survive(*chosen, step, steps, hold, alive[first:last])

    spread(part, len(rows))
    full = steps * step
    return np.where(alive >= full - 0.5 * step, settings.horizon, np.minimum(alive, settings.horizon))


def success_curve(
    plant: Callable[[float], CartPlant],
    frequencies: Sequence[float],
    settings: RegulatorSettings | None = None,
    starts: StartGrid | None = None,
    progress: Callable[[], Any] | None = None,
) -> SuccessCurve:
    """Return which starts survive at each natural frequency.

    The system is its own mirror image, so half of the starts is simulated.

    Args:
        plant: From ω_n to the plant.
        frequencies: ω_n, rad/s.
        settings: The regulator.
        starts: The plane of starts.
        progress: Called after each frequency.
    """
    if not frequencies:
        raise CurriculumError("frequencies: expected at least one number, got none.")
    settings, starts = settings or RegulatorSettings(), starts or StartGrid()
    states = starts.states()
    half = (len(states) + 1) // 2
    maps = []
    for frequency in frequencies:
        alive = survival_times(plant(frequency), settings, states[:half]) >= settings.horizon
        maps.append(np.concatenate((alive, alive[: len(states) - half][::-1])))
        if progress is not None:
            progress()
    shares = np.array([starts.share(alive) for alive in maps])
    shape = (len(frequencies), starts.points, starts.points)
    return SuccessCurve(tuple(frequencies), starts, np.reshape(maps, shape), shares[:, 0], shares[:, 1])


VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "command rate": {
        "held 20 ms": {"command_rate": 50.0},
        "held 20 ms, R = 0.1": {"command_rate": 50.0, "effort": 0.1},
        "held 20 ms, LQR designed for it": {"command_rate": 50.0, "sampled_design": True},
    },
    "weights": {
        "R = 0.1": {"effort": 0.1},
        "R = 1000": {"effort": 1000.0},
        "Q = diag(1, 0.1, 100, 10)": {"weights": (1.0, 0.1, 100.0, 10.0)},
    },
    "command and force limits": {
        "|x_d| ≤ 0.5": {"command_limit": 0.5},
        "|x_d| ≤ 2": {"command_limit": 2.0},
        "|F| ≤ 20 N": {"force_limit": 20.0},
    },
    "pole length": {"l = 0.25": {"pole_length": 0.25}, "l = 1": {"pole_length": 1.0}},
    "masses": {
        "m = 0.01": {"pole_mass": 0.01},
        "m = 0.5": {"pole_mass": 0.5},
        "M = 5, K = M ω_n²": {"cart_mass": 5.0},
    },
    "horizon": {"2 s": {"horizon": 2.0}, "10 s": {"horizon": 10.0}},
}
"""Groups of changes to the default setting."""

_MODEL = ("cart_mass", "pole_mass", "pole_length", "gravity")
_PLANT = ("command_limit", "force_limit", "position_limit", "angle_limit", "damping_ratio")


def influence_curves(
    plant: Callable[[float], CartPlant],
    frequencies: Sequence[float],
    settings: RegulatorSettings,
    starts: StartGrid,
    progress: Callable[[], Any] | None = None,
) -> dict[str, dict[str, SuccessCurve]]:
    """Return p(ω_n) of the given setting and of every variant, by group and name.

    Args:
        plant: From ω_n to the plant that is varied.
        frequencies: ω_n, rad/s.
        settings: The regulator that is varied.
        starts: The plane of starts.
        progress: Called after each variant.
    """
    default = success_curve(plant, frequencies, settings, starts)
    curves: dict[str, dict[str, SuccessCurve]] = {}
    for group, variants in VARIANTS.items():
        curves[group] = {"default": default}
        for name, changes in variants.items():
            varied = _changed(plant, changes)
            regulator = replace(settings, **{k: v for k, v in changes.items() if k not in (*_MODEL, *_PLANT)})
            curves[group][name] = success_curve(varied, frequencies, regulator, starts)
            if progress is not None:
                progress()
    return curves


def _changed(plant: Callable[[float], CartPlant], changes: dict[str, Any]) -> Callable[[float], CartPlant]:
    def varied(frequency: float) -> CartPlant:
        given = plant(frequency)
        model: CartPoleModel = replace(given.model, **{k: v for k, v in changes.items() if k in _MODEL})
        return replace(given, model=model, **{k: v for k, v in changes.items() if k in _PLANT})

    return varied
