"""Models of what stands on the cart: numbers, state and equations of motion of one pole and of two in series.

Coordinates are the cart's position x and the *absolute* angles θ₁ (lower pole) and θ₂ (upper pole), 0 upright and
positive towards +x. With the cart's force F, ``s_i = sin θ_i``, ``c_i = cos θ_i``, ``s₁₂ = sin(θ₁ − θ₂)``,
``c₁₂ = cos(θ₁ − θ₂)`` and ``μ = m₁ + m₂``, Lagrange's equations of

    T = ½(M + μ)ẋ² + ½μl₁²θ̇₁² + ½m₂l₂²θ̇₂² + μl₁c₁ẋθ̇₁ + m₂l₂c₂ẋθ̇₂ + m₂l₁l₂c₁₂θ̇₁θ̇₂
    V = μ g l₁ c₁ + m₂ g l₂ c₂

are, with the tips' accelerations u₁ = l₁θ̈₁ and u₂ = l₂θ̈₂ and the second and third row divided by l₁ and m₂l₂,

    | M + μ   μ c₁    m₂ c₂  | |ẍ |   | F + μ l₁ s₁ θ̇₁² + m₂ l₂ s₂ θ̇₂² |
    | μ c₁    μ       m₂ c₁₂ | |u₁| = | μ g s₁ − m₂ l₂ s₁₂ θ̇₂²         |
    | c₂      c₁₂     1      | |u₂|   | g s₂ + l₁ s₁₂ θ̇₁²              |

which is solved by elimination from below: u₂ is put into the second row, whose pivot is ``m₁ + m₂ s₁₂²``, then u₁ into
the first. Both pivots are positive for all angles, so nothing needs to be pivoted and light poles do no harm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import BackendError

__all__ = [
    "CartModel",
    "CartPoleModel",
    "CartPoleState",
    "DoubleCartPoleModel",
    "DoubleCartPoleState",
    "StateT",
    "accelerations",
]


StateT = TypeVar("StateT", bound=tuple[NDArray[np.float64], ...])


@dataclass(frozen=True, kw_only=True)
class CartModel(ABC, Generic[StateT]):
    """A chain of point masses on massless rods, hinged to a cart that a PD law pulls to a commanded position.

    A state is an array of shape ``(2 + 2 poles, n)`` whose rows are the cart's position and velocity, then angle and
    angular velocity of every pole from the cart upwards. Angles are absolute: 0 upright, positive towards +x.
    """

    cart_mass: float = 1.0
    """M, kg. The paper's gains are ``K = M ω_n²``, ``B = 2 M ω_n``."""

    gravity: float = 9.81
    """g, m/s²."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (np.isfinite(value) and value > 0.0):
                raise BackendError(f"cart-pole {field.name}: expected a positive number, got {value}.")

    @property
    @abstractmethod
    def poles(self) -> tuple[tuple[float, float], ...]:
        """Mass (kg) and length (m) of every pole, from the cart upwards."""

    @abstractmethod
    def name_state(self, rows: NDArray[np.float64]) -> StateT:
        """Return the rows of a state array by name."""

    @abstractmethod
    def accelerations(self, rows: NDArray[np.float64], force: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the accelerations of cart and poles under a cart force, shape ``(1 + poles, n)``."""


class CartPoleState(NamedTuple):
    """State of a batch of cart-poles, each of shape ``(n,)``; θ is 0 upright and positive towards +x."""

    x: NDArray[np.float64]
    x_dot: NDArray[np.float64]
    theta: NDArray[np.float64]
    theta_dot: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CartPoleModel(CartModel[CartPoleState]):
    """One point mass on a massless rod on the cart: the paper's representative system."""

    pole_mass: float = 0.1
    """m, kg."""

    pole_length: float = 0.5
    """l, m."""

    @property
    def poles(self) -> tuple[tuple[float, float], ...]:
        """The one pole."""
        return ((self.pole_mass, self.pole_length),)

    def name_state(self, rows: NDArray[np.float64]) -> CartPoleState:
        """Return the rows by name."""
        return CartPoleState(*rows)

    def accelerations(self, rows: NDArray[np.float64], force: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return cart and pole acceleration."""
        return np.stack(accelerations(CartPoleState(*rows), force, self))


def accelerations(
    state: CartPoleState, force: NDArray[np.float64], model: CartPoleModel
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return cart and pole acceleration under a cart force: equations (8) and (9) of the paper."""
    sin, cos = np.sin(state.theta), np.cos(state.theta)
    m, length, g = model.pole_mass, model.pole_length, model.gravity
    inertia = model.cart_mass + m * sin**2
    push = force + m * length * sin * state.theta_dot**2
    x_acc = (push - m * g * sin * cos) / inertia
    theta_acc = ((model.cart_mass + m) * g * sin - cos * push) / (length * inertia)
    return x_acc, theta_acc


class DoubleCartPoleState(NamedTuple):
    """State of a batch of double cart-poles, each of shape ``(n,)``; angles are absolute, 0 upright, towards +x."""

    x: NDArray[np.float64]
    x_dot: NDArray[np.float64]
    lower: NDArray[np.float64]
    lower_dot: NDArray[np.float64]
    upper: NDArray[np.float64]
    upper_dot: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class DoubleCartPoleModel(CartModel[DoubleCartPoleState]):
    """A point mass on a massless rod, hinged to the point mass of a first such pole on the cart."""

    lower_mass: float = 0.1
    """m₁, kg."""

    lower_length: float = 0.5
    """l₁, m."""

    upper_mass: float = 0.1
    """m₂, kg."""

    upper_length: float = 0.5
    """l₂, m."""

    @property
    def poles(self) -> tuple[tuple[float, float], ...]:
        """The lower and the upper pole."""
        return ((self.lower_mass, self.lower_length), (self.upper_mass, self.upper_length))

    def name_state(self, rows: NDArray[np.float64]) -> DoubleCartPoleState:
        """Return the rows by name."""
        return DoubleCartPoleState(*rows)

    def accelerations(self, rows: NDArray[np.float64], force: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the accelerations of cart, lower and upper pole; see the module's equations."""
        _, _, theta1, rate1, theta2, rate2 = rows
        m2, l1, l2, g = self.upper_mass, self.lower_length, self.upper_length, self.gravity
        both = self.lower_mass + m2
        sin1, cos1, sin2, cos2 = np.sin(theta1), np.cos(theta1), np.sin(theta2), np.cos(theta2)
        sin12, cos12 = sin1 * cos2 - cos1 * sin2, cos1 * cos2 + sin1 * sin2
        swing1, swing2 = l1 * rate1**2, l2 * rate2**2
        right1 = force + both * sin1 * swing1 + m2 * sin2 * swing2
        right2 = both * g * sin1 - m2 * sin12 * swing2
        right3 = g * sin2 + sin12 * swing1
        pivot2 = self.lower_mass + m2 * sin12**2
        coupling = both * cos1 - m2 * cos12 * cos2
        ratio = coupling / pivot2
        pivot1 = self.cart_mass + both - m2 * cos2**2 - ratio * coupling
        rest2 = right2 - m2 * cos12 * right3
        x_acc = (right1 - m2 * cos2 * right3 - ratio * rest2) / pivot1
        tip1 = rest2 / pivot2 - ratio * x_acc
        tip2 = right3 - cos2 * x_acc - cos12 * tip1
        return np.stack((x_acc, tip1 / l1, tip2 / l2))
