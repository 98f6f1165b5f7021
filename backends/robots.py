"""Robot backends by name; an engine's package is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adc_wrappers.core.errors import BackendError, did_you_mean

from .base import RobotBackend

__all__ = ["ROBOT_BACKENDS", "make_robot_backend"]

ROBOT_BACKENDS = ("mujoco", "pybullet", "spot")


def make_robot_backend(name: str, num_envs: int, **settings: Any) -> RobotBackend:
    """Return a batch of Spots in the engine ``name``, or one robot.

    Args:
        name: One of :data:`ROBOT_BACKENDS`.
        num_envs: Number of robots.
        **settings: ``model``, ``physics_step``, ``decimation`` and what else the backend takes; of ``"spot"``, the
            fields of :class:`~adc_wrappers.backends.spot.SpotRobotSettings` and ``wanted``.
    """
    if name == "mujoco":
        from .mujoco import MujocoRobotBackend

        return MujocoRobotBackend(num_envs, **settings)
    if name == "pybullet":
        from .pybullet import BulletRobotBackend

        return BulletRobotBackend(num_envs, **settings)
    if name == "spot":
        return _make_spot(num_envs, **settings)
    raise BackendError(f"unknown robot backend {name!r}. {did_you_mean(name, ROBOT_BACKENDS)}")


def _make_spot(
    num_envs: int, *, wanted: Sequence[float], physics_step: float, decimation: int, **settings: Any
) -> RobotBackend:
    from .spot.backend import SpotRobotBackend
    from .spot.settings import SpotRobotSettings

    if "hostname" not in settings:
        raise BackendError("the backend 'spot' needs the robot's address: hostname=, such as '192.168.80.3'.")
    return SpotRobotBackend(
        num_envs, SpotRobotSettings(**settings), wanted=wanted, physics_step=physics_step, decimation=decimation
    )
