"""The paper's cart-pole with a position-tracking cart, in closed form and in PyBullet."""

from __future__ import annotations

from typing import Any

from adc_wrappers.core.errors import BackendError, did_you_mean

from .base import CartPoleBackend
from .model import CartPoleModel, CartPoleState

__all__ = ["CARTPOLE_BACKENDS", "CartPoleBackend", "CartPoleModel", "CartPoleState", "make_cartpole_backend"]

CARTPOLE_BACKENDS = ("analytic", "pybullet")


def make_cartpole_backend(name: str, num_envs: int, model: CartPoleModel, **settings: Any) -> CartPoleBackend:
    """Return the cart-pole backend ``name``; its package is imported only here."""
    if name == "analytic":
        from .analytic import AnalyticCartPole

        return AnalyticCartPole(num_envs, model, **settings)
    if name == "pybullet":
        from .bullet import BulletCartPole

        return BulletCartPole(num_envs, model, **settings)
    raise BackendError(f"unknown cart-pole backend {name!r}. {did_you_mean(name, CARTPOLE_BACKENDS)}")
