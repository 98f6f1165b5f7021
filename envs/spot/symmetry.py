"""Spot in a mirror: left legs for right ones, and the sizes of what it observes."""

from __future__ import annotations

from collections.abc import Sequence

from adc_wrappers.envs.mirror import Mirror

from .body import SpotBody

__all__ = ["observation_scale", "spot_mirror"]

_POLAR = ((0, 1, 2), (1.0, -1.0, 1.0))
"""A velocity or a direction, mirrored at the plane between left and right."""

_AXIAL = ((0, 1, 2), (-1.0, 1.0, -1.0))
"""A turning rate, mirrored there."""

_SIDES = {"l": "r", "r": "l"}


def spot_mirror(joint_names: Sequence[str]) -> Mirror:
    """Return the mirror of the 45 observations and 12 actions, for joints named ``fl_hx`` and so on."""
    names = list(joint_names)
    index = [names.index(name[0] + _SIDES[name[1]] + name[2:]) for name in names]
    sign = [-1.0 if name.endswith("_hx") else 1.0 for name in names]
    joints = (index, sign)
    return Mirror.of_parts([_POLAR, _AXIAL, _POLAR, joints, joints, joints], action=5)


def observation_scale(joints: int, body: SpotBody) -> tuple[float, ...]:
    """Return factors for base velocities, gravity, joint positions, joint velocities and last action."""
    linear, angular = len(body.linear_axes), len(body.angular_axes)
    base = (*(1.0,) * linear, *(0.25,) * angular, *(1.0,) * linear)
    return (*base, *(1.0,) * joints, *(0.05,) * joints, *(1.0,) * joints)
