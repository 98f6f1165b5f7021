"""Health, as the robot itself reports it at a low rate: power, E-stop, battery, temperatures, faults."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from adc_wrappers.backends.guard import GuardLimits
from adc_wrappers.backends.spot_model import JOINT_NAMES

from .sdk import robot_state_pb2

__all__ = ["Health", "read_health"]

_SILENT = "a robot that does not say is not driven"


@dataclass(frozen=True, kw_only=True)
class Health:
    """One answer of the robot's state service. What it does not say is missing here too, never taken for good."""

    motor_power: str
    """``OFF``, ``ON``, ``POWERING_ON``, ``POWERING_OFF``, ``ERROR`` or ``UNKNOWN``, which is not off."""

    estopped: tuple[str, ...]
    """Names of the E-stops that are pressed."""

    estop_unknown: tuple[str, ...]
    """Names of the E-stops whose state the robot does not know; ``("any",)`` if it names none at all."""

    battery: float | None
    """Charge of the emptiest battery, percent; None if one does not report, or there is none."""

    battery_temperature: float | None
    """Of the hottest place in any battery, °C; None if one does not report, or there is none."""

    motor_temperatures: dict[str, float]
    """By our names of the joints, °C; those that the robot reports."""

    faults: tuple[str, ...]
    """Behaviour faults, and system and service faults that are critical or of unknown severity, in words."""

    warnings: tuple[str, ...]
    """System and service faults that are warnings, in words: told, but no reason to stop."""

    has_arm: bool
    """Whether an arm is fitted."""

    joints: dict[str, float]
    """Joint positions by the robot's own names, rad."""

    @property
    def motors_off(self) -> bool:
        """Whether the motors are off for certain."""
        return self.motor_power == "OFF"

    @property
    def hottest_motor(self) -> tuple[str, float] | None:
        """Joint and temperature, °C, of the hottest motor; None if not all twelve report a number."""
        known = {name: value for name, value in self.motor_temperatures.items() if math.isfinite(value)}
        if any(name not in known for name in JOINT_NAMES):
            return None
        return max(known.items(), key=lambda item: item[1])

    def problem(self, limits: GuardLimits | None, *, driving: bool = True) -> tuple[str, str] | None:
        """Return the first thing that forbids driving, as a check of the guard and a reason.

        Args:
            limits: Of charge and temperatures; None asks for neither.
            driving: Whether motors must be on.
        """
        if self.estopped:
            return "estop", f"the E-stop is pressed: {', '.join(self.estopped)}"
        if self.faults:
            return "fault", f"the robot reports: {'; '.join(self.faults)}"
        if driving and self.motor_power != "ON":
            return "power", f"motor power is {self.motor_power}, expected ON"
        if self.estop_unknown:
            return "reading", f"the state of an E-stop is unknown ({', '.join(self.estop_unknown)}): {_SILENT}"
        return None if limits is None else next(self._measured(limits), None)

    def _measured(self, limits: GuardLimits) -> Iterator[tuple[str, str]]:
        if self.battery is None:
            yield "reading", f"the charge of a battery is not reported: {_SILENT}"
        elif not self.battery >= limits.battery:
            yield "battery", f"battery at {self.battery:.0f} %, at least {limits.battery:g} %"
        if limits.battery_temperature is not None:
            if self.battery_temperature is None:
                yield "reading", f"the temperature of a battery is not reported: {_SILENT}"
            elif not self.battery_temperature <= limits.battery_temperature:
                told = f"{self.battery_temperature:.0f} °C, at most {limits.battery_temperature:g} °C"
                yield "temperature", f"battery at {told}"
        if limits.motor_temperature is not None:
            if self.hottest_motor is None:
                missing = [name for name in JOINT_NAMES if name not in self.motor_temperatures] or ["not a number"]
                yield "reading", f"temperatures of motors are not reported ({', '.join(missing)}): {_SILENT}"
            elif not self.hottest_motor[1] <= limits.motor_temperature:
                name, value = self.hottest_motor
                yield "temperature", f"motor {name} at {value:.0f} °C, at most {limits.motor_temperature:g} °C"


def read_health(state: Any) -> Health:
    """Return what a ``RobotState`` message says."""
    power = robot_state_pb2.PowerState.MotorPowerState.Name(state.power_state.motor_power_state)
    stops = robot_state_pb2.EStopState
    released, pressed = stops.STATE_NOT_ESTOPPED, stops.STATE_ESTOPPED
    unknown = tuple(item.name for item in state.estop_states if item.state not in (released, pressed))
    return Health(
        motor_power=power.removeprefix("MOTOR_POWER_").removeprefix("STATE_"),
        estopped=tuple(item.name for item in state.estop_states if item.state == pressed),
        estop_unknown=unknown if state.estop_states else ("any",),
        battery=_charge(state),
        battery_temperature=_battery_temperature(state),
        motor_temperatures={
            item.name.replace(".", "_"): float(item.temperature) for item in state.system_state.motor_temperatures
        },
        faults=(*_behavior_faults(state), *_other_faults(state, ("CRITICAL", "UNKNOWN"))),
        warnings=tuple(_other_faults(state, ("WARN",))),
        has_arm=state.HasField("manipulator_state"),
        joints={joint.name: float(joint.position.value) for joint in state.kinematic_state.joint_states},
    )


def _fitted(state: Any) -> list[Any]:
    return [item for item in state.battery_states if item.status != robot_state_pb2.BatteryState.STATUS_MISSING]


def _charge(state: Any) -> float | None:
    fitted = _fitted(state)
    charges = [float(item.charge_percentage.value) for item in fitted if item.HasField("charge_percentage")]
    whole = charges and len(charges) == len(fitted) and all(math.isfinite(value) for value in charges)
    return min(charges) if whole else None


def _battery_temperature(state: Any) -> float | None:
    fitted = _fitted(state)
    values = [float(value) for item in fitted for value in item.temperatures]
    whole = values and all(len(item.temperatures) for item in fitted) and all(math.isfinite(value) for value in values)
    return max(values) if whole else None


def _behavior_faults(state: Any) -> list[str]:
    causes = robot_state_pb2.BehaviorFault.Cause
    return [f"behaviour fault {causes.Name(item.cause)}" for item in state.behavior_fault_state.faults]


def _other_faults(state: Any, severities: tuple[str, ...]) -> list[str]:
    """Return system and service faults of some severities; both messages number them alike."""
    wanted = [robot_state_pb2.SystemFault.Severity.Value(f"SEVERITY_{name}") for name in severities]
    system = [
        f"system fault {item.name} ({item.error_message})"
        for item in state.system_fault_state.faults
        if item.severity in wanted
    ]
    return [
        *system,
        *(
            f"service fault {item.fault_id.fault_name} ({item.error_message})"
            for item in state.service_fault_state.faults
            if item.severity in wanted
        ),
    ]
