"""What a planar robot refuses: starts and pushes that would leave its plane y = 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import BackendError

from .base import RobotStart

__all__ = ["check_push_in_plane", "check_start_in_plane"]

_IN_PLANE = 1e-6


def check_start_in_plane(start: RobotStart) -> None:
    """Refuse a start with y, roll, yaw or their rates."""
    linear, angular = start.base_linear_velocity, start.base_angular_velocity
    outside = (start.base_position[:, [1]], start.base_quaternion[:, [1, 3]], linear[:, [1]], angular[:, [0, 2]])
    if any((np.abs(values) > _IN_PLANE).any() for values in outside):
        raise BackendError(
            "a planar robot moves along x and z and turns about y: expected a start whose y, roll, yaw and their "
            "rates are zero."
        )


def check_push_in_plane(velocity_change: NDArray[np.float64]) -> None:
    """Refuse a push with y, ``(n, 3)``."""
    if (np.abs(velocity_change[:, 1]) > _IN_PLANE).any():
        raise BackendError("a planar robot cannot be pushed sideways: expected a velocity change without y.")
