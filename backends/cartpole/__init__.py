"""Poles on a position-tracking cart: the paper's cart-pole and the double cart-pole, in closed form and in PyBullet."""

from __future__ import annotations

from typing import Any, TypeAlias

from adc_wrappers.core.errors import BackendError, did_you_mean

from .base import CartBackend
from .model import CartModel, CartPoleModel, CartPoleState, DoubleCartPoleModel, DoubleCartPoleState, StateT

__all__ = [
    "CARTPOLE_BACKENDS",
    "CartBackend",
    "CartModel",
    "CartPoleBackend",
    "CartPoleModel",
    "CartPoleState",
    "DoubleCartPoleBackend",
    "DoubleCartPoleModel",
    "DoubleCartPoleState",
    "make_cartpole_backend",
]

CARTPOLE_BACKENDS = ("analytic", "pybullet")

CartPoleBackend: TypeAlias = CartBackend[CartPoleState]
DoubleCartPoleBackend: TypeAlias = CartBackend[DoubleCartPoleState]


def make_cartpole_backend(name: str, num_envs: int, model: CartModel[StateT], **settings: Any) -> CartBackend[StateT]:
    """Return the backend ``name`` for what ``model`` puts on the cart; its package is imported only here."""
    if name == "analytic":
        from .base import AnalyticCart

        return AnalyticCart(num_envs, model, **settings)
    if name == "pybullet":
        from .pybullet import BulletCart

        return BulletCart(num_envs, model, **settings)
    raise BackendError(f"unknown cart-pole backend {name!r}. {did_you_mean(name, CARTPOLE_BACKENDS)}")
