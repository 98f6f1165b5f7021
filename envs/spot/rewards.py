"""Reward terms of the two-legged stances, before their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from adc_wrappers.backends.base import RobotState

from .body import SPATIAL, SpotBody
from .namespaces import array_namespace
from .terms import CONTACT_FORCE, any_contact, gravity_error, in_stance, norm, square_sum

__all__ = ["REWARD_TERMS", "RewardInputs", "reward_terms"]


class RewardInputs(NamedTuple):
    """What a reward needs to know of the moment before the step."""

    action: Any
    joint_velocities: Any
    base_position: Any
    base_quaternion: Any
    joint_positions: Any


@dataclass(frozen=True, kw_only=True)
class _Step:
    state: RobotState
    before: RewardInputs
    action: Any
    fallen: Any
    gravity: Sequence[float]
    height: float
    lifted: Sequence[int]
    support: Sequence[int]
    feet: Sequence[int]
    angular_axes: Sequence[int]
    policy_step: float
    body: SpotBody = SPATIAL

    def over_joints(self, values: Any) -> Any:
        """Sum of squares over Spot's joints; a planar joint stands for two of them."""
        total = square_sum(values)
        return total if self.body.legs == 1 else self.body.legs * total

    def joint_norm(self, values: Any) -> Any:
        """Euclidean length over Spot's joints."""
        return array_namespace(values).sqrt(self.over_joints(values))


def _as_number(mask: Any, like: Any) -> Any:
    return array_namespace(mask, like).astype(mask, like.dtype)


def _orientation(step: _Step) -> Any:
    return gravity_error(step.state, step.gravity)


def _height(step: _Step) -> Any:
    return (step.state.base_position[:, 2] - step.height) ** 2


def _lifted_feet_contact(step: _Step) -> Any:
    return _as_number(any_contact(step.state, step.lifted), step.action)


def _linear_velocity(step: _Step) -> Any:
    return square_sum(step.state.base_linear_velocity)


def _angular_velocity(step: _Step) -> Any:
    return square_sum(step.state.base_angular_velocity[:, list(step.angular_axes)])


def _torque(step: _Step) -> Any:
    return step.joint_norm(step.state.joint_torques)


def _action_rate(step: _Step) -> Any:
    return step.over_joints(step.action - step.before.action)


def _fall(step: _Step) -> Any:
    return _as_number(step.fallen, step.action)


def _stance(step: _Step) -> Any:
    return _as_number(in_stance(step.state, step.gravity, step.support, step.body), step.action)


def _support_feet_in_air(step: _Step) -> Any:
    return _as_number(~any_contact(step.state, step.support), step.action)


def _foot_slip(step: _Step) -> Any:
    """Horizontal speed of the feet that touch the ground, averaged over the step and summed."""
    state, before = step.state, step.before
    now = step.body.feet_in_world(state.base_position, state.base_quaternion, state.joint_positions)
    then = step.body.feet_in_world(before.base_position, before.base_quaternion, before.joint_positions)
    speed = norm((now - then)[..., :2]) / step.policy_step
    touching = _as_number(state.contact_forces[:, list(step.feet)] > CONTACT_FORCE, speed)
    return step.body.legs * array_namespace(speed).sum(speed * touching, axis=-1)


def _joint_acceleration(step: _Step) -> Any:
    return step.joint_norm(step.state.joint_velocities - step.before.joint_velocities) / step.policy_step


def _joint_velocity(step: _Step) -> Any:
    return step.joint_norm(step.state.joint_velocities)


REWARD_TERMS: dict[str, Callable[[_Step], Any]] = {
    "orientation": _orientation,
    "height": _height,
    "lifted_feet_contact": _lifted_feet_contact,
    "linear_velocity": _linear_velocity,
    "angular_velocity": _angular_velocity,
    "torque": _torque,
    "action_rate": _action_rate,
    "fall": _fall,
    "stance": _stance,
    "support_feet_in_air": _support_feet_in_air,
    "foot_slip": _foot_slip,
    "joint_acceleration": _joint_acceleration,
    "joint_velocity": _joint_velocity,
}
"""Every term by name; a preset names those that it uses."""


def reward_terms(names: Any, state: RobotState, **inputs: Any) -> dict[str, Any]:
    """Return the named terms of one step, without weights, each of shape ``(n,)``.

    Args:
        names: Names of terms, or a mapping whose keys are.
        state: The state after the step.
        **inputs: The fields of the step: ``before``, ``action``, ``fallen``, ``gravity``, ``height``, ``lifted``,
            ``support``, ``feet``, ``angular_axes``, ``policy_step``, ``body``.
    """
    step = _Step(state=state, **inputs)
    return {name: REWARD_TERMS[name](step) for name in names}
