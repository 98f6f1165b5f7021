"""The faults that can be injected, by name: what they do and which numbers they take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.core.errors import did_you_mean

from .errors import PracticeRobotError

__all__ = ["FAULTS", "FaultKind", "check_fault"]


@dataclass(frozen=True, kw_only=True)
class FaultKind:
    """A fault that the practice robot knows."""

    meaning: str
    """What happens, in a sentence."""

    parameters: Mapping[str, float | str] = field(default_factory=dict)
    """Its parameters with their defaults; durations are seconds of the robot's clock."""

    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What a parameter that is a word may be."""


FAULTS: dict[str, FaultKind] = {
    "state_loss": FaultKind(meaning="states get lost on their way", parameters={"duration": 0.2, "probability": 1.0}),
    "state_delay": FaultKind(
        meaning="states arrive late, with the stamps of their time", parameters={"duration": 1.0, "delay": 0.1}
    ),
    "state_reorder": FaultKind(
        meaning="after every state the one before it arrives once more", parameters={"duration": 1.0}
    ),
    "command_loss": FaultKind(
        meaning="joint commands get lost on their way", parameters={"duration": 0.2, "probability": 1.0}
    ),
    "stream_cut": FaultKind(
        meaning="open streams break off with UNAVAILABLE",
        parameters={"which": "both"},
        choices={"which": ("both", "state", "command")},
    ),
    "lease_theft": FaultKind(meaning="somebody else, the tablet, takes the lease"),
    "estop": FaultKind(
        meaning="somebody presses the E-stop; it stays pressed until estop_release",
        parameters={"level": "cut"},
        choices={"level": ("cut", "settle_then_cut")},
    ),
    "estop_release": FaultKind(meaning="the pressed E-stop is released"),
    "behavior_fault": FaultKind(
        meaning="a behaviour fault: joints go limp until it is cleared",
        parameters={"cause": "hardware"},
        choices={"cause": ("unknown", "fall", "hardware", "lease_timeout")},
    ),
    "fall": FaultKind(meaning="a shove from the side that topples the robot", parameters={"speed": 4.0}),
    "push": FaultKind(meaning="a shove that need not topple it", parameters={"speed": 0.5, "direction": 90.0}),
    "low_battery": FaultKind(meaning="the charge drops", parameters={"charge": 5.0}),
    "missing_charge": FaultKind(meaning="the charge is not reported any more"),
    "hot_motor": FaultKind(
        meaning="a motor is hot", parameters={"joint": "fl_kn", "temperature": 95.0}, choices={"joint": JOINT_NAMES}
    ),
    "hot_battery": FaultKind(meaning="the battery is hot", parameters={"temperature": 70.0}),
    "missing_temperatures": FaultKind(meaning="the motors' temperatures are not reported any more"),
    "unknown_estop": FaultKind(meaning="the robot does not know whether an E-stop is pressed"),
    "warning": FaultKind(meaning="a system fault that is only a warning"),
    "missing_licence": FaultKind(meaning="the licence for joint control is gone, and both streams with it"),
    "clock_jump": FaultKind(meaning="the robot's clock jumps", parameters={"seconds": 1.0}),
    "expired_token": FaultKind(meaning="every login so far is void"),
    "arm_fitted": FaultKind(meaning="an arm is there: 19 joints"),
    "odom_tilt": FaultKind(
        meaning="the odometry frame is tilted against gravity, as after booting on a slope",
        parameters={"degrees": 5.0},
    ),
    "slow_power_off": FaultKind(
        meaning="safe power off takes this much longer, as seen after aborted trials", parameters={"seconds": 12.0}
    ),
}


def check_fault(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fault's parameters, defaults filled in.

    Raises:
        PracticeRobotError: The fault or a parameter is not known, or a value is off.
    """
    if name not in FAULTS:
        raise PracticeRobotError(f"unknown fault {name!r}. {did_you_mean(name, FAULTS)}")
    kind = FAULTS[name]
    for key, value in parameters.items():
        if key not in kind.parameters:
            raise PracticeRobotError(
                f"fault {name!r} takes no {key!r}; it takes {', '.join(kind.parameters) or 'nothing'}."
            )
        if key in kind.choices:
            if value not in kind.choices[key]:
                raise PracticeRobotError(
                    f"fault {name!r}: {key} is one of {', '.join(kind.choices[key])}, not {value!r}."
                )
        elif not isinstance(value, (int, float)) or not math.isfinite(value):
            raise PracticeRobotError(f"fault {name!r}: expected a finite number for {key}, got {value!r}.")
    return {**kind.parameters, **parameters}
