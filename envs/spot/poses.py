"""Base and joints of a robot as one row of numbers, to be drawn later."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotStart, RobotState

__all__ = ["robot_poses", "start_at"]


def robot_poses(state: RobotState) -> NDArray[np.float64]:
    """Return base position, base quaternion and joint positions side by side, ``(n, 7 + joints)``."""
    return np.concatenate((state.base_position, state.base_quaternion, state.joint_positions), axis=1)


def start_at(pose: NDArray[np.float64]) -> RobotStart:
    """Return the start of one robot at rest in a row of :func:`robot_poses`."""
    row = np.asarray(pose, dtype=np.float64)[None]
    still = np.zeros((1, 3))
    return RobotStart(row[:, :3], row[:, 3:7], still, still, row[:, 7:], np.zeros_like(row[:, 7:]))
