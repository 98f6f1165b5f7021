"""What stands on the cart: numbers, state and equations of motion; the paper's cart-pole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import BackendError

__all__ = ["CartModel", "CartPoleModel", "CartPoleState", "StateT", "accelerations"]

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
