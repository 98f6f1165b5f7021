"""Observation, reward, termination and success of the two-legged stances, as functions of a state.

Every function takes arrays of numpy or torch and returns arrays of the same kind, so that one definition serves every
simulator and the robot. Distances are Euclidean; a name with ``_squared`` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

from adc_wrappers.backends.base import RobotState

from .body import SPATIAL, SpotBody
from .namespaces import array_namespace, constant

__all__ = [
    "CONTACT_FORCE",
    "STANCE_TILT",
    "any_contact",
    "gravity_error",
    "in_stance",
    "norm",
    "observation",
    "only_contact",
    "square_sum",
    "tilt",
]

STANCE_TILT = 20.0 * pi / 180.0
"""Largest angle from the wanted orientation in which a robot counts as in the stance, rad."""

CONTACT_FORCE = 1.0
"""Ground force above which a link counts as touching, N (the authors' code)."""


def square_sum(values: Any) -> Any:
    """Sum of squares over the last axis."""
    return array_namespace(values).sum(values * values, axis=-1)


def norm(values: Any) -> Any:
    """Euclidean length over the last axis."""
    return array_namespace(values).sqrt(square_sum(values))


def observation(state: RobotState, nominal_pose: Any, last_action: Any, body: SpotBody = SPATIAL) -> Any:
    """What the policy sees: base velocities, gravity, joint positions and velocities, last action.

    45 numbers of Spot in space, 17 of Spot in its plane, where velocities and gravity have no other parts.
    """
    parts = (
        _along(state.base_linear_velocity, body.linear_axes),
        _along(state.base_angular_velocity, body.angular_axes),
        _along(state.projected_gravity, body.linear_axes),
        state.joint_positions - nominal_pose,
        state.joint_velocities,
        last_action,
    )
    return array_namespace(state.joint_positions).concat(parts, axis=-1)


def _along(vectors: Any, axes: Sequence[int]) -> Any:
    return vectors if len(axes) == vectors.shape[-1] else vectors[:, list(axes)]


def gravity_error(state: RobotState, target: Sequence[float]) -> Any:
    """Distance between the direction of gravity in the body frame and the wanted one: 0 there, 2 upside down."""
    return norm(state.projected_gravity - constant(target, state.projected_gravity))


def tilt(state: RobotState, target: Sequence[float]) -> Any:
    """Angle between the direction of gravity in the body frame and the wanted one, rad."""
    xp = array_namespace(state.projected_gravity)
    # from the chord: exact near 0, where the cosine loses digits
    half = 0.5 * gravity_error(state, target)
    return 2.0 * xp.asin(xp.where(half > 1.0, xp.ones_like(half), half))


def any_contact(state: RobotState, links: Sequence[int]) -> Any:
    """Whether any of the links touches the ground."""
    forces = state.contact_forces[:, list(links)]
    return array_namespace(forces).any(forces > CONTACT_FORCE, axis=-1)


def only_contact(state: RobotState, links: Sequence[int]) -> Any:
    """Whether nothing but these links touches the ground, and at least one of them does."""
    touching = state.contact_forces > CONTACT_FORCE
    xp = array_namespace(touching)
    inside = xp.sum(touching[:, list(links)], axis=-1, dtype=xp.int64)
    return (inside > 0) & (xp.sum(touching, axis=-1, dtype=xp.int64) == inside)


def in_stance(state: RobotState, gravity: Sequence[float], support: Sequence[int], body: SpotBody = SPATIAL) -> Any:
    """Whether a robot is within 20° of the wanted orientation with nothing but the supporting feet on the ground.

    At least one of them must touch it. Not so in the plane, where both feet of a pair are one: a robot that takes a
    step there has none on the ground, where in space it keeps the other.
    """
    upright = tilt(state, gravity) < STANCE_TILT
    if not body.robot.planar:
        return upright & only_contact(state, support)
    others = [link for link in range(state.contact_forces.shape[-1]) if link not in support]
    return upright & ~any_contact(state, others)
