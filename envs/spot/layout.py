"""The layout of Spot's observation, in words."""

from __future__ import annotations

from adc_wrappers.envs.deployment import ObservationPart

__all__ = ["observation_layout"]


def observation_layout(joints: int) -> tuple[ObservationPart, ...]:
    """Return the parts of what :func:`adc_wrappers.envs.spot.terms.observation` concatenates, in its order."""
    return (
        ObservationPart(
            name="base_linear_velocity", size=3, unit="m/s", meaning="of the base link's origin, in the base frame"
        ),
        ObservationPart(name="base_angular_velocity", size=3, unit="rad/s", meaning="in the base frame"),
        ObservationPart(
            name="projected_gravity", size=3, meaning="unit vector of gravity in the base frame, (0, 0, -1) when level"
        ),
        ObservationPart(
            name="joint_position_offset", size=joints, unit="rad", meaning="joint positions less the nominal pose"
        ),
        ObservationPart(name="joint_velocity", size=joints, unit="rad/s"),
        ObservationPart(
            name="last_action", size=joints, meaning="the action before this one, clipped; zero at the start"
        ),
    )
