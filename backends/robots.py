"""Robot backends by name, imported only when asked for, and a probe of the joints of those that are simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import BackendError, did_you_mean

from .base import RobotBackend, RobotParameters, RobotStart

__all__ = ["ROBOT_BACKENDS", "RobotProbe", "make_robot_backend"]

ROBOT_BACKENDS = ("mujoco", "pybullet", "spot")

_Array = NDArray[np.float64]
_LOCK = 1e6
"""Rotor inertia (kg·m²) or, where an engine has none, dry friction (N·m) of joints that must stand still."""


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


class RobotProbe:
    """The joints of a batch of robots on a bench, for :func:`adc_wrappers.testing.check_backend`.

    Joints whose targets are moved are free; the others are locked by rotor inertia (MuJoCo) or dry friction (PyBullet).

    Args:
        backend: Robots made with ``fixed_base=True``; without gravity, unless its weight is what should be seen.
        height: Where the base is held, m: high enough for the legs.
    """

    def __init__(self, backend: RobotBackend, height: float = 2.0) -> None:
        self.backend = backend
        self.time_step = backend.policy_step
        count, joints = backend.num_envs, len(backend.joint_names)
        still, pose = np.zeros((count, 3)), np.tile(backend.nominal_pose, (count, 1))
        self.pose: _Array = backend.nominal_pose.copy()
        """Joint positions at rest, ``(joints,)``."""
        upright = np.tile([1.0, 0.0, 0.0, 0.0], (count, 1))
        self._start = RobotStart(
            np.tile([0.0, 0.0, height], (count, 1)), upright, still, still, pose, np.zeros_like(pose)
        )
        self._free: NDArray[np.bool_] = np.zeros((count, joints), dtype=bool)
        self._by_armature = True

    def rest(self) -> _Array:
        """Put the robots to rest in the nominal pose and lock every joint."""
        self.backend.reset(self._start)
        self._free[:] = False
        self._lock()
        return self._positions()

    def move(self, targets: _Array) -> _Array:
        """Hold targets for one policy step; a joint whose target is not where it rested is free from then on."""
        moved = np.abs(targets - self.pose) > 1e-12
        if (moved & ~self._free).any():
            self._free |= moved
            self._lock()
        self.backend.advance(np.asarray(targets, dtype=np.float64))
        return self._positions()

    def release(self, joint: int | NDArray[np.int64]) -> None:
        """Leave a joint, or one for each robot, free though its target stays, until the next :meth:`rest`."""
        self._free[np.arange(len(self._free)), joint] = True
        self._lock()

    def _lock(self) -> None:
        rows = np.arange(self.backend.num_envs)
        held = np.where(self._free, 0.0, _LOCK)
        if self._by_armature:
            try:
                self.backend.set_parameters(RobotParameters(joint_armature=held), rows)
            except BackendError:  # an engine without rotor inertia
                self._by_armature = False
        if not self._by_armature:
            self.backend.set_parameters(RobotParameters(joint_coulomb=held), rows)

    def _positions(self) -> _Array:
        return np.array(self.backend.state().joint_positions, dtype=np.float64)
