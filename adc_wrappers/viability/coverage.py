"""C_T(ω_n) with its numerical error, and whether the kernels of growing ω_n contain each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError

from .kernel import CartPoleKernel, KernelSettings, cartpole_kernel, unstable_direction
from .plant import CartPlant
from .success import StartGrid

__all__ = [
    "Coverage",
    "Inclusion",
    "common_states",
    "compare_kernels",
    "kernel_coverage",
    "kernel_family",
    "linear_bound",
]

_Judged = tuple[CartPoleKernel, NDArray[np.bool_], NDArray[np.float64]]


@dataclass(frozen=True)
class Coverage:
    """Share of a start distribution that lies in the kernel, on one grid."""

    frequency: float
    points: int
    """Points along each axis of the kernel's grid."""
    estimate: float
    """Where the interpolated value is not negative."""
    verified: float
    """Where driving by the value keeps the state inside the box: viable for certain, so a lower bound."""
    error: float
    """What the coarseness of the start grid may change in either."""
    outer: float
    """Where |e| ≤ 1: no more than this is viable in the linearized plant, at any horizon."""


@dataclass(frozen=True)
class Inclusion:
    """The inclusion of V_T(ω_1) in V_T(ω_2), over one common set of states."""

    low: float
    high: float
    points: int
    viable_low: float
    """Share of the states verified viable at ω_1."""
    viable_high: float
    """Likewise at ω_2."""
    outside: float
    """Of the states verified at ω_1, the share that is not verified at ω_2."""
    explained: float
    """Of those, the share whose cart already moves faster than ω_1 (x̄_d − x): there more stiffness takes away reach."""
    outside_value: float
    """The same by the sign of the interpolated values."""
    numerical: float
    """Share of the viable states about which value and verification disagree, the larger of both kernels."""
    deepest: float
    """Largest V(ω_1) among the verified states that are not verified at ω_2; NaN without such a state."""


def kernel_family(
    plant: Callable[[float], CartPlant],
    frequencies: Sequence[float],
    settings: KernelSettings,
    points: Sequence[int],
    progress: Callable[[], Any] | None = None,
) -> dict[tuple[float, int], CartPoleKernel]:
    """Return the kernels of every natural frequency on every grid."""
    if not frequencies or not points:
        raise CurriculumError("kernel: expected at least one frequency and one grid size, got none.")
    kernels = {}
    for size in points:
        for frequency in frequencies:
            kernels[frequency, size] = cartpole_kernel(plant(frequency), replace(settings, points=size))
            if progress is not None:
                progress()
    return kernels


def kernel_coverage(kernel: CartPoleKernel, starts: StartGrid) -> Coverage:
    """Return C_T over starts that are uniform in a plane of pole angle and rate."""
    states = starts.states()
    verified, error = starts.share(kernel.verified(states))
    return Coverage(
        frequency=kernel.plant.natural_frequency,
        points=kernel.settings.points,
        estimate=starts.share(kernel.contains(states))[0],
        verified=verified,
        error=error,
        outer=linear_bound(kernel.plant, starts),
    )


def linear_bound(plant: CartPlant, starts: StartGrid) -> float:
    """Return the share of starts with |e| ≤ 1: of the linearized plant no more is viable, at any horizon."""
    return starts.share(np.abs(starts.states() @ unstable_direction(plant)) <= 1.0)[0]


def common_states(plant: CartPlant, speed: float = 3.0, rate: float = 6.0, points: int = 11) -> NDArray[np.float64]:
    """Return a 4-D lattice of states that serves every gain; half of the box's mirror pairs."""
    ends = (0.95 * plant.position_limit, speed, 0.95 * plant.angle_limit, rate)
    axes = np.meshgrid(*(np.linspace(-end, end, points) for end in ends), indexing="ij")
    states = np.stack([axis.ravel() for axis in axes], axis=1)
    return states[: (len(states) + 1) // 2]


def compare_kernels(
    kernels: Sequence[CartPoleKernel], states: NDArray[np.float64], progress: Callable[[], Any] | None = None
) -> list[Inclusion]:
    """Return for each kernel and the next one how far the first lies in the second."""
    rows: list[Inclusion] = []
    before: _Judged | None = None
    for kernel in kernels:
        verified, value = kernel.verified(states), kernel.value(states)
        if before is not None:
            rows.append(_inclusion(states, before, (kernel, verified, value)))
        before = (kernel, verified, value)
        if progress is not None:
            progress()
    return rows


def _inclusion(states: NDArray[np.float64], first: _Judged, second: _Judged) -> Inclusion:
    (kernel, inside, value), (other, also, other_value) = first, second
    lost = inside & ~also
    doubt = [_ratio(a != (b >= 0.0), a) for a, b in ((inside, value), (also, other_value))]
    x, speed = states[lost, 0], states[lost, 1]
    fast = np.abs(speed) > kernel.plant.natural_frequency * (kernel.plant.command_limit - x * np.sign(speed))
    by_value = (value >= 0.0) & (other_value < 0.0)
    return Inclusion(
        low=kernel.plant.natural_frequency,
        high=other.plant.natural_frequency,
        points=kernel.settings.points,
        viable_low=float(inside.mean()),
        viable_high=float(also.mean()),
        outside=_ratio(lost, inside),
        explained=float(fast.mean()) if lost.any() else float("nan"),
        outside_value=_ratio(by_value, value >= 0.0),
        numerical=max(doubt),
        deepest=float(value[lost].max()) if lost.any() else float("nan"),
    )


def _ratio(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    return int(part.sum()) / max(1, int(whole.sum()))
