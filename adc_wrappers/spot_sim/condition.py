"""How warm the practice robot is, what it warns of, and what it does not tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from adc_wrappers.backends.spot_model import JOINT_NAMES

from .estops import StopLevel
from .wire import robot_state_pb2

__all__ = ["Condition"]

_MOTORS = 35.0
_BATTERY = 30.0


@dataclass
class Condition:
    """What faults can change; nothing of it changes by itself."""

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
