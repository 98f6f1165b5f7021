"""A stance on two feet at rest: the posture, and what holds it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import PLANAR_SPOT, SPOT, RobotSpec
from adc_wrappers.core.errors import CurriculumError, did_you_mean
from adc_wrappers.envs.spot import HANDSTAND, HINDSTAND, Stance

__all__ = ["STANCES", "StaticStance", "find_robot", "find_stance", "tilt"]

STANCES: dict[str, Stance] = {
    "spot-handstand": HANDSTAND,
    "spot-hindstand": HINDSTAND,
    "spot-planar-handstand": HANDSTAND,
}
"""Stances by the names of their tasks."""

_ROBOTS = {"spot-planar-handstand": PLANAR_SPOT}
"""Tables of the tasks whose robot is not Spot as it is."""

_LIMITING = 0.99  # share of the scale above which a joint is said to limit


@dataclass(frozen=True, kw_only=True, eq=False)
class StaticStance:
    """The posture that needs the least action scale, and what holds it; joint arrays in the order of the robot's."""

    stance: Stance
    """Which feet carry, and which way is down."""

    stiffness: float
    """K of every joint, N·m/rad."""

    down: tuple[float, float, float]
    """Direction of gravity in the body frame."""

    height: float
    """Of the body's origin, m."""

    clearance: float
    """Lowest point of all links but the supporting feet and lower legs, m."""

    squeeze: float
    """Force with which the ground pushes each supporting foot towards the other, N."""

    positions: NDArray[np.float64]
    """q, rad."""

    torques: NDArray[np.float64]
    """τ, N·m."""

    torque_limits: NDArray[np.float64]
    """Largest torque at these angles, N·m."""

    robot: RobotSpec = SPOT
    """The robot's table. A planar robot's joints are those of one leg of a pair."""

    @property
    def commands(self) -> NDArray[np.float64]:
        """The targets that hold the posture, ``q_d = q + τ/K``, rad."""
        return np.asarray(self.positions + self.torques / self.stiffness)

    @property
    def offsets(self) -> NDArray[np.float64]:
        """``q_d − q_0``, rad: α times the action that holds the posture."""
        return np.asarray(self.commands - np.array(self.robot.nominal_pose))

    @property
    def action_scale(self) -> float:
        """The smallest α, rad: the largest ``|q_d − q_0|`` of any joint."""
        return float(np.abs(self.offsets).max())

    @property
    def limiting_joints(self) -> tuple[str, ...]:
        """Joints that use the whole scale, within a hundredth of it."""
        used = np.abs(self.offsets) >= _LIMITING * self.action_scale
        return tuple(name for name, whole in zip(self.robot.joint_names, used, strict=True) if whole)

    @property
    def tilt(self) -> float:
        """Angle between the direction of gravity and the wanted one, rad."""
        return float(tilt(np.array([self.down]), self.stance)[0])

    @property
    def quaternion(self) -> NDArray[np.float64]:
        """Orientation of the body in the world, w x y z, turned about y alone."""
        pitch = np.arctan2(self.down[0], -self.down[2])
        return np.array([np.cos(pitch / 2), 0.0, np.sin(pitch / 2), 0.0])


def find_stance(task: str) -> Stance:
    """Return the stance of a task by the task's name."""
    if task not in STANCES:
        raise CurriculumError(f"the task {task!r} is no stance on two feet. {did_you_mean(task, STANCES)}")
    return STANCES[task]


def find_robot(task: str) -> RobotSpec:
    """Return the table of a task's robot by the task's name."""
    return _ROBOTS.get(task, SPOT)


def tilt(down: NDArray[np.float64], stance: Stance) -> NDArray[np.float64]:
    """Angle between directions of gravity ``(n, 3)`` and the stance's, rad; from the chord, exact near 0."""
    chord = np.linalg.norm(down - np.array(stance.gravity), axis=1)
    return np.asarray(2.0 * np.arcsin(np.clip(0.5 * chord, 0.0, 1.0)))
