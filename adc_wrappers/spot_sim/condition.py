"""Words for what the robot is doing, how warm it is and what it warns of, and what it has been doing."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from adc_wrappers.backends.spot_model import JOINT_NAMES

from .authority import StopLevel
from .clock import SECOND
from .wire import robot_state_pb2

if TYPE_CHECKING:
    from .robot import SimulatedSpot

__all__ = ["BehaviorFault", "Condition", "History", "Mode", "Motors"]


class Motors(Enum):
    """Motor power; the values end the names of ``MotorPowerState``."""

    OFF = "OFF"
    POWERING_ON = "POWERING_ON"
    ON = "ON"


class Mode(Enum):
    """The robot's present activity."""

    OFF = "off"
    SIT = "sit"
    STAND = "stand"
    JOINT = "joint"
    FAULT = "fault"


@dataclass(frozen=True)
class BehaviorFault:
    """Something that must be cleared before the robot moves again."""

    number: int
    cause: str
    """``unknown``, ``fall``, ``hardware`` or ``lease_timeout``."""
    stamp: int


_MOTORS = 35.0
_BATTERY = 30.0


@dataclass
class Condition:
    """The condition that faults can change; nothing of it changes by itself."""

    motor_temperatures: dict[str, float] = field(default_factory=lambda: dict.fromkeys(JOINT_NAMES, _MOTORS))
    """°C, by our names of the joints; empty if the robot does not report them."""

    battery_temperature: float = _BATTERY
    """°C."""

    tells_charge: bool = True
    """Whether the battery's charge is reported."""

    knows_estop: bool = True
    """Whether the state of the E-stop is known."""

    warnings: list[str] = field(default_factory=list)
    """Names of system faults that are warnings."""

    def write(self, state: Any, time: Any, charge: float, level: StopLevel) -> None:
        """Write battery, E-stop, temperatures and warnings into a ``RobotState`` message."""
        kinds = robot_state_pb2
        battery = state.battery_states.add(identifier="practice", status=kinds.BatteryState.STATUS_DISCHARGING)
        battery.timestamp.CopyFrom(time)
        if self.tells_charge:
            state.power_state.locomotion_charge_percentage.value = charge
            battery.charge_percentage.value = charge
        battery.temperatures.append(self.battery_temperature)
        stop = state.estop_states.add(name="software_estop", type=kinds.EStopState.TYPE_SOFTWARE)
        stop.timestamp.CopyFrom(time)
        free = kinds.EStopState.STATE_NOT_ESTOPPED if level is StopLevel.NONE else kinds.EStopState.STATE_ESTOPPED
        stop.state = free if self.knows_estop else kinds.EStopState.STATE_UNKNOWN
        for name, temperature in self.motor_temperatures.items():
            state.system_state.motor_temperatures.add(name=name.replace("_", "."), temperature=temperature)
        for name in self.warnings:
            state.system_fault_state.faults.add(
                name=name, severity=kinds.SystemFault.SEVERITY_WARN, error_message="injected", onset_timestamp=time
            )


_KEPT = 400


class History:
    """The times at which mode, motors, rest or the lease's owner changed; the oldest changes are forgotten."""

    def __init__(self) -> None:
        self._changes: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._last: tuple[Any, ...] = ()

    def note(self, robot: SimulatedSpot) -> None:
        """Look at the robot; only what has changed is remembered."""
        now = (robot.mode, robot.motors, robot.settled, robot.leases.owner)
        if now == self._last:
            return
        self._last = now
        self._changes.append(
            {
                "time": robot.elapsed / SECOND,
                "wall": time.monotonic(),
                "mode": robot.mode.value,
                "motors": robot.motors.value.lower(),
                "settled": robot.settled,
                "lease": robot.leases.owner,
            }
        )

    def changes(self) -> list[dict[str, Any]]:
        """Return them, oldest first: seconds of simulation (``time``) and of this computer's clock (``wall``)."""
        return list(self._changes)
