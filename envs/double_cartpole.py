"""Balancing two poles in series on a cart that is told where to go: the paper's cart-pole with one more link."""

from __future__ import annotations

from dataclasses import dataclass

from adc_wrappers.backends.cartpole import DoubleCartPoleModel, make_cartpole_backend
from adc_wrappers.core import CurriculumConfig

from .cart import CartSettings, CartTask

__all__ = ["DoubleCartPoleSettings", "make_double_cartpole_task"]


@dataclass(frozen=True, kw_only=True)
class DoubleCartPoleSettings(CartSettings):
    """Settings of the double cart-pole task; angles are absolute."""

    lower_mass: float = 0.1
    """m₁, kg."""

    lower_length: float = 0.5
    """l₁, m."""

    upper_mass: float = 0.1
    """m₂, kg."""

    upper_length: float = 0.5
    """l₂, m."""

    angle_limit: float = 0.6
    """Angle of either pole beyond which an episode terminates, rad."""

    start_angle: float = 0.02
    """Start angles of both poles are uniform in ± this, rad."""

    start_rate: float = 0.02
    """Start angular velocities of both poles are uniform in ± this, rad/s."""


def make_double_cartpole_task(backend: str, num_envs: int, settings: DoubleCartPoleSettings) -> CartTask:
    """Build the task on a named backend; the recommended curriculum goes from ω_n = 10 to 2 rad/s."""
    model = DoubleCartPoleModel(
        cart_mass=settings.cart_mass,
        lower_mass=settings.lower_mass,
        lower_length=settings.lower_length,
        upper_mass=settings.upper_mass,
        upper_length=settings.upper_length,
    )
    physics = make_cartpole_backend(
        backend, num_envs, model, physics_step=settings.physics_step, decimation=settings.decimation
    )
    curriculum = CurriculumConfig(
        start_stiffness=100.0 * settings.cart_mass,
        target_stiffness=4.0 * settings.cart_mass,
        length_max=0.8 * settings.time_limit,
    )
    return CartTask(physics, settings, curriculum)
