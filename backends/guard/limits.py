"""The numbers of the guard."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from adc_wrappers.core.errors import BackendError, did_you_mean

__all__ = [
    "LIMITS",
    "PHASES",
    "PRACTICE_LIMITS",
    "ROBOT_LIMITS",
    "ByKind",
    "Envelope",
    "GuardLimits",
    "by_kind",
    "find_limits",
]

PHASES: Final = ("takeover", "transition", "stance")


class ByKind(NamedTuple):
    """One number for each kind of joint: hips and knees have other levers, loads and ranges."""

    hx: float
    """Hips sideways."""

    hy: float
    """Hips in the plane of symmetry."""

    kn: float
    """Knees."""


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """Bounds of one phase: how the body may turn and move, how fast and far from their targets joints may be."""

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

    joint_speed: ByKind
    """Largest measured joint speed, rad/s; one number means all joints."""

    reach: ByKind
    """Largest distance of a target from the measured joint position, rad; one number means all joints."""

    def __post_init__(self) -> None:
        numbers = (*self.lean, self.side, self.speed, self.turn_rate, self.height)
        if not all(math.isfinite(value) for value in numbers) or self.lean[0] >= self.lean[1]:
            raise BackendError(f"envelope: expected finite numbers and lean as (least, largest), got {self}.")
        for name in ("side", "speed", "turn_rate"):
            if getattr(self, name) <= 0.0:
                raise BackendError(f"envelope {name}: expected a positive number, got {getattr(self, name)}.")
        by_kind(self, "envelope", ("joint_speed", "reach"))


@dataclass(frozen=True, kw_only=True)
class GuardLimits:
    """Limits of what a robot may be asked and seen to do. A breach stops the policy; nothing is clipped."""

    beyond_stop: float
    """How far a joint target may lie beyond the joint's mechanical range, rad."""

    beyond_range: float
    """How far a measured joint position may lie beyond it, rad: a joint that is farther out is bent, or mismeasured."""

    slew: ByKind
    """Largest change of a joint target between two policy steps, rad; one number means all joints."""

    slew_change: ByKind
    """Largest change of that change from one policy step to the next, rad: the target's acceleration. At 50 Hz 0.1 rad
    are 250 rad/s². One number means all joints."""

    torque_share: float
    """Largest predicted torque ``|K (q_d − q) − B q̇ + feed-forward|`` as a share of the joint's limit at its angle."""

    measured_torque_share: float
    """Largest measured torque as a share of it: a joint that bears more than it can give is hit, jammed or
    mismeasured."""

    state_age: float
    """Largest age of the state that an action comes from, s."""

    policy_age: float
    """Longest time without a new action, s."""

    echo_lag: float
    """Longest time for which a sent command may stay unacknowledged in the state stream, s."""

    battery: float
    """Least battery charge, percent. A robot that does not report its charge is not driven."""

    motor_temperature: float | None
    """Largest temperature of a leg motor, °C; a robot that does not report all twelve is not driven. None does not
    ask."""

    battery_temperature: float | None
    """Largest temperature inside a battery, °C, likewise. None does not ask."""

    envelopes: Mapping[str, Envelope] = field(hash=False)
    """By phase: ``takeover``, ``transition``, ``stance``."""

    def __post_init__(self) -> None:
        by_kind(self, "guard", ("slew", "slew_change"))
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name == "envelopes" or isinstance(value, ByKind):
                continue
            if value is None and entry.name in ("motor_temperature", "battery_temperature"):
                continue
            if not (math.isfinite(value) and value >= 0.0):
                raise BackendError(f"guard {entry.name}: expected a number that is not negative, got {value}.")
        if set(self.envelopes) != set(PHASES):
            raise BackendError(f"guard envelopes: expected one for each of {PHASES}, got {sorted(self.envelopes)}.")
        object.__setattr__(self, "envelopes", MappingProxyType(dict(self.envelopes)))

    @property
    def velocity_safety_limit(self) -> float:
        """Joint speed beyond which the robot stops by itself, rad/s: the message has one number for all joints.

        It is the largest that any joint may have in any phase. The least would fault the robot where a knee does what
        it may; what is asked of each joint in each phase is judged here, from the states.
        """
        return max(max(envelope.joint_speed) for envelope in self.envelopes.values())

    def in_every_phase(self, **changes: Any) -> GuardLimits:
        """Return the same limits with fields of every phase's envelope changed.

        >>> ROBOT_LIMITS.in_every_phase(joint_speed=2.0).velocity_safety_limit
        2.0
        """
        envelopes = {name: dataclasses.replace(item, **changes) for name, item in self.envelopes.items()}
        return dataclasses.replace(self, envelopes=envelopes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for recordings."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "envelopes"}
        envelopes = {
            name: _plain({entry.name: getattr(item, entry.name) for entry in fields(item)})
            for name, item in self.envelopes.items()
        }
        return {**_plain(values), "envelopes": envelopes}

    @property
    def name(self) -> str:
        """``robot``, ``practice``, or ``own`` with a mark that tells one set of numbers from another.

        >>> ROBOT_LIMITS.name, dataclasses.replace(ROBOT_LIMITS, battery=50.0).name[:3]
        ('robot', 'own')
        """
        for name, limits in LIMITS.items():
            if limits.to_dict() == self.to_dict():
                return name
        text = json.dumps(self.to_dict(), sort_keys=True)
        return f"own {hashlib.sha256(text.encode()).hexdigest()[:6]}"


def by_kind(owner: Any, what: str, names: tuple[str, ...]) -> None:
    """Turn one number, or three, into positive numbers by kind of joint, in the named fields of a frozen dataclass."""
    for name in names:
        value = getattr(owner, name)
        numbers = (value,) * 3 if isinstance(value, (int, float)) else tuple(value)
        if len(numbers) != 3 or not all(math.isfinite(number) and number > 0.0 for number in numbers):
            raise BackendError(
                f"{what} {name}: expected one positive number, or three: hx, hy and kn (ByKind); got {value}."
            )
        object.__setattr__(owner, name, ByKind(*map(float, numbers)))


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value._asdict() if isinstance(value, ByKind) else list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
    }


ROBOT_LIMITS: Final = GuardLimits(
    beyond_stop=0.0,
    beyond_range=0.05,
    slew=ByKind(hx=0.3, hy=0.3, kn=0.35),
    slew_change=ByKind(hx=0.45, hy=0.45, kn=0.5),
    torque_share=1.0,
    measured_torque_share=1.1,
    state_age=0.03,
    policy_age=0.05,
    echo_lag=0.03,
    battery=20.0,
    motor_temperature=70.0,
    battery_temperature=55.0,
    envelopes={
        "takeover": Envelope(
            lean=(-10.0, 10.0), side=10.0, speed=0.5, turn_rate=1.5, height=0.25,
            joint_speed=ByKind(hx=4.0, hy=4.0, kn=8.0), reach=ByKind(hx=1.0, hy=1.0, kn=1.0),
        ),
        "transition": Envelope(
            lean=(-20.0, 115.0), side=25.0, speed=2.5, turn_rate=8.0, height=0.2,
            joint_speed=ByKind(hx=8.0, hy=12.0, kn=16.0), reach=ByKind(hx=1.0, hy=1.2, kn=1.6),
        ),
        "stance": Envelope(
            lean=(40.0, 115.0), side=25.0, speed=1.5, turn_rate=5.0, height=0.3,
            joint_speed=ByKind(hx=8.0, hy=12.0, kn=12.0), reach=ByKind(hx=1.0, hy=1.2, kn=1.6),
        ),
    },
)  # fmt: skip
"""For a real robot: targets inside the joints' range, torques inside their limits, no jumps. No robot was here to try
them on: they are a first day's numbers, to be tightened before they are widened. Joint speeds of the take-over are
those that others have published for a standing robot (4 rad/s for hips, 8 for knees); a robot that throws its hind legs
over its front feet needs more, but the hips sideways need not, and one that balances on them has to step: its hips may
be as fast as on the way. The only ratings that are published are 17.6 rad/s for hips and 12 for knees. The take-over's
reach is the largest that was published, 1.0 rad: joints of 40 N·m/rad bear a standing robot 0.8 rad from their targets.
Afterwards a hip that bears its 45 N·m is 1.1 rad away. Where gains are larger, the predicted torque stops first.
Temperatures: Boston Dynamics publishes no limits for motors and cells; the robot has its own, these stop before."""

PRACTICE_LIMITS: Final = GuardLimits(
    beyond_stop=0.6,
    beyond_range=0.3,
    slew=ByKind(hx=2.5, hy=2.5, kn=2.5),
    slew_change=ByKind(hx=5.0, hy=5.0, kn=5.0),
    torque_share=3.5,
    measured_torque_share=1.5,
    state_age=0.25,
    policy_age=0.5,
    echo_lag=0.25,
    battery=10.0,
    motor_temperature=80.0,
    battery_temperature=60.0,
    envelopes={
        "takeover": Envelope(
            lean=(-25.0, 25.0), side=20.0, speed=1.5, turn_rate=4.0, height=0.15, joint_speed=ByKind(50.0, 50.0, 50.0),
            reach=ByKind(2.5, 2.5, 2.5),
        ),
        "transition": Envelope(
            lean=(-40.0, 125.0), side=35.0, speed=4.0, turn_rate=12.0, height=0.15,
            joint_speed=ByKind(50.0, 50.0, 50.0), reach=ByKind(2.5, 3.0, 3.0),
        ),
        "stance": Envelope(
            lean=(30.0, 125.0), side=35.0, speed=3.0, turn_rate=10.0, height=0.2,
            joint_speed=ByKind(50.0, 50.0, 50.0), reach=ByKind(2.5, 3.0, 3.0),
        ),
    },
)  # fmt: skip
"""For a simulated robot: wide enough for policies that were trained without any of these limits, and for the slack of a
shared computer's clock. Not for hardware."""

LIMITS: Final = {"robot": ROBOT_LIMITS, "practice": PRACTICE_LIMITS}


def find_limits(name: str) -> GuardLimits:
    """Return ``"robot"`` or ``"practice"`` limits."""
    if name not in LIMITS:
        raise BackendError(f"unknown guard limits {name!r}. {did_you_mean(name, LIMITS)}")
    return LIMITS[name]
