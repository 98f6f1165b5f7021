"""Messages, commands, and a robot's ends of the two streams, for tests without a network."""

from __future__ import annotations

import queue
import threading

import numpy as np
from bosdyn.api import robot_command_pb2, robot_state_pb2
from spot_helpers import make_state

from adc_wrappers.backends.spot.messages import (
    JointCommand,
    JointOrder,
)
from adc_wrappers.backends.spot.streams import CommandSender
from adc_wrappers.backends.spot_model import NOMINAL_POSE

POSE = np.array(NOMINAL_POSE)


def message(state, joints=12, contacts=(1, 1, 1, 1)):
    """A state message that says what a simulator's state says."""
    made = robot_state_pb2.RobotStateStreamResponse()
    made.joint_states.acquisition_timestamp.FromNanoseconds(1_700_000_000_123_000_000)
    for name, values in (
        ("position", state.joint_positions),
        ("velocity", state.joint_velocities),
        ("load", state.joint_torques),
    ):
        getattr(made.joint_states, name).extend(np.resize(values[0], joints))
    body = made.kinematic_state.odom_tform_body
    body.position.x, body.position.y, body.position.z = state.base_position[0]
    body.rotation.w, body.rotation.x, body.rotation.y, body.rotation.z = state.base_quaternion[0]
    turn = _rotation(state.base_quaternion[0])
    velocity = made.kinematic_state.velocity_of_body_in_odom
    velocity.linear.x, velocity.linear.y, velocity.linear.z = turn @ state.base_linear_velocity[0]
    velocity.angular.x, velocity.angular.y, velocity.angular.z = turn @ state.base_angular_velocity[0]
    made.contact_states.extend(contacts)
    made.last_command.user_command_key = 7
    return made


def _rotation(quaternion):
    import mujoco

    out = np.zeros(9)
    mujoco.mju_quat2Mat(out, quaternion)
    return out.reshape(3, 3)


def command(**changes):
    values = {
        "key": 3,
        "position": POSE,
        "load": np.zeros(12),
        "stiffness": np.full(12, 40.0),
        "damping": np.full(12, 2.0),
    }
    return JointCommand(**{**values, "source": 100.0, **changes})


class Commands:
    """A robot that takes messages until it is told to close the stream."""

    def __init__(self):
        self.messages = queue.Queue()
        self.closing = threading.Event()

    def send_joint_control_commands(self, requests):
        for request in requests:
            self.messages.put(request.joint_command)
            if self.closing.is_set():
                break
        status = robot_command_pb2.JointControlStreamResponse.STATUS_INACTIVE
        return robot_command_pb2.JointControlStreamResponse(status=status, message="not in joint control")


class States:
    """A state stream that gives what it is fed."""

    def __init__(self):
        self.feed = queue.Queue()
        self.state = make_state(touching=("fl_foot",))

    def get_robot_state_stream(self):
        return self

    def cancel(self):
        self.feed.put(None)

    def say(self, stamp, echo=7):
        """Give the state of a moment; ``echo`` is the key of the last command that the robot has heard."""
        made = message(self.state)
        made.last_command.user_command_key = echo
        made.joint_states.acquisition_timestamp.FromNanoseconds(round(stamp * 1e9))
        self.feed.put(made)

    def __iter__(self):
        while (made := self.feed.get()) is not None:
            yield made


def sender(robot, now, *, period=0.002, time_to_live=0.05, life=0.08):
    return CommandSender(
        robot, JointOrder(), now, now, period=period, time_to_live=time_to_live, life=life, client_name="me",
        velocity_limit=20.0,
    )  # fmt: skip
