"""Observation, termination and success of the two-legged stances, as functions of a state in numpy or torch.

Every function takes arrays of numpy or torch and returns arrays of the same kind, so that one definition serves every
simulator and the robot. Distances are Euclidean; a name with ``_squared`` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi
from typing import Any

from adc_wrappers.backends.array_kinds import any_last, sum_last
from adc_wrappers.backends.base import RobotState

from .body import SPATIAL, SpotBody, array_namespace, constant

__all__ = [
    "CONTACT_FORCE",
    "HANDSTAND",
    "HINDSTAND",
    "STANCE_TILT",
    "Stance",
    "any_contact",
    "any_touching",
    "gravity_error",
    "in_stance",
    "norm",
    "observation",
    "only_contact",
    "square_sum",
    "tilt",
    "touching_links",
]


@dataclass(frozen=True, kw_only=True)
class Stance:
    """A stance on two of Spot's feet."""

    name: str
    """What it is called."""

    gravity: tuple[float, float, float]
    """Direction of gravity in the body frame. Nose down is (+1, 0, 0), tail down is (−1, 0, 0)."""

    support_feet: tuple[str, str]
    """Feet that carry the robot."""

    lifted_feet: tuple[str, str]
    """Feet that must not touch the ground."""

    height: float = 0.75
    """Wanted height of the body's origin, m (the authors' code; the paper does not say)."""


HANDSTAND = Stance(
    name="handstand",
    gravity=(1.0, 0.0, 0.0),
    support_feet=("fl_foot", "fr_foot"),
    lifted_feet=("hl_foot", "hr_foot"),
)
"""The paper's: nose down on the front feet."""

HINDSTAND = Stance(
    name="hind-leg stand",
    gravity=(-1.0, 0.0, 0.0),
    support_feet=("hl_foot", "hr_foot"),
    lifted_feet=("fl_foot", "fr_foot"),
)
"""Its mirror: nose up on the hind feet."""


STANCE_TILT = 20.0 * pi / 180.0
"""Largest angle from the wanted orientation in which a robot counts as in the stance, rad."""

CONTACT_FORCE = 1.0
"""Ground force above which a link counts as touching, N (the authors' code)."""


def square_sum(values: Any) -> Any:
    """Sum of squares over the last axis."""
    return sum_last(values * values)


def norm(values: Any) -> Any:
    """Euclidean length over the last axis."""
    return array_namespace(values).sqrt(square_sum(values))


def observation(
    state: RobotState, nominal_pose: Any, last_action: Any, body: SpotBody = SPATIAL, *, velocity: bool = True
) -> Any:
    """What the policy sees: base velocities, gravity, joint positions and velocities, last action.

    45 numbers of Spot in space, 17 of Spot in its plane, where velocities and gravity have no other parts; fewer by the
    linear velocity's where that is left out.
    """
    parts = (
        *((_along(state.base_linear_velocity, body.linear_axes),) if velocity else ()),
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


def touching_links(state: RobotState) -> Any:
    """Which links touch the ground, ``(n, links)``."""
    return state.contact_forces > CONTACT_FORCE


def any_touching(touching: Any, links: Sequence[int]) -> Any:
    """Whether any of the links is among those that touch the ground."""
    return any_last(touching[:, links])


def any_contact(state: RobotState, links: Sequence[int]) -> Any:
    """Whether any of the links touches the ground."""
    return any_touching(touching_links(state), links)


def only_contact(state: RobotState, links: Sequence[int]) -> Any:
    """Whether nothing but these links touches the ground, and at least one of them does."""
    return _only_touching(touching_links(state), links)


def _only_touching(touching: Any, links: Sequence[int]) -> Any:
    inside = sum_last(touching[:, links])
    return (inside > 0) & (sum_last(touching) == inside)


def in_stance(
    state: RobotState,
    gravity: Sequence[float],
    support: Sequence[int],
    body: SpotBody = SPATIAL,
    touching: Any = None,
) -> Any:
    """Whether a robot is within 20° of the wanted orientation with nothing but the supporting feet on the ground.

    At least one of them must touch it. Not so in the plane, where both feet of a pair are one: a robot that takes a
    step there has none on the ground, where in space it keeps the other.

    Args:
        state: The robots.
        gravity: Direction of gravity in the body frame that is wanted.
        support: The supporting feet.
        body: The robot's build.
        touching: Its :func:`touching_links`, if they are known.
    """
    upright = tilt(state, gravity) < STANCE_TILT
    touching = touching_links(state) if touching is None else touching
    if not body.robot.planar:
        return upright & _only_touching(touching, support)
    others = [link for link in range(touching.shape[-1]) if link not in support]
    return upright & ~any_touching(touching, others)
