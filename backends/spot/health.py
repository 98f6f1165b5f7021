"""What the robot says about itself at a low rate: power, E-stop, battery, faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .sdk import robot_state_pb2

__all__ = ["Health", "read_health"]


@dataclass(frozen=True, kw_only=True)
class Health:
    """One answer of the robot's state service."""

    motor_power: str
    """``OFF``, ``ON``, ``POWERING_ON``, ``POWERING_OFF``, ``ERROR`` or ``UNKNOWN``, which is not off."""

    estopped: tuple[str, ...]
    """Names of the E-stops that are pressed."""

    battery: float | None
    """Charge of the emptiest battery, percent; None if none reports."""

    faults: tuple[str, ...]
    """Behaviour faults, and system and service faults that are critical, in words."""

    has_arm: bool
    """Whether an arm is fitted."""

    joints: dict[str, float]
    """Joint positions by the robot's own names, rad."""

    @property
    def motors_off(self) -> bool:
        """Whether the motors are off for certain."""
        return self.motor_power == "OFF"

    def problem(self, least_battery: float, *, driving: bool = True) -> tuple[str, str] | None:
        """Return the first thing that forbids driving, as a check of the guard and a reason."""
        if self.estopped:
            return "estop", f"the E-stop is pressed: {', '.join(self.estopped)}"
        if self.faults:
            return "fault", f"the robot reports: {'; '.join(self.faults)}"
        if driving and self.motor_power != "ON":
            return "power", f"motor power is {self.motor_power}, expected ON"
        if self.battery is not None and not self.battery >= least_battery:
            return "battery", f"battery at {self.battery:.0f} %, at least {least_battery:g} %"
        return None


def read_health(state: Any) -> Health:
    """Return what a ``RobotState`` message says."""
    power = robot_state_pb2.PowerState.MotorPowerState.Name(state.power_state.motor_power_state)
    charges = [item.charge_percentage.value for item in state.battery_states if item.HasField("charge_percentage")]
    return Health(
        motor_power=power.removeprefix("MOTOR_POWER_").removeprefix("STATE_"),
        estopped=tuple(
            item.name for item in state.estop_states if item.state == robot_state_pb2.EStopState.STATE_ESTOPPED
        ),
        battery=min(charges) if charges else None,
        faults=(*_behavior_faults(state), *_other_faults(state)),
        has_arm=state.HasField("manipulator_state"),
        joints={joint.name: float(joint.position.value) for joint in state.kinematic_state.joint_states},
    )


def _behavior_faults(state: Any) -> list[str]:
    causes = robot_state_pb2.BehaviorFault.Cause
    return [f"behaviour fault {causes.Name(item.cause)}" for item in state.behavior_fault_state.faults]


def _other_faults(state: Any) -> list[str]:
    critical = robot_state_pb2.SystemFault.SEVERITY_CRITICAL
    found = [
        f"system fault {item.name} ({item.error_message})"
        for item in state.system_fault_state.faults
        if item.severity == critical
    ]
    return [
        *found,
        *(
            f"service fault {item.fault_id.fault_name} ({item.error_message})"
            for item in state.service_fault_state.faults
            if item.severity == critical
        ),
    ]
