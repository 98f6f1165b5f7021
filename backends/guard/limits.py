"""The numbers of the guard."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final

from adc_wrappers.core.errors import BackendError, did_you_mean

from .phases import PHASES

__all__ = ["LIMITS", "PRACTICE_LIMITS", "ROBOT_LIMITS", "Envelope", "GuardLimits", "find_limits"]


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """How the body may be turned and move in one phase of a stand."""

    lean: tuple[float, float]
    """Least and largest lean in the plane of symmetry, degrees: 0 level, 90 in the stance."""

    side: float
    """Largest turn onto a side, degrees."""

    speed: float
    """Largest speed of the body's origin, m/s."""

    turn_rate: float
    """Largest angular speed of the body, rad/s."""

    height: float
    """Least height of the body's origin above the ground, m."""

    def __post_init__(self) -> None:
        numbers = (*self.lean, self.side, self.speed, self.turn_rate, self.height)
        if not all(math.isfinite(value) for value in numbers) or self.lean[0] >= self.lean[1]:
            raise BackendError(f"envelope: expected finite numbers and lean as (least, largest), got {self}.")
        for name in ("side", "speed", "turn_rate"):
            if getattr(self, name) <= 0.0:
                raise BackendError(f"envelope {name}: expected a positive number, got {getattr(self, name)}.")


@dataclass(frozen=True, kw_only=True)
class GuardLimits:
    """What a robot may be asked to do, and what it may be seen to do. A breach stops the policy; nothing is clipped."""

    beyond_stop: float
    """How far a joint target may lie beyond the joint's mechanical range, rad."""

    slew: float
    """Largest change of a joint target between two policy steps, rad."""

    torque_share: float
    """Largest predicted torque ``|K (q_d − q) − B q̇ + feed-forward|`` as a share of the joint's limit at its angle."""

    joint_speed: float
    """Largest joint speed, rad/s; also sent to the robot as its ``velocity_safety_limit``."""

    state_age: float
    """Largest age of the state that an action comes from, s."""

    policy_age: float
    """Longest time without a new action, s."""

    echo_lag: float
    """Longest time for which a sent command may stay unacknowledged in the state stream, s."""

    battery: float
    """Least battery charge, percent."""

    envelopes: Mapping[str, Envelope] = field(hash=False)
    """By phase: ``takeover``, ``transition``, ``stance``."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name != "envelopes" and not (math.isfinite(value) and value >= 0.0):
                raise BackendError(f"guard {entry.name}: expected a number that is not negative, got {value}.")
        if set(self.envelopes) != set(PHASES):
            raise BackendError(f"guard envelopes: expected one for each of {PHASES}, got {sorted(self.envelopes)}.")
        object.__setattr__(self, "envelopes", MappingProxyType(dict(self.envelopes)))


_TAKEOVER: Final = Envelope(lean=(-10.0, 10.0), side=10.0, speed=0.5, turn_rate=1.5, height=0.25)

ROBOT_LIMITS: Final = GuardLimits(
    beyond_stop=0.0,
    slew=0.35,
    torque_share=1.0,
    joint_speed=20.0,
    state_age=0.03,
    policy_age=0.05,
    echo_lag=0.03,
    battery=20.0,
    envelopes={
        "takeover": _TAKEOVER,
        "transition": Envelope(lean=(-20.0, 115.0), side=25.0, speed=2.5, turn_rate=8.0, height=0.2),
        "stance": Envelope(lean=(40.0, 115.0), side=25.0, speed=1.5, turn_rate=5.0, height=0.3),
    },
)
"""For a real robot: targets inside the joints' range, torques inside their limits, no jumps. No robot was here to try
them on: they are a first day's numbers, to be tightened before they are widened."""

PRACTICE_LIMITS: Final = GuardLimits(
    beyond_stop=0.6,
    slew=2.5,
    torque_share=3.5,
    joint_speed=50.0,
    state_age=0.25,
    policy_age=0.5,
    echo_lag=0.25,
    battery=10.0,
    envelopes={
        "takeover": Envelope(lean=(-25.0, 25.0), side=20.0, speed=1.5, turn_rate=4.0, height=0.15),
        "transition": Envelope(lean=(-40.0, 125.0), side=35.0, speed=4.0, turn_rate=12.0, height=0.15),
        "stance": Envelope(lean=(30.0, 125.0), side=35.0, speed=3.0, turn_rate=10.0, height=0.2),
    },
)
"""For a simulated robot: wide enough for policies that were trained without any of these limits, and for the slack of a
shared computer's clock. Not for hardware."""

LIMITS: Final = {"robot": ROBOT_LIMITS, "practice": PRACTICE_LIMITS}


def find_limits(name: str) -> GuardLimits:
    """Return ``"robot"`` or ``"practice"`` limits."""
    if name not in LIMITS:
        raise BackendError(f"unknown guard limits {name!r}. {did_you_mean(name, LIMITS)}")
    return LIMITS[name]
