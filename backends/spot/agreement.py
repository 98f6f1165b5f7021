"""What must agree before a robot is taken over: the start that is asked for, and the two ideas of down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotStart
from adc_wrappers.core.errors import BackendError

if TYPE_CHECKING:
    from .messages import StateSample

__all__ = ["GRAVITY_TOLERANCE", "check_gravity", "check_start", "gravity_angle"]

GRAVITY_TOLERANCE: Final = 3.0
"""Largest angle between down by odometry and by the inertial sensor, degrees."""

_SECONDS: Final = 1.0


def check_start(start: RobotStart, nominal_pose: NDArray[np.float64]) -> None:
    """Refuse any start but the one at rest in the nominal pose; where the robot stands and looks is up to it."""
    moving = [
        name
        for name in ("base_linear_velocity", "base_angular_velocity", "joint_velocities")
        if np.any(getattr(start, name))
    ]
    if not np.allclose(start.joint_positions, nominal_pose, atol=1e-9):
        moving.append("joint_positions")
    if moving:
        raise BackendError(
            f"a robot cannot be put into a state: the start asks for other {', '.join(moving)} than the nominal pose "
            "at rest. Make the env with randomize=False."
        )


def gravity_angle(samples: Sequence[StateSample], now: float) -> float:
    """Return the angle between the two ideas of down over the last second, degrees; NaN if there is no sensor.

    Args:
        samples: States, the robot still; those without an acceleration are not looked at.
        now: Robot's clock, s.
    """
    pairs = [
        (sample.acceleration, sample.gravity)
        for sample in samples
        if sample.acceleration is not None and sample.stamp >= now - _SECONDS
    ]
    if not pairs:
        return float("nan")
    felt = np.mean([pair[0] for pair in pairs], axis=0)
    seen = -np.mean([pair[1] for pair in pairs], axis=0)
    cosine = float(felt @ seen / (np.linalg.norm(felt) * np.linalg.norm(seen)))
    return float(np.rad2deg(np.arccos(np.clip(cosine, -1.0, 1.0))))


def check_gravity(angle: float) -> None:
    """Refuse a robot whose two ideas of down differ."""
    if angle > GRAVITY_TOLERANCE:
        raise BackendError(
            f"gravity: odometry and inertial sensor disagree by {angle:.1f}°, at most {GRAVITY_TOLERANCE}°. Let the "
            "robot stand still on level ground and reboot it there."
        )
