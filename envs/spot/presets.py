"""Presets of the two-legged stances: the paper's tables, its authors' code, the CPU recipe, and what a robot needs.

Where the paper is silent (target height, the form of a term, scaling by dt) its authors' code decides, except for α:
the paper clips actions to [−1, 1], and with clipped actions the code's α of 0.2 cannot hold a handstand at all (see
``adc feasible``), so it is 0.9.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from adc_wrappers.core.errors import CurriculumError, did_you_mean

__all__ = ["LINEAR_VELOCITIES", "PRESETS", "LinearVelocity", "SpotPreset", "find_preset"]

LinearVelocity = Literal["measured", "estimated", "none"]
LINEAR_VELOCITIES: Final = ("measured", "estimated", "none")


@dataclass(frozen=True, kw_only=True)
class SpotPreset:
    """The numbers about which the paper's tables and the authors' code disagree."""

    weights: dict[str, float]
    """Weight of each reward term, before scaling by dt; the term ``fall`` is paid once, when an episode terminates."""

    action_scale: float
    """α: joint targets are ``q_0 + α clip(a)``, rad."""

    action_limit: float
    """Actions are clipped to ± this."""

    fall_links: tuple[str, ...]
    """Ends of the names of links that must not touch the ground."""

    angular_axes: tuple[int, ...]
    """Axes of the base's angular velocity that cost."""

    push_axes: tuple[int, ...]
    """World axes along which the robot is pushed."""

    more_kinds: tuple[str, ...] = ()
    """What is randomized beside the paper's kinds, of :data:`~.randomization.KINDS`."""

    late_fall: float | None = None
    """Weight that the term ``fall`` eases to once the stance is found, before scaling; None keeps it as it is."""

    late_weights: dict[str, float] = field(default_factory=dict)
    """Weights that other terms come to once the stance is common, before scaling, see :class:`~.easing.FallCost`."""

    limiter: str | None = None
    """Name of the command limiter between targets and joints, of :data:`adc_wrappers.backends.limiter.LIMITERS`."""

    linear_velocity: LinearVelocity = "measured"
    """How the base's linear velocity is observed, see :class:`~.sensing.SpotSensing`."""

    moments: int = 1
    """How many moments a policy sees: the present, and those before it."""

    eases_in: bool = False
    """Whether noise, latency, command limits and some costs grow in training, see :class:`~.easing.Strictness`."""

    growing_costs: tuple[str, ...] = ()
    """Terms whose weights grow with them."""

    speed_stop: bool = False
    """Whether a joint that is too fast for a robot's guard ends an episode of training, as a fall does."""

    scale_by_dt: bool = True
    """Multiply every term, the fall too, by the policy step (0.02 s), as Isaac Lab does. The returns that the paper
    reports (−4.8 over 1000 steps) are of this size. A fall then costs 10, which is less than the discounted cost of
    standing on four feet: raise ``fall_cost`` if the robot learns to fall at once."""


_SHARED = {
    "orientation": -1.0,
    "height": -0.5,
    "lifted_feet_contact": -10.0,
    "linear_velocity": -0.01,
    "angular_velocity": -0.05,
    "torque": -5e-4,
    "action_rate": -0.01,
    "fall": -500.0,
}

_CPU = {
    **_SHARED,
    "orientation": -5.0,
    "lifted_feet_contact": -5.0,
    "angular_velocity": -0.02,
    "stance": 2.0,
    "fall": -1250.0,
}

_STEPPING = {
    **_CPU,
    "single_support": 1.0,  # balance by steps: standing still does not hold a handstand
    "support_feet_in_air": -5.0,  # a hop balances, too, but it is no stance
}

_NO_HOPS = {"support_feet_in_air": -25.0}
"""From the start it would keep robots from rising."""

PRESETS: dict[str, SpotPreset] = {
    "paper": SpotPreset(
        weights=_SHARED,
        action_scale=0.9,
        action_limit=1.0,
        fall_links=("body", "uleg"),
        angular_axes=(0, 1, 2),
        push_axes=(0, 1),
    ),
    "authors": SpotPreset(
        weights={
            **_SHARED,
            "support_feet_in_air": -0.1,
            "foot_slip": -0.5,
            "joint_acceleration": -1e-4,
            "joint_velocity": -1e-2,
        },
        action_scale=0.2,
        action_limit=100.0,  # 20 rad: no limit in effect, but a bounded space, which Stable-Baselines3 demands
        fall_links=("body", "uleg", "lleg"),
        angular_axes=(0, 2),
        push_axes=(1, 2),
        more_kinds=("delay",),
    ),
    "cpu": SpotPreset(
        weights=_CPU,
        late_fall=-500.0,
        action_scale=1.2,
        action_limit=1.0,
        fall_links=("body", "hip", "uleg"),  # as its policies were trained; the paper names no hips
        angular_axes=(0, 1, 2),
        push_axes=(0, 1),
    ),
    "stepping": SpotPreset(
        weights=_STEPPING,
        late_fall=-500.0,
        late_weights=_NO_HOPS,
        action_scale=1.6,
        action_limit=1.0,
        fall_links=("body", "hip", "uleg"),
        angular_axes=(0, 1, 2),
        push_axes=(0, 1),
    ),
    "robot": SpotPreset(
        weights={
            **_STEPPING,
            "action_rate": -0.5,
            "torque_excess": -1.0,
            "joint_speed_excess": -1.0,
            "foot_impact": -0.5,
            "foot_slip": -0.5,
        },
        late_fall=-500.0,
        late_weights=_NO_HOPS,
        action_scale=1.7,  # upright at the rewarded height takes 1.36 in the plane, and balance some more
        action_limit=1.0,
        fall_links=("body", "hip", "uleg"),
        angular_axes=(0, 1, 2),
        push_axes=(0, 1),
        more_kinds=("noise", "latency", "gains", "joint_friction", "held"),
        limiter="robot",
        linear_velocity="estimated",
        moments=8,
        eases_in=True,
        growing_costs=(
            "action_rate",
            "torque_excess",
            "joint_speed_excess",
            "foot_impact",
            "foot_slip",
        ),
    ),
}


def find_preset(name: str) -> SpotPreset:
    """Return a preset by name."""
    if name not in PRESETS:
        raise CurriculumError(f"unknown preset {name!r}. {did_you_mean(name, PRESETS)}")
    return PRESETS[name]
