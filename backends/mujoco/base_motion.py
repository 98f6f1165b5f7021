"""Motion of a robot's base in the engine: freely, in its plane of symmetry, or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotStart, RobotState, check_push_in_plane, check_start_in_plane
from adc_wrappers.core.errors import BackendError

from .layout import RobotLayout

__all__ = ["BaseMotion", "FixedBase", "FreeBase", "PlanarBase", "base_motion"]

_OFF_DIAGONAL = ((1, 2, 3, -1.0), (1, 3, 2, 1.0), (2, 3, 1, -1.0))  # R_rc = 2 (q_r q_c ± w q_other), R_cr with ∓
_Array = NDArray[np.float64]


class BaseMotion(ABC):
    """The base's coordinates in the engine, which come before those of the joints."""

    height_column: int | None
    """Column of the base's height among the coordinates; None if it has none."""

    @abstractmethod
    def write(self, start: RobotStart, qpos: _Array, qvel: _Array) -> None:
        """Write the base's part of a start into rows of coordinates."""

    @abstractmethod
    def push(self, qvel: _Array, rows: NDArray[np.int64], change: _Array) -> None:
        """Add to the base's velocity in the world, m/s, ``(rows, 3)``."""

    @abstractmethod
    def read(self, qpos: _Array, qvel: _Array, state: RobotState) -> None:
        """Write pose, velocities and gravity of the base into a state."""


class FreeBase(BaseMotion):
    """A free joint: position and linear velocity in the world, angular velocity in the base's frame.

    Args:
        num_envs: Number of robots.
    """

    height_column = 2

    def __init__(self, num_envs: int) -> None:
        self._rotation = np.zeros((num_envs, 3, 3))
        self._products = np.zeros((num_envs, 4, 4))

    def write(self, start: RobotStart, qpos: _Array, qvel: _Array) -> None:
        """Write position and unit quaternion, and both velocities."""
        with np.errstate(invalid="ignore", divide="ignore"):
            unit = start.base_quaternion / np.linalg.norm(start.base_quaternion, axis=1, keepdims=True)
        qpos[:, :3], qpos[:, 3:7] = start.base_position, unit
        qvel[:, :3], qvel[:, 3:6] = start.base_linear_velocity, start.base_angular_velocity

    def push(self, qvel: _Array, rows: NDArray[np.int64], change: _Array) -> None:
        """Add to the linear velocity."""
        qvel[rows, :3] += change

    def read(self, qpos: _Array, qvel: _Array, state: RobotState) -> None:
        """Turn the world's velocity into the base's frame."""
        state.base_position[:] = qpos[:, :3]
        state.base_quaternion[:] = qpos[:, 3:7]
        rotation_matrices(state.base_quaternion, self._products, self._rotation)
        np.negative(self._rotation[:, 2], out=state.projected_gravity)
        np.einsum("nji,nj->ni", self._rotation, qvel[:, :3], out=state.base_linear_velocity)
        state.base_angular_velocity[:] = qvel[:, 3:6]


class PlanarBase(BaseMotion):
    """Two slides and a hinge: x, z and pitch; whatever would leave the plane is refused."""

    height_column = 1

    def write(self, start: RobotStart, qpos: _Array, qvel: _Array) -> None:
        """Write x, z and pitch, and their rates."""
        check_start_in_plane(start)
        linear, angular = start.base_linear_velocity, start.base_angular_velocity
        w, y = start.base_quaternion[:, 0], start.base_quaternion[:, 2]
        qpos[:, 0], qpos[:, 1], qpos[:, 2] = start.base_position[:, 0], start.base_position[:, 2], 2 * np.arctan2(y, w)
        qvel[:, 0], qvel[:, 1], qvel[:, 2] = linear[:, 0], linear[:, 2], angular[:, 1]

    def push(self, qvel: _Array, rows: NDArray[np.int64], change: _Array) -> None:
        """Add to the velocity along x and z."""
        check_push_in_plane(change)
        qvel[rows, :2] += change[:, [0, 2]]

    def read(self, qpos: _Array, qvel: _Array, state: RobotState) -> None:
        """Turn the world's velocity into the base's frame; what is out of the plane stays zero."""
        pitch = qpos[:, 2]
        cosine, sine = np.cos(pitch), np.sin(pitch)
        state.base_position[:, 0], state.base_position[:, 2] = qpos[:, 0], qpos[:, 1]
        state.base_quaternion[:, 0], state.base_quaternion[:, 2] = np.cos(pitch / 2), np.sin(pitch / 2)
        state.projected_gravity[:, 0], state.projected_gravity[:, 2] = sine, -cosine
        state.base_linear_velocity[:, 0] = cosine * qvel[:, 0] - sine * qvel[:, 1]
        state.base_linear_velocity[:, 2] = sine * qvel[:, 0] + cosine * qvel[:, 1]
        state.base_angular_velocity[:, 1] = qvel[:, 2]


class FixedBase(BaseMotion):
    """A welded base, whose part of a start is not used.

    Args:
        pose: Position and quaternion, ``(7,)``.
    """

    height_column = None

    def __init__(self, pose: _Array) -> None:
        self._pose = pose
        self._rotation = np.zeros((1, 3, 3))
        rotation_matrices(pose[None, 3:], np.zeros((1, 4, 4)), self._rotation)

    def write(self, start: RobotStart, qpos: _Array, qvel: _Array) -> None:
        """Write nothing: there are no coordinates."""

    def push(self, qvel: _Array, rows: NDArray[np.int64], change: _Array) -> None:
        """Refuse: the base has no velocity."""
        raise BackendError("push: the base is fixed and has no velocity. Make the backend with fixed_base=False.")

    def read(self, qpos: _Array, qvel: _Array, state: RobotState) -> None:
        """Write where the base is welded."""
        state.base_position[:], state.base_quaternion[:] = self._pose[:3], self._pose[3:]
        state.projected_gravity[:] = -self._rotation[0, 2]
        state.base_linear_velocity[:], state.base_angular_velocity[:] = 0.0, 0.0


def base_motion(model: Any, body: int, layout: RobotLayout, num_envs: int, fixed: bool) -> BaseMotion:
    """Return how the base of a compiled robot moves.

    Args:
        model: The compiled robot.
        body: Index of the base's body.
        layout: Whether it is planar.
        num_envs: Number of robots.
        fixed: Whether it is welded.
    """
    if fixed:
        return FixedBase(np.concatenate((model.body_pos[body], model.body_quat[body])))
    return PlanarBase() if layout.planar else FreeBase(num_envs)


def rotation_matrices(quaternion: _Array, products: _Array, out: _Array) -> None:
    """Write the rotation matrix of each unit quaternion (w x y z): its columns are the base's axes in the world.

    Args:
        quaternion: ``(n, 4)``.
        products: Room for ``2 q_i q_j``, ``(n, 4, 4)``.
        out: ``(n, 3, 3)``.
    """
    np.multiply(quaternion[:, :, None], quaternion[:, None, :], out=products)
    products += products
    w, square = products[:, 0], products.diagonal(axis1=1, axis2=2)
    for row, column, other, sign in _OFF_DIAGONAL:
        turn = w[:, other] * sign
        np.add(products[:, row, column], turn, out=out[:, row - 1, column - 1])
        np.subtract(products[:, row, column], turn, out=out[:, column - 1, row - 1])
    for axis, (one, two) in enumerate(((2, 3), (1, 3), (1, 2))):
        np.subtract(1.0 - square[:, one], square[:, two], out=out[:, axis, axis])
