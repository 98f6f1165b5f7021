"""Robot backends by name; an engine's package is imported only when it is asked for."""

from __future__ import annotations

from typing import Any

from adc_wrappers.core.errors import BackendError, did_you_mean

from .base import RobotBackend

__all__ = ["ROBOT_BACKENDS", "make_robot_backend"]

ROBOT_BACKENDS = ("mujoco", "pybullet")


def make_robot_backend(name: str, num_envs: int, **settings: Any) -> RobotBackend:
    """Return a batch of Spots in the engine ``name``.

    Args:
        name: One of :data:`ROBOT_BACKENDS`.
        num_envs: Number of robots.
        **settings: ``model``, ``physics_step``, ``decimation`` and what else the backend takes.
    """
    if name == "mujoco":
        from .mujoco_robot import MujocoRobotBackend

        return MujocoRobotBackend(num_envs, **settings)
    if name == "pybullet":
        from .bullet_robot import BulletRobotBackend

        return BulletRobotBackend(num_envs, **settings)
    raise BackendError(f"unknown robot backend {name!r}. {did_you_mean(name, ROBOT_BACKENDS)}")
