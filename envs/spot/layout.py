"""The layout of Spot's observation, in words."""

from __future__ import annotations

from collections.abc import Sequence

from adc_wrappers.envs.deployment import ObservationPart

from .body import SpotBody

__all__ = ["observation_layout"]


def observation_layout(joints: int, body: SpotBody) -> tuple[ObservationPart, ...]:
    """Return the parts of what :func:`adc_wrappers.envs.spot.terms.observation` concatenates, in its order."""
    return (
        ObservationPart(
            name="base_linear_velocity",
            size=len(body.linear_axes),
            unit="m/s",
            meaning=f"of the base link's origin, in the base frame{_named(body, body.linear_axes)}",
        ),
        ObservationPart(
            name="base_angular_velocity",
            size=len(body.angular_axes),
            unit="rad/s",
            meaning=f"in the base frame{_named(body, body.angular_axes)}",
        ),
        ObservationPart(
            name="projected_gravity",
            size=len(body.linear_axes),
            meaning=f"unit vector of gravity in the base frame, (0, 0, -1) when level{_named(body, body.linear_axes)}",
        ),
        ObservationPart(
            name="joint_position_offset", size=joints, unit="rad", meaning="joint positions less the nominal pose"
        ),
        ObservationPart(name="joint_velocity", size=joints, unit="rad/s"),
        ObservationPart(
            name="last_action", size=joints, meaning="the action before this one, clipped; zero at the start"
        ),
    )


def _named(body: SpotBody, axes: Sequence[int]) -> str:
    return f" ({', '.join('xyz'[axis] for axis in axes)})" if body.robot.planar else ""
