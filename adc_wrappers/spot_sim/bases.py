"""Where the body is: free on the ground, or held in the air."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotStart

__all__ = ["Base", "FreeBase", "HeldBase"]

_Array = NDArray[np.float64]


class Base(ABC):
    """The body in the simulation; positions in m and velocities in m/s in the world, angular ones in the body."""

    @property
    @abstractmethod
    def pose(self) -> _Array:
        """Position and quaternion w x y z, ``(7,)``."""

    @property
    @abstractmethod
    def velocity(self) -> _Array:
        """Linear and angular velocity, ``(6,)``."""

    @abstractmethod
    def put(self, start: RobotStart) -> None:
        """Put the body of a start without a batch axis into the simulation."""

    @abstractmethod
    def push(self, velocity: _Array) -> None:
        """Add to the linear velocity."""


class FreeBase(Base):
    """A body that moves: the first coordinates of the simulation.

    Args:
        data: The simulation's ``MjData``.
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    @property
    def pose(self) -> _Array:
        """What the simulation says."""
        return np.asarray(self._data.qpos[:7].copy())

    @property
    def velocity(self) -> _Array:
        """What the simulation says."""
        return np.asarray(self._data.qvel[:6].copy())

    def put(self, start: RobotStart) -> None:
        """Set the coordinates."""
        self._data.qpos[:7] = _pose_of(start)
        self._data.qvel[:6] = *start.base_linear_velocity, *start.base_angular_velocity

    def push(self, velocity: _Array) -> None:
        """Change the coordinates' velocity."""
        self._data.qvel[:3] += velocity


class HeldBase(Base):
    """A body that somebody holds: it stays where it is put.

    Args:
        model: The simulation's ``MjModel``.
        body: Number of the base in it.
    """

    def __init__(self, model: Any, body: int) -> None:
        self._model, self._body = model, body

    @property
    def pose(self) -> _Array:
        """Where it is held."""
        return np.concatenate((self._model.body_pos[self._body], self._model.body_quat[self._body]))

    @property
    def velocity(self) -> _Array:
        """None."""
        return np.zeros(6)

    def put(self, start: RobotStart) -> None:
        """Hold it there; a velocity that the start may have is stopped."""
        pose = _pose_of(start)
        self._model.body_pos[self._body], self._model.body_quat[self._body] = pose[:3], pose[3:]

    def push(self, velocity: _Array) -> None:
        """Nothing: whoever holds it does not let go."""


def _pose_of(start: RobotStart) -> _Array:
    quaternion = start.base_quaternion / np.linalg.norm(start.base_quaternion)
    return np.concatenate((start.base_position, quaternion))
