"""Balancing a pole on a cart that is told where to go: the paper's representative system as a task."""

from __future__ import annotations

from dataclasses import dataclass

from adc_wrappers.backends.cartpole import CartPoleModel, make_cartpole_backend
from adc_wrappers.core import CurriculumConfig

from .cart import CartSettings, CartTask

__all__ = ["CartPoleSettings", "make_cartpole_task"]


@dataclass(frozen=True, kw_only=True)
class CartPoleSettings(CartSettings):
    """Settings of the cart-pole task."""

    pole_mass: float = 0.1
    """m, kg."""

    pole_length: float = 0.5
    """l, m."""


def make_cartpole_task(backend: str, num_envs: int, settings: CartPoleSettings) -> CartTask:
    """Build the task on a named backend; the recommended curriculum goes from ω_n = 6 to 2.5 rad/s."""
    model = CartPoleModel(cart_mass=settings.cart_mass, pole_mass=settings.pole_mass, pole_length=settings.pole_length)
    physics = make_cartpole_backend(
        backend, num_envs, model, physics_step=settings.physics_step, decimation=settings.decimation
    )
    curriculum = CurriculumConfig(
        start_stiffness=36.0 * settings.cart_mass,
        target_stiffness=6.25 * settings.cart_mass,
        length_max=0.9 * settings.time_limit,
    )
    return CartTask(physics, settings, curriculum)
