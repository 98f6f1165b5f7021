"""The paper's representative system: a cart-pole whose cart follows position commands, and a regulator for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.cartpole import CartPoleModel
from adc_wrappers.core.errors import CurriculumError

from .compiled import linalg

__all__ = ["WEIGHTS", "CartPlant", "regulator"]

WEIGHTS = (1.0, 0.1, 1.0, 0.1)
"""Diagonal of Q of the outer LQR: cart position and velocity, pole angle and rate; R is 10."""


@dataclass(frozen=True, kw_only=True)
class CartPlant:
    """A cart-pole with its inner PD loop: ``K = M ω_n²``, ``B = 2 ζ M ω_n``."""

    natural_frequency: float
    """ω_n, rad/s."""

    model: CartPoleModel = field(default_factory=CartPoleModel)
    """Masses, length and gravity; the paper gives none of them."""

    damping_ratio: float = 1.0
    """ζ."""

    command_limit: float = 1.0
    """Largest commanded cart position, m; not given in the paper."""

    force_limit: float = np.inf
    """The cart's force is clipped here, N."""

    position_limit: float = 1.0
    """Half width of the admissible box, m."""

    angle_limit: float = np.pi / 2
    """Half height of the admissible box, rad."""

    linear: bool = False
    """Linearized about upright, as in the proof."""

    def __post_init__(self) -> None:
        for name in ("natural_frequency", "damping_ratio", "command_limit", "position_limit", "angle_limit"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0.0):
                raise CurriculumError(f"{name}: expected a positive number, got {value}.")
        if not self.force_limit > 0.0:
            raise CurriculumError(f"force_limit: expected a positive number, got {self.force_limit}.")

    @property
    def stiffness(self) -> float:
        """K, N/m."""
        return self.model.cart_mass * self.natural_frequency**2

    @property
    def damping(self) -> float:
        """B, N·s/m."""
        return 2.0 * self.damping_ratio * self.model.cart_mass * self.natural_frequency

    def vector(self) -> NDArray[np.float64]:
        """Return the numbers in the order that the compiled loops read them."""
        model = self.model
        masses = (model.cart_mass, model.pole_mass, model.pole_length, model.gravity)
        limits = (self.force_limit, self.position_limit, self.angle_limit)
        return np.array([*masses, self.stiffness, self.damping, *limits, float(self.linear)])

    def linearized(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return A and B of ``ṡ = A s + B x_d`` about upright, s = (x, ẋ, θ, θ̇), the PD loop inside."""
        model = self.model
        cart = np.array([-self.stiffness, -self.damping, -model.pole_mass * model.gravity, 0.0]) / model.cart_mass
        pole = (np.array([0.0, 0.0, model.gravity, 0.0]) - cart) / model.pole_length
        push = self.stiffness / model.cart_mass
        a = np.array([[0.0, 1.0, 0.0, 0.0], cart, [0.0, 0.0, 0.0, 1.0], pole])
        return a, np.array([[0.0], [push], [0.0], [-push / model.pole_length]])


def regulator(
    plant: CartPlant, weights: Sequence[float] = WEIGHTS, effort: float = 10.0, sampled: float | None = None
) -> NDArray[np.float64]:
    """Return the gain k of the outer LQR ``x_d = −k s`` on the linearized plant.

    Args:
        plant: The plant; limits play no part.
        weights: Diagonal of Q.
        effort: R.
        sampled: Design for a command that is held for so many seconds; None designs in continuous time.
    """
    if len(weights) != 4 or min(weights) < 0.0 or not effort > 0.0:
        raise CurriculumError(f"expected four weights, not negative, and an effort > 0, got {weights} and {effort}.")
    a, b = plant.linearized()
    q, r = np.diag(np.asarray(weights, dtype=np.float64)), np.array([[effort]])
    if sampled is None:
        gain = b.T @ linalg.solve_continuous_are(a, b, q, r) / effort
    else:
        both = np.zeros((5, 5))
        both[:4, :4], both[:4, 4:] = a * sampled, b * sampled
        held = linalg.expm(both)
        a, b = held[:4, :4], held[:4, 4:]
        value = linalg.solve_discrete_are(a, b, q * sampled, r * sampled)
        gain = np.linalg.solve(r * sampled + b.T @ value @ b, b.T @ value @ a)
    return np.asarray(gain[0], dtype=np.float64)
