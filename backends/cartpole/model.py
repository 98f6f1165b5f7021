"""The cart-pole's numbers, its state, and its equations of motion (the paper's appendix)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import BackendError

__all__ = ["CartPoleModel", "CartPoleState", "accelerations"]


@dataclass(frozen=True, kw_only=True)
class CartPoleModel:
    """A point mass on a massless rod, hinged to a cart that a PD law pulls to a commanded position."""

    cart_mass: float = 1.0
    """M, kg. The paper's gains are ``K = M ω_n²``, ``B = 2 M ω_n``."""

    pole_mass: float = 0.1
    """m, kg."""

    pole_length: float = 0.5
    """l, m."""

    gravity: float = 9.81
    """g, m/s²."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (np.isfinite(value) and value > 0.0):
                raise BackendError(f"cart-pole {field.name}: expected a positive number, got {value}.")


class CartPoleState(NamedTuple):
    """State of a batch of cart-poles, each of shape ``(n,)``; θ is 0 upright and positive towards +x."""

    x: NDArray[np.float64]
    x_dot: NDArray[np.float64]
    theta: NDArray[np.float64]
    theta_dot: NDArray[np.float64]


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
