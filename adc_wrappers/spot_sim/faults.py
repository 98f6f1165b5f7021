"""The faults that can be injected, by name, and how they are carried out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.core.errors import did_you_mean

from .authority import StopLevel
from .clock import SECOND
from .condition import Mode
from .robot import SimulatedSpot
from .settings import PracticeRobotError

__all__ = ["FAULTS", "FaultInjector", "FaultKind", "check_fault"]


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


_THIEF = "tablet"


class FaultInjector:
    """An injector of faults, now or later.

    Args:
        robot: The victim.
    """

    def __init__(self, robot: SimulatedSpot) -> None:
        self._robot = robot
        self._planned: list[tuple[int, str, dict[str, Any]]] = []

    def inject(self, name: str, parameters: dict[str, Any], after: float = 0.0) -> None:
        """Inject a fault, now or after so many seconds of the robot's clock.

        Raises:
            PracticeRobotError: The fault or one of its parameters is not known.
        """
        values = check_fault(name, parameters)
        if after > 0.0:
            self._planned.append((self._robot.elapsed + round(after * SECOND), name, values))
        else:
            self._act(name, values)

    @property
    def waiting(self) -> bool:
        """Whether a fault is planned."""
        return bool(self._planned)

    def inject_due(self) -> None:
        """Inject what was planned for now."""
        for plan in [plan for plan in self._planned if plan[0] <= self._robot.elapsed]:
            self._planned.remove(plan)
            self._act(plan[1], plan[2])

    def _act(self, name: str, values: dict[str, Any]) -> None:
        action: Callable[..., None] = getattr(self, f"_{name}")
        action(**values)

    def _until(self, duration: float) -> int:
        return self._robot.elapsed + round(duration * SECOND)

    def _state_loss(self, duration: float, probability: float) -> None:
        self._robot.link.lose(self._until(duration), probability)

    def _state_delay(self, duration: float, delay: float) -> None:
        self._robot.link.delay(self._until(duration), round(delay * SECOND))

    def _state_reorder(self, duration: float) -> None:
        self._robot.link.reorder(self._until(duration))

    def _command_loss(self, duration: float, probability: float) -> None:
        self._robot.joint_mode.lose(self._until(duration), probability)

    def _stream_cut(self, which: str) -> None:
        if which in ("both", "state"):
            self._robot.link.cut()
        if which in ("both", "command"):
            self._robot.joint_mode.break_off()

    def _lease_theft(self) -> None:
        self._robot.lose_lease()
        self._robot.leases.take(_THIEF)

    def _estop(self, level: str) -> None:
        self._robot.estops.pressed = StopLevel[level.upper()]
        self._robot.watch()

    def _estop_release(self) -> None:
        self._robot.estops.pressed = StopLevel.NONE

    def _behavior_fault(self, cause: str) -> None:
        self._robot.raise_fault(cause)

    def _fall(self, speed: float) -> None:
        self._push(speed, 90.0)
        if self._robot.settings.lockstep and self._robot.mode is Mode.STAND:
            self._robot.topple()

    def _push(self, speed: float, direction: float) -> None:
        angle = math.radians(direction)
        self._robot.physics.push(speed * np.array([math.cos(angle), math.sin(angle), 0.0]))

    def _low_battery(self, charge: float) -> None:
        self._robot.battery = charge

    def _missing_charge(self) -> None:
        self._robot.condition.tells_charge = False

    def _hot_motor(self, joint: str, temperature: float) -> None:
        self._robot.condition.motor_temperatures[joint] = temperature

    def _hot_battery(self, temperature: float) -> None:
        self._robot.condition.battery_temperature = temperature

    def _missing_temperatures(self) -> None:
        self._robot.condition.motor_temperatures.clear()

    def _unknown_estop(self) -> None:
        self._robot.condition.knows_estop = False

    def _warning(self) -> None:
        self._robot.condition.warnings.append("practice_warning")

    def _missing_licence(self) -> None:
        self._robot.licensed = False
        self._stream_cut("both")
        self._robot.lose_lease()

    def _clock_jump(self, seconds: float) -> None:
        self._robot.clock.jump(round(seconds * SECOND))

    def _expired_token(self) -> None:
        self._robot.accounts.expire()

    def _arm_fitted(self) -> None:
        self._robot.arm = True

    def _odom_tilt(self, degrees: float) -> None:
        self._robot.odom_tilt = math.radians(degrees)

    def _slow_power_off(self, seconds: float) -> None:
        self._robot.power_off_delay = round(seconds * SECOND)
