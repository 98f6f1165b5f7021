"""The take-over from the robot's own stand to the task's pose and gains: what must hold, and no bump on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotStart
from adc_wrappers.backends.limiter import LIMITERS
from adc_wrappers.backends.spot_model import (
    FOOT_NAMES,
    FOOT_RADIUS,
    JOINT_NAMES,
    NOMINAL_POSE,
    SPOT,
    link_poses,
    standing_height,
)
from adc_wrappers.core.errors import BackendError

if TYPE_CHECKING:
    from .messages import StateSample

__all__ = [
    "GRAVITY_TOLERANCE",
    "LARGEST_TILT",
    "STIFF_DAMPING",
    "STIFF_STIFFNESS",
    "Setpoint",
    "TakeOverError",
    "check_gravity",
    "check_height",
    "check_start",
    "check_upright",
    "gain_setpoints",
    "gravity_angle",
    "height_over_feet",
    "pose_setpoints",
    "stands",
    "tilt",
]


GRAVITY_TOLERANCE: Final = 3.0
"""Largest angle between down by odometry and by the inertial sensor, degrees."""

LARGEST_TILT: Final = 30.0
"""Largest angle of the body against level before its motors are powered, degrees."""

HEIGHT_TOLERANCE: Final = 0.08
"""How far the body's height over its feet may be from the nominal pose's when it stands, m."""

_SECONDS: Final = 1.0
_NOMINAL_HEIGHT: Final = standing_height(np.array(NOMINAL_POSE))


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


def tilt(sample: StateSample) -> float:
    """Return the angle of the body against level, degrees: 180 for a robot on its back."""
    return float(np.rad2deg(np.arccos(np.clip(-sample.gravity[2], -1.0, 1.0))))


def check_upright(sample: StateSample) -> None:
    """Refuse to power a robot that lies on its side or back: its own stand would not bring it to its feet."""
    angle = tilt(sample)
    if not angle <= LARGEST_TILT:
        raise BackendError(
            f"upright: the body is tilted by {angle:.0f}°, at most {LARGEST_TILT:g}°. Nothing was powered. Bring the "
            "robot onto its feet (self-right from the tablet, or by hand) and try again."
        )


def height_over_feet(sample: StateSample) -> float:
    """Return how high the body is over its lowest foot, m, by joint angles and the direction of gravity.

    It needs no ground, so that it holds for a robot that hangs on a hoist, too.
    """
    poses = link_poses(sample.position)
    feet = np.stack([poses[name][:3, 3] for name in FOOT_NAMES])
    return float((feet @ sample.gravity).max()) + FOOT_RADIUS


def stands(sample: StateSample) -> bool:
    """Whether the body is as high over its feet as in the nominal pose."""
    return abs(height_over_feet(sample) - _NOMINAL_HEIGHT) <= HEIGHT_TOLERANCE


def check_height(sample: StateSample) -> None:
    """Refuse to take over a robot whose own stand has not brought it to its height."""
    if not stands(sample):
        raise BackendError(
            f"stand: it has not settled, the body is {height_over_feet(sample):.2f} m over its feet, expected "
            f"{_NOMINAL_HEIGHT:.2f} m within {HEIGHT_TOLERANCE:g} m. Look for what is under the robot or on it, and at "
            "the body height that its operator has set."
        )


_Array = NDArray[np.float64]

_BY_JOINT: Final = {"hx": (624.0, 5.20), "hy": (936.0, 5.20), "kn": (286.0, 2.04)}
STIFF_STIFFNESS: Final = np.array([_BY_JOINT[name[-2:]][0] for name in JOINT_NAMES])
"""Gains for holding a position, as in the Spot SDK's joint control example (v5.1.4), N·m/rad."""
STIFF_DAMPING: Final = np.array([_BY_JOINT[name[-2:]][1] for name in JOINT_NAMES])
_LOWER: Final = np.array([joint.lower for joint in SPOT.actuated]) + LIMITERS["robot"].margin
_UPPER: Final = np.array([joint.upper for joint in SPOT.actuated]) - LIMITERS["robot"].margin


class TakeOverError(BackendError):
    """A take-over that the guard ended.

    Args:
        incident: The breach, and what the robot did then (``fallback``).
    """

    def __init__(self, incident: Mapping[str, Any]) -> None:
        self.incident = dict(incident)
        super().__init__(
            f"the guard ended the take-over ({incident['check']}): {incident['reason']}; the robot then: "
            f"{incident['fallback']}."
        )


class Setpoint(NamedTuple):
    """Targets and gains of one policy step."""

    position: _Array
    stiffness: _Array
    damping: _Array


def pose_setpoints(steps: int, position: _Array, load: _Array, nominal: _Array) -> Iterator[Setpoint]:
    """Yield targets at stiff gains that lead from a held pose to the nominal one.

    The first asks for exactly the torque that the joints bear now: its target is ``q + load / K``.

    Args:
        steps: Policy steps, at least 1.
        position: Where the joints are, rad.
        load: What they bear, N·m.
        nominal: Where they shall be.
    """
    for step in range(steps + 1):
        pose = position + _smooth(step / steps) * (nominal - position)
        yield Setpoint(pose + load / STIFF_STIFFNESS, STIFF_STIFFNESS, STIFF_DAMPING)


def gain_setpoints(
    steps: int, position: _Array, load: _Array, stiffness: _Array, damping: _Array
) -> Iterator[Setpoint]:
    """Yield targets that hold a pose while gains go from stiff to those wanted.

    The offset ``load / K`` grows as joints soften, so that the robot does not sink; it grows by the same in every step,
    since a guard bounds how far a target moves in one. It ends inside the joint's range, as far as a command limiter
    stays inside it: a joint that would need more sinks. Soft joints do not hold a stand for long without a policy: this
    is to be quick.

    Args:
        steps: Policy steps, at least 1.
        position: Where the joints are, rad.
        load: What they bear, N·m.
        stiffness: Wanted gains.
        damping: Wanted gains.
    """
    for step in range(1, steps + 1):
        share = step / steps
        k = 1.0 / (1.0 / STIFF_STIFFNESS + share * (1.0 / stiffness - 1.0 / STIFF_STIFFNESS))
        targets = np.clip(position + load / k, np.minimum(position, _LOWER), np.maximum(position, _UPPER))
        yield Setpoint(targets, k, STIFF_DAMPING + share * (damping - STIFF_DAMPING))


def _smooth(share: float) -> float:
    return share * share * (3.0 - 2.0 * share)
