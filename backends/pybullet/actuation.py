"""The joint torque law, in plain floats: it runs between any two physics steps, where numpy would cost more."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from adc_wrappers.backends.base import MAX_COMMAND_DELAY
from adc_wrappers.backends.spot_model import HIP_TORQUE_LIMIT, JOINT_NAMES, KNEE_ANGLES, KNEE_TORQUES

__all__ = ["DelayLine", "knee_limit", "pd_torques"]

_TABLE: Final[list[float]] = KNEE_TORQUES.tolist()
_LAST: Final = len(_TABLE) - 1
_LOWER: Final = float(KNEE_ANGLES[0])
_PER_RADIAN: Final = _LAST / float(KNEE_ANGLES[-1] - KNEE_ANGLES[0])
_KNEES: Final = tuple(name.endswith("_kn") for name in JOINT_NAMES)
_NEVER_CLIPPED: Final = min(HIP_TORQUE_LIMIT, *_TABLE)


def knee_limit(angle: float) -> float:
    """Return the knee's largest torque at an angle, N·m: linear interpolation in a table of even steps.

    >>> round(knee_limit(-1.443626), 3), knee_limit(-3.0), knee_limit(0.0)
    (113.236, 37.165077, 30.6025)
    """
    place = (angle - _LOWER) * _PER_RADIAN
    if place <= 0.0:
        return _TABLE[0]
    if place >= _LAST:
        return _TABLE[_LAST]
    row = int(place)
    return _TABLE[row] + (place - row) * (_TABLE[row + 1] - _TABLE[row])


def pd_torques(
    states: Sequence[Any],
    targets: Sequence[float],
    stiffness: Sequence[float],
    damping: Sequence[float],
    knees: Sequence[bool] = _KNEES,
) -> list[float] | None:
    """Return ``K (q_d − q) − B q̇`` of every joint within its torque limit, or None if a torque is not finite.

    Args:
        states: PyBullet's joint states: angle, speed, reaction forces and motor torque of each joint.
        targets: q_d.
        stiffness: K.
        damping: B.
        knees: Whether each joint is a knee, whose limit depends on its angle.
    """
    torques = [
        k * (target - angle) - b * speed
        for (angle, speed, _, _), target, k, b in zip(states, targets, stiffness, damping, strict=False)  # strict: 15 %
    ]
    if not math.isfinite(sum(torques)):
        return None
    if max(torques) > _NEVER_CLIPPED or min(torques) < -_NEVER_CLIPPED:
        for joint, torque in enumerate(torques):
            if -_NEVER_CLIPPED <= torque <= _NEVER_CLIPPED:
                continue
            limit = knee_limit(states[joint][0]) if knees[joint] else HIP_TORQUE_LIMIT
            if torque > limit:
                torques[joint] = limit
            elif torque < -limit:
                torques[joint] = -limit
    return torques


class DelayLine:
    """Position targets on their way, some physics steps late; until the first arrives, a pose is held."""

    def __init__(self, pose: list[float]) -> None:
        self.delay = 0
        self._recent: deque[list[float]] = deque(maxlen=MAX_COMMAND_DELAY + 1)
        self.restart(pose)

    def restart(self, pose: list[float]) -> None:
        """Forget every target, as if the robot had been told to hold this pose so far."""
        self._recent.extend([pose] * (MAX_COMMAND_DELAY + 1))

    def pass_on(self, targets: list[float]) -> list[float]:
        """Take in the targets of a physics step and return those that act in it."""
        self._recent.append(targets)
        return self._recent[-1 - self.delay]

    def save(self) -> list[float]:
        """Return the targets under way, the oldest first, in one row."""
        return [value for targets in self._recent for value in targets]

    def load(self, values: list[float]) -> None:
        """Restore them."""
        joints = len(values) // (MAX_COMMAND_DELAY + 1)
        self._recent.extend(values[begin : begin + joints] for begin in range(0, len(values), joints))
