"""Reward terms of the two-legged stances, before their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.guard import ROBOT_LIMITS
from adc_wrappers.backends.spot_model import SPOT

from .body import SPATIAL, SpotBody, array_namespace, constant
from .terms import any_touching, gravity_error, norm, square_sum

__all__ = ["REWARD_TERMS", "RewardInputs", "StandStep", "as_number", "too_fast"]

TORQUE_SHARE: Final = 0.7
"""Share of a joint's torque limit beyond which torque costs."""

JOINT_SPEEDS: Final = ROBOT_LIMITS.envelopes["stance"].joint_speed
"""Joint speeds that a robot's guard allows in the stance, rad/s."""

SPEED_SHARE: Final = 0.75
"""Share of them beyond which speed costs."""

SPEED_STOP: Final = 0.9
"""Share of the guard's joint speeds that ends an episode of training: the guard sees speeds with their noise."""

_WEIGHT: Final = 9.81 * sum(link.mass for link in SPOT.links)
_LARGEST_IMPACT: Final = 3.0


class RewardInputs(NamedTuple):
    """The moment before the step, as far as a reward needs to know it."""

    action: Any
    joint_velocities: Any
    base_position: Any
    base_quaternion: Any
    joint_positions: Any


@dataclass(frozen=True, kw_only=True)
class StandStep:
    """One policy step of a batch of robots, as its reward sees it."""

    state: RobotState
    """The robots after it."""

    before: RewardInputs
    """The robots before it."""

    action: Any
    """The action of it."""

    touching: Any
    """Which links touch the ground after it, ``(n, links)``."""

    fallen: Any
    """Which robots pay for a fall in it."""

    holds: Any
    """Which robots are in the stance after it."""

    gravity: Sequence[float]
    """Direction of gravity in the body frame that is wanted."""

    height: float
    """Height of the body's origin that is wanted, m."""

    lifted: Sequence[int]
    """Links that are to be lifted."""

    support: Sequence[int]
    """Links that carry the robot."""

    feet: Sequence[int]
    """All feet."""

    angular_axes: Sequence[int]
    """Axes of the base's angular velocity that cost."""

    policy_step: float
    """Seconds in it."""

    body: SpotBody = SPATIAL
    """The robot's build."""

    def over_joints(self, values: Any) -> Any:
        """Sum of squares over Spot's joints; a planar joint stands for two of them."""
        total = square_sum(values)
        return total if self.body.legs == 1 else self.body.legs * total

    def joint_norm(self, values: Any) -> Any:
        """Euclidean length over Spot's joints."""
        return array_namespace(values).sqrt(self.over_joints(values))


def as_number(mask: Any, like: Any) -> Any:
    """Return 1 where a mask is true and 0 elsewhere, as numbers of the kind of ``like``."""
    if type(mask) is type(like) is np.ndarray:
        return mask.astype(like.dtype)
    return array_namespace(mask, like).astype(mask, like.dtype)


def _orientation(step: StandStep) -> Any:
    return gravity_error(step.state, step.gravity)


def _height(step: StandStep) -> Any:
    return (step.state.base_position[:, 2] - step.height) ** 2


def _lifted_feet_contact(step: StandStep) -> Any:
    return as_number(any_touching(step.touching, step.lifted), step.action)


def _linear_velocity(step: StandStep) -> Any:
    return square_sum(step.state.base_linear_velocity)


def _angular_velocity(step: StandStep) -> Any:
    return square_sum(step.state.base_angular_velocity[:, step.angular_axes])


def _torque(step: StandStep) -> Any:
    return step.joint_norm(step.state.joint_torques)


def _action_rate(step: StandStep) -> Any:
    return step.over_joints(step.action - step.before.action)


def _fall(step: StandStep) -> Any:
    return as_number(step.fallen, step.action)


def _stance(step: StandStep) -> Any:
    return as_number(step.holds, step.action)


def _single_support(step: StandStep) -> Any:
    """One in the stance on fewer feet than it has: on one of two, or in the plane, where both are one, in the air.

    A robot that steps is so for half of the time.
    """
    touching = step.touching[:, step.support]
    carrying = array_namespace(step.action).sum(as_number(touching, step.action), axis=-1)
    return as_number(step.holds & (carrying < touching.shape[1]), step.action)


def _support_feet_in_air(step: StandStep) -> Any:
    return as_number(~any_touching(step.touching, step.support), step.action)


def _foot_slip(step: StandStep) -> Any:
    """Horizontal speed of the feet that touch the ground, averaged over the step and summed."""
    state, before = step.state, step.before
    now = step.body.feet_in_world(state.base_position, state.base_quaternion, state.joint_positions)
    then = step.body.feet_in_world(before.base_position, before.base_quaternion, before.joint_positions)
    speed = norm((now - then)[..., :2]) / step.policy_step
    touching = as_number(step.touching[:, step.feet], speed)
    return step.body.legs * array_namespace(speed).sum(speed * touching, axis=-1)


def _joint_acceleration(step: StandStep) -> Any:
    return step.joint_norm(step.state.joint_velocities - step.before.joint_velocities) / step.policy_step


def _joint_velocity(step: StandStep) -> Any:
    return step.joint_norm(step.state.joint_velocities)


def _excess(step: StandStep, shares: Any, most: float) -> Any:
    """Squares of what exceeds a share, over Spot's joints."""
    over = shares - most
    return step.over_joints(array_namespace(over).where(over > 0.0, over, 0.0 * over))


def _torque_excess(step: StandStep) -> Any:
    """Torques beyond 70 % of the joint's limit at its angle."""
    limits = step.body.joints.torque_limits(step.state.joint_positions)
    return _excess(step, abs(step.state.joint_torques) / limits, TORQUE_SHARE)


def _joint_speed_excess(step: StandStep) -> Any:
    """Joint speeds beyond 75 % of what a guard allows in the stance."""
    speeds = step.state.joint_velocities
    limits = constant(step.body.joints.by_joint(JOINT_SPEEDS), speeds)
    return _excess(step, abs(speeds) / limits, SPEED_SHARE)


def too_fast(state: RobotState, holds: Any, looseness: float, body: SpotBody) -> Any:
    """Return which robots have a joint that a guard would soon stop, of the phase that they are in.

    Args:
        state: The robots.
        holds: Which of them are in the stance; the others are on their way to it.
        looseness: Factor on the limits.
        body: The robot's build.
    """
    speeds = abs(state.joint_velocities)
    xp = array_namespace(speeds)
    stance, way = (
        SPEED_STOP * looseness * constant(body.joints.by_joint(ROBOT_LIMITS.envelopes[phase].joint_speed), speeds)
        for phase in ("stance", "transition")
    )
    return xp.any(speeds > xp.where(holds[:, None], stance, way), axis=-1)


def _foot_impact(step: StandStep) -> Any:
    """Ground forces on the feet beyond the robot's weight each, in weights, at most three, summed."""
    forces = step.state.contact_forces[:, list(step.feet)] / (step.body.legs * _WEIGHT) - 1.0
    xp = array_namespace(forces)
    over = xp.where(forces > 0.0, forces, 0.0 * forces)
    return step.body.legs * xp.sum(xp.where(over < _LARGEST_IMPACT, over, 0.0 * over + _LARGEST_IMPACT), axis=-1)


REWARD_TERMS: dict[str, Callable[[StandStep], Any]] = {
    "orientation": _orientation,
    "height": _height,
    "lifted_feet_contact": _lifted_feet_contact,
    "linear_velocity": _linear_velocity,
    "angular_velocity": _angular_velocity,
    "torque": _torque,
    "action_rate": _action_rate,
    "fall": _fall,
    "stance": _stance,
    "single_support": _single_support,
    "support_feet_in_air": _support_feet_in_air,
    "foot_slip": _foot_slip,
    "joint_acceleration": _joint_acceleration,
    "joint_velocity": _joint_velocity,
    "torque_excess": _torque_excess,
    "joint_speed_excess": _joint_speed_excess,
    "foot_impact": _foot_impact,
}
"""Every term by name; a preset names those that it uses."""
