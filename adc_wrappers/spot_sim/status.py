"""What the practice robot says of itself on its control channel."""

from __future__ import annotations

from typing import Any

from .clock import SECOND
from .robot import SimulatedSpot

__all__ = ["describe"]


def describe(robot: SimulatedSpot) -> dict[str, Any]:
    """Return the truth about the robot, without noise, as plain numbers and words."""
    reading = robot.physics.reading
    leases = {} if robot.leases.owner is None else {"body": robot.leases.owner}
    return {
        "motors": robot.motors.value.lower(),
        "mode": robot.mode.value,
        "settled": robot.settled,
        "leases": leases,
        "streams": {"state": len(robot.link.subscribers), "command": int(robot.joint_mode.streaming)},
        "estop": robot.estops.level.name.lower(),
        "behavior_faults": [fault.cause for fault in robot.faults],
        "battery": robot.battery,
        "motor_temperatures": dict(robot.condition.motor_temperatures),
        "battery_temperature": robot.condition.battery_temperature,
        "warnings": list(robot.condition.warnings),
        "licensed": robot.licensed,
        "joints": 19 if robot.arm else 12,
        "time": robot.elapsed / SECOND,
        "clock": robot.clock.now() / SECOND,
        "last_command_key": robot.joint_mode.last_key,
        "base_position": reading.base_position.tolist(),
        "base_quaternion": reading.base_quaternion.tolist(),
        "base_velocity": reading.base_velocity.tolist(),
        "joint_positions": reading.positions.tolist(),
        "joint_velocities": reading.velocities.tolist(),
        "joint_torques": reading.torques.tolist(),
        "body_touches_ground": reading.body_touches,
        "feet_on_ground": [bool(foot) for foot in reading.feet],
    }
