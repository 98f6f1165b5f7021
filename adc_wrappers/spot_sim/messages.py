"""Boston Dynamics' messages: the robot's state as they have it, and joint commands read from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import JOINT_NAMES, foot_positions

from .condition import Mode
from .joint_mode import CommandStream
from .motion import ARM_JOINTS, DatedCommand, PdTargets
from .readings import Reading, rotation
from .robot import SimulatedSpot
from .wire import geometry_pb2, nanoseconds, robot_state_pb2, set_time, timestamp

__all__ = ["InvalidRequest", "read_command", "streamed_state", "whole_state"]


_Array = NDArray[np.float64]
_LEGS = 12


class InvalidRequest(ValueError):  # noqa: N818 (it is the protocol's word)
    """A joint command that the robot would not take."""


def read_command(request: Any, stream: CommandStream, robot: SimulatedSpot) -> DatedCommand:
    """Return a command from its message; gains that it does not have are those of an earlier one.

    Raises:
        InvalidRequest: It says what is wrong.
    """
    if not request.header.client_name or not request.header.HasField("request_timestamp"):
        raise InvalidRequest("the header needs client_name and request_timestamp")
    update = request.joint_command
    if not update.HasField("end_time"):
        raise InvalidRequest("end_time is missing")
    joints = _LEGS + (len(ARM_JOINTS) if robot.arm else 0)
    position, velocity, load = _numbers(update, ("position", "velocity", "load"), joints)
    stiffness, damping = _gains(update, stream, joints)
    if len(request.contact_advice.contact_advice) not in (0, 4):
        raise InvalidRequest("contact_advice: expected none or one for each of the four feet")
    now = robot.clock.now()
    reference = nanoseconds(update.reference_time) if update.HasField("reference_time") else now
    order = PdTargets(*(values[:_LEGS] for values in (position, velocity, load, stiffness, damping)))
    if robot.arm:
        robot.arm_positions = position[_LEGS:]
    return DatedCommand(
        order=order,
        key=update.user_command_key,
        received=now,
        reference=reference - robot.clock.stamp(0),
        extrapolation=nanoseconds(update.extrapolation_duration),
        end=nanoseconds(update.end_time),
        speed_limit=_speed_limit(update),
    )


def _numbers(message: Any, names: Sequence[str], joints: int) -> list[_Array]:
    """Return fields with one finite number per joint."""
    lists = [getattr(message, name)[:] for name in names]
    for name, values in zip(names, lists, strict=True):
        if len(values) != joints:
            raise InvalidRequest(f"{name}: expected {joints} numbers, one per joint, got {len(values)}")
    together = np.array(lists)
    if not np.isfinite(together).all():
        raise InvalidRequest(f"{', '.join(names)}: expected finite numbers")
    return list(together)


def _gains(update: Any, stream: CommandStream, joints: int) -> tuple[_Array, _Array]:
    if update.HasField("gains"):
        stiffness, damping = _numbers(update.gains, ("k_q_p", "k_qd_p"), joints)
        if min(stiffness.min(), damping.min()) < 0.0:
            raise InvalidRequest("gains: expected numbers of at least 0")
        stream.gains = (stiffness, damping)
    if stream.gains is None:
        raise InvalidRequest("the first message needs gains")
    if len(stream.gains[0]) != joints:
        raise InvalidRequest(f"gains: expected {joints} numbers, one per joint, got {len(stream.gains[0])}")
    return stream.gains


def _speed_limit(update: Any) -> float | None:
    if not update.HasField("velocity_safety_limit"):
        return None
    limit = float(update.velocity_safety_limit.value)
    if not limit > 0.0:
        raise InvalidRequest(f"velocity_safety_limit: expected a positive number, got {limit:g}")
    return limit


_GRAVITY = np.array([0.0, 0.0, 9.81])  # what an accelerometer at rest shows
_NAMES = tuple(name.replace("_", ".") for name in JOINT_NAMES)
_CONTACT = {True: robot_state_pb2.FootState.CONTACT_MADE, False: robot_state_pb2.FootState.CONTACT_LOST}
_CAUSES = {
    "unknown": robot_state_pb2.BehaviorFault.CAUSE_UNKNOWN,
    "fall": robot_state_pb2.BehaviorFault.CAUSE_FALL,
    "hardware": robot_state_pb2.BehaviorFault.CAUSE_HARDWARE,
    "lease_timeout": robot_state_pb2.BehaviorFault.CAUSE_LEASE_TIMEOUT,
}
_STATES = {
    Mode.OFF: robot_state_pb2.BehaviorState.STATE_NOT_READY,
    Mode.SIT: robot_state_pb2.BehaviorState.STATE_NOT_READY,
    Mode.STAND: robot_state_pb2.BehaviorState.STATE_STANDING,
    Mode.JOINT: robot_state_pb2.BehaviorState.STATE_STANDING,
    Mode.FAULT: robot_state_pb2.BehaviorState.STATE_NOT_READY,
}


def streamed_state(robot: SimulatedSpot, reading: Reading) -> Any:
    """Return the message of the state stream. Its header has no ``error``, as a robot's has none."""
    message = robot_state_pb2.RobotStateStreamResponse()
    stamp = robot.clock.stamp(reading.elapsed)
    time = timestamp(stamp)
    message.header.request_received_timestamp.CopyFrom(time)
    message.header.response_timestamp.CopyFrom(time)
    joints = message.joint_states
    joints.acquisition_timestamp.CopyFrom(time)
    positions, velocities, loads = _joints(robot, reading)
    joints.position.extend(positions.tolist())
    joints.velocity.extend(velocities.tolist())
    joints.load.extend(loads.tolist())
    turn, position, velocity, spin = _in_odometry(robot, reading)
    kinematic = message.kinematic_state
    kinematic.acquisition_timestamp.CopyFrom(time)
    for pose in (kinematic.odom_tform_body, kinematic.vision_tform_body):
        _set_vector(pose.position, position)
        _set_quaternion(pose.rotation, turn)
    for motion in (kinematic.velocity_of_body_in_odom, kinematic.velocity_of_body_in_vision):
        _set_vector(motion.linear, velocity)
        _set_vector(motion.angular, spin)
    inertial = message.inertial_state
    inertial.packet_rate = 333.0
    inertial.identifier, inertial.mounting_link_name = "imu", "body"
    packet = inertial.packets.add()
    packet.timestamp.CopyFrom(time)
    felt = rotation(reading.base_quaternion).T @ (reading.base_acceleration + _GRAVITY)
    _set_vector(packet.acceleration_rt_odom_in_link_frame, felt)
    _set_vector(packet.angular_velocity_rt_odom_in_link_frame, reading.base_turning)
    _set_quaternion(packet.odom_rot_link, turn)
    message.contact_states.extend([_CONTACT[bool(foot)] for foot in reading.feet])
    if robot.joint_mode.last_key:
        message.last_command.user_command_key = robot.joint_mode.last_key
        set_time(message.last_command.received_timestamp, robot.joint_mode.last_received)
    return message


def whole_state(robot: SimulatedSpot) -> Any:
    """Return the state on request: power, battery, temperatures, faults, E-stop, joints by name."""
    reading = robot.physics.reading
    state = robot_state_pb2.RobotState()
    time = timestamp(robot.clock.now())
    power = state.power_state
    power.timestamp.CopyFrom(time)
    power.motor_power_state = robot_state_pb2.PowerState.MotorPowerState.Value(
        f"MOTOR_POWER_STATE_{robot.motors.value}"
    )
    power.shore_power_state = robot_state_pb2.PowerState.SHORE_POWER_STATE_OFF
    power.robot_power_state = robot_state_pb2.PowerState.ROBOT_POWER_STATE_ON
    robot.condition.write(state, time, robot.battery, robot.estops.level)
    for fault in robot.faults:
        state.behavior_fault_state.faults.add(
            behavior_fault_id=fault.number, onset_timestamp=timestamp(fault.stamp), cause=_CAUSES[fault.cause],
            status=robot_state_pb2.BehaviorFault.STATUS_CLEARABLE,
        )  # fmt: skip
    _add_kinematics(robot, reading, state.kinematic_state)
    places = foot_positions(reading.positions)
    for place, touches in zip(places, reading.feet, strict=True):
        foot = state.foot_state.add(contact=_CONTACT[bool(touches)])
        _set_vector(foot.foot_position_rt_body, place)
    if robot.arm:
        state.manipulator_state.stow_state = robot_state_pb2.ManipulatorState.STOWSTATE_STOWED
    moving = robot.mode in (Mode.SIT, Mode.STAND) and not robot.settled
    transition = robot_state_pb2.BehaviorState.STATE_TRANSITION
    state.behavior_state.state = transition if moving else _STATES[robot.mode]
    return state


def _add_kinematics(robot: SimulatedSpot, reading: Reading, kinematic: Any) -> None:
    kinematic.acquisition_timestamp.CopyFrom(timestamp(robot.clock.stamp(reading.elapsed)))
    names = (*_NAMES, *(f"arm0.{name}" for name in ARM_JOINTS)) if robot.arm else _NAMES
    for name, position, velocity, load in zip(names, *_joints(robot, reading), strict=True):
        joint = kinematic.joint_states.add(name=name)
        joint.position.value, joint.velocity.value, joint.load.value = position, velocity, load
    turn, position, velocity, spin = _in_odometry(robot, reading)
    for motion in (kinematic.velocity_of_body_in_odom, kinematic.velocity_of_body_in_vision):
        _set_vector(motion.linear, velocity)
        _set_vector(motion.angular, spin)
    tree = kinematic.transforms_snapshot.child_to_parent_edge_map
    inverse = np.array([turn[0], -turn[1], -turn[2], -turn[3]])
    back = -rotation(inverse) @ position
    for name in ("odom", "vision"):
        edge = tree[name]
        edge.parent_frame_name = "body"
        _set_vector(edge.parent_tform_child.position, back)
        _set_quaternion(edge.parent_tform_child.rotation, inverse)
    tree["body"].parent_tform_child.rotation.w = 1.0


def _joints(robot: SimulatedSpot, reading: Reading) -> tuple[_Array, _Array, _Array]:
    """Return positions, velocities and loads as measured, the arm's included."""
    settings = robot.settings
    positions, velocities = reading.positions, reading.velocities
    if settings.position_noise:
        positions = positions + robot.noise.normal(0.0, settings.position_noise, positions.shape)
    if settings.velocity_noise:
        velocities = velocities + robot.noise.normal(0.0, settings.velocity_noise, velocities.shape)
    loads = reading.torques
    if robot.arm:
        still = np.zeros(len(ARM_JOINTS))
        return np.append(positions, robot.arm_positions), np.append(velocities, still), np.append(loads, still)
    return positions, velocities, loads


def _in_odometry(robot: SimulatedSpot, reading: Reading) -> tuple[_Array, _Array, _Array, _Array]:
    """Return quaternion, position, linear and angular velocity of the body in the odometry frame."""
    turn, position, velocity = reading.base_quaternion, reading.base_position, reading.base_velocity
    spin = rotation(turn) @ reading.base_turning
    if robot.odom_tilt:
        half = 0.5 * robot.odom_tilt
        tilt = np.array([math.cos(half), 0.0, math.sin(half), 0.0])
        matrix = rotation(tilt)
        turn, position, velocity, spin = _product(tilt, turn), matrix @ position, matrix @ velocity, matrix @ spin
    return turn, position, velocity, spin


def _product(a: _Array, b: _Array) -> _Array:
    w, x, y, z = a
    return np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]]) @ b


def _set_vector(message: geometry_pb2.Vec3, values: _Array) -> None:
    message.x, message.y, message.z = values.tolist()


def _set_quaternion(message: geometry_pb2.Quaternion, values: _Array) -> None:
    message.w, message.x, message.y, message.z = values.tolist()
