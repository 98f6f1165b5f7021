"""The proof of the paper's proposition, step by step along viable trajectories of the linearized plant.

The proof takes a trajectory that is viable at ω_1 under the command x_d⁽¹⁾ and inverts the cart's equation at ω_2.
Putting ẍ of the first plant into the inversion, gravity cancels and

    x_d⁽²⁾ = x + (ω_1/ω_2)² (x_d⁽¹⁾ − x) + 2 ẋ (ω_2 − ω_1) / ω_2²,

a point between x and x_d⁽¹⁾ plus a term in the cart's speed. The proof asks for a margin δ of the first command (A1)
and for Δ = max |x_d⁽²⁾ − x_d⁽¹⁾| ≤ δ (A2). What it needs is only that |x_d⁽²⁾| stays within the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError

from .kernel import CartPoleKernel, KernelSettings, cartpole_kernel
from .plant import CartPlant

__all__ = ["MARGINS", "PairCheck", "check_proposition", "inverted_command"]

MARGINS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Command margins that are tried, as shares of the bound."""


@dataclass(frozen=True)
class PairCheck:
    """The proposition's assumptions and conclusion for one pair of frequencies; shares of the sampled states."""

    low: float
    high: float
    states: int
    """States sampled in V_T(ω_1), each verified."""
    margin_share: float
    """A1 holds with a margin δ > 0, the largest of those tried."""
    margin_median: float
    """Median of the largest margin δ, m."""
    closeness_share: float
    """A2 holds along the state's trajectory: Δ ≤ δ."""
    admissible_share: float
    """|x_d⁽²⁾| stays within the bound, which is what the proof needs."""
    included_share: float
    """The conclusion: verified in V_T(ω_2)."""
    correction_median: float
    """Median over the states of Δ, the largest |x_d⁽²⁾ − x_d⁽¹⁾| along the trajectory, m."""
    correction_max: float
    """The largest."""
    bound: float
    """Δ as one number for the pair: from the largest |ẋ| and |ẍ + mgθ/M| on any of the trajectories, m."""


def inverted_command(
    states: NDArray[np.float64], command: NDArray[np.float64], low: float, high: float
) -> NDArray[np.float64]:
    """Return x_d⁽²⁾ at states ``(…, 4)`` that move under ``command`` at ω_1."""
    x, speed = states[..., 0], states[..., 1]
    return np.asarray(x + (low / high) ** 2 * (command - x) + 2.0 * speed * (high - low) / high**2)


def check_proposition(
    plant: Callable[[float], CartPlant],
    pairs: Sequence[tuple[float, float]],
    settings: KernelSettings | None = None,
    *,
    samples: int = 400,
    seed: int = 0,
    progress: Callable[[], Any] | None = None,
) -> list[PairCheck]:
    """Check assumptions and conclusion for pairs ω_1 ≤ ω_2.

    Args:
        plant: From ω_n to the plant; it is linearized, without a force limit, as in the proof.
        pairs: (ω_1, ω_2).
        settings: Of the kernels.
        samples: States drawn per ω_1, uniform in the part of the grid's box that is viable.
        seed: Seed of the draws.
        progress: Called after each kernel and each pair.
    """
    settings = settings or KernelSettings(points=15)
    for low, high in pairs:
        if not 0.0 < low <= high:
            raise CurriculumError(f"pairs: expected 0 < ω_1 <= ω_2, got {low:g} and {high:g}.")
    report = progress or (lambda: None)
    rng = np.random.default_rng(seed)

    def linear(frequency: float) -> CartPlant:
        return replace(plant(frequency), linear=True, force_limit=np.inf)

    rows = []
    for low in sorted({pair[0] for pair in pairs}):
        nested = []
        for margin in MARGINS:
            narrowed = replace(linear(low), command_limit=(1.0 - margin) * plant(low).command_limit)
            nested.append(cartpole_kernel(narrowed, settings))
            report()
        states = _sample(nested[0], samples, rng)
        trajectories = _with_margins(nested, states)
        for high in (pair[1] for pair in pairs if pair[0] == low):
            other = cartpole_kernel(linear(high), settings)
            rows.append(_check(states, trajectories, linear(low), other))
            report()
    return rows


def _sample(kernel: CartPoleKernel, samples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw verified states, uniform over the viable part of the grid's box."""
    found: list[NDArray[np.float64]] = []
    high = np.array(kernel.grid.high)
    while sum(map(len, found)) < samples:
        drawn = rng.uniform(-high, high, (2 * samples, 4))
        w = kernel.unstable
        drawn[:, 3] = (drawn[:, 3] - drawn[:, :3] @ w[:3]) / w[3]
        drawn = drawn[np.abs(drawn[:, 3]) < 50.0]
        found.append(drawn[kernel.verified(drawn)])
        if not len(found[-1]):
            raise CurriculumError("the kernel is empty: there is no viable trajectory to check. Try a shorter horizon.")
    return np.concatenate(found)[:samples]


def _with_margins(
    nested: Sequence[CartPoleKernel], states: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return for each state the largest margin with a viable trajectory, its path, and its commands."""
    full = nested[0]
    count = full.settings.stages * full.settings.stage
    margins = np.full(len(states), np.nan)
    path, commands = np.empty((len(states), count + 1, 4)), np.empty((len(states), count))
    for kernel in nested:  # wider margins later, so that the widest stays
        margin = full.plant.command_limit - kernel.plant.command_limit
        drive = kernel.drive(states)
        alive = drive.lowest >= 0.0
        margins[alive], path[alive], commands[alive] = margin, drive.path[alive], drive.commands[alive]
    return margins, path, commands


def _check(
    states: NDArray[np.float64],
    trajectories: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    plant: CartPlant,
    other: CartPoleKernel,
) -> PairCheck:
    margins, path, commands = trajectories
    low, high = plant.natural_frequency, other.plant.natural_frequency
    at_ends = np.stack((path[:, :-1], path[:, 1:]))  # a held command meets the states at both ends of its period
    inverted = inverted_command(at_ends, commands, low, high)
    correction = np.abs(inverted - commands).max(axis=(0, 2))
    push = np.abs(low**2 * (commands - at_ends[..., 0]) - 2.0 * low * at_ends[..., 1]).max()
    speed = np.abs(at_ends[..., 1]).max()
    bound = 2.0 * (1.0 / low - 1.0 / high) * speed + (low**-2 - high**-2) * push
    limit = plant.command_limit
    return PairCheck(
        low=low,
        high=high,
        states=len(states),
        margin_share=float(np.mean(margins > 0.0)),
        margin_median=float(np.median(margins)),
        closeness_share=float(np.mean((margins > 0.0) & (correction <= margins))),
        admissible_share=float(np.mean(np.abs(inverted).max(axis=(0, 2)) <= limit + 1e-9)),
        included_share=float(np.mean(other.verified(states))),
        correction_median=float(np.median(correction)),
        correction_max=float(correction.max()),
        bound=float(bound),
    )
