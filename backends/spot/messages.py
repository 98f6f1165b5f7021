"""The robot's messages as numbers in our joint order, and our numbers as its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.core.errors import BackendError

from .sdk import robot_command_pb2, robot_state_pb2

__all__ = [
    "STREAM_ORDER",
    "JointCommand",
    "JointOrder",
    "StateSample",
    "build_request",
    "read_sample",
    "seconds",
    "task_name",
]


STREAM_ORDER: Final = (
    "fl.hx", "fl.hy", "fl.kn", "fr.hx", "fr.hy", "fr.kn", "hl.hx", "hl.hy", "hl.kn", "hr.hx", "hr.hy", "hr.kn",
)  # fmt: skip
"""Order of the streams' arrays, which have no names: the enum ``bosdyn.api.spot.JointIndex``, arm joints aside."""


def task_name(robot_name: str) -> str:
    """Return our name of one of the robot's joints.

    >>> task_name("fl.hx")
    'fl_hx'
    """
    return robot_name.replace(".", "_")


class JointOrder:
    """The order of the streams' arrays, and the way between it and ``joint_names``.

    Args:
        joint_names: Our order.
        stream_order: The robot's order of its stream, by its names.
    """

    def __init__(self, joint_names: Sequence[str] = JOINT_NAMES, stream_order: Sequence[str] = STREAM_ORDER) -> None:
        known = [task_name(name) for name in stream_order]
        if sorted(known) != sorted(joint_names):
            raise BackendError(
                f"expected the joints {', '.join(joint_names)}; the robot has {', '.join(known)}. A policy is run only "
                "on the joints that it was trained for."
            )
        self._from_stream: NDArray[np.int64] = np.array([known.index(name) for name in joint_names])
        self._to_stream: NDArray[np.int64] = np.array([list(joint_names).index(name) for name in known])

    def from_stream(self, values: Sequence[float]) -> NDArray[np.float64]:
        """Return what the stream gave, in our order."""
        return np.fromiter(values, dtype=np.float64, count=len(self._from_stream))[self._from_stream]

    def to_stream(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return our numbers in the stream's order."""
        return np.asarray(values, dtype=np.float64)[self._to_stream]


def check_named(named: dict[str, float], streamed: NDArray[np.float64], tolerance: float = 0.05) -> None:
    """Refuse a robot whose named joint positions are not those of its stream.

    Args:
        named: Positions by the robot's names, from the unary state; joints of an arm are not looked at.
        streamed: Positions from the stream, in our order.
        tolerance: Largest difference at standstill, rad.

    Raises:
        BackendError: Says which joint differs.
    """
    ours = {task_name(name): value for name, value in named.items()}
    missing = [name for name in JOINT_NAMES if name not in ours]
    if missing:
        raise BackendError(f"the robot's named state lacks the joints {', '.join(missing)}; it has {', '.join(named)}.")
    for name, value in zip(JOINT_NAMES, streamed, strict=True):
        if not abs(ours[name] - value) <= tolerance:
            raise BackendError(
                f"joint order: {name} is {ours[name]:.3f} rad by name and {value:.3f} rad in the stream, which has no "
                f"names; expected them within {tolerance} rad. The stream's order is another, or the robot moves."
            )


_Array = NDArray[np.float64]


class StateSample(NamedTuple):
    """One message of the state stream, joints in our order."""

    stamp: float
    """Acquisition, robot's clock, s."""

    received: float
    """Host's monotonic clock, s."""

    position: _Array
    velocity: _Array
    load: _Array
    base_position: _Array
    """Body origin in the robot's odometry frame, m."""

    base_quaternion: _Array
    """w x y z."""

    linear_velocity: _Array
    """Of the body's origin, in the body frame, m/s."""

    angular_velocity: _Array
    """In the body frame, rad/s."""

    gravity: _Array
    """Direction of gravity in the body frame; z of the odometry frame is taken as up."""

    contacts: NDArray[np.bool_]
    """Feet fl fr hl hr that touch the ground."""

    echo: int
    """Key of the newest command that the robot has received; 0 before the first."""

    acceleration: _Array | None
    """Newest packet of the inertial sensor, gravity's reaction included, m/s²; None if the message has none."""


class JointCommand(NamedTuple):
    """The command that is sent for the joints, in our order."""

    key: int
    """Number that the robot echoes; never 0."""

    position: _Array
    load: _Array
    stiffness: _Array
    damping: _Array
    source: float
    """Acquisition of the state that it came from, robot's clock, s."""

    received: float = 0.0
    """When that state came, host's monotonic clock, s."""


def seconds(timestamp: Any) -> float:
    """Return a protobuf timestamp in seconds."""
    return float(timestamp.seconds) + 1e-9 * float(timestamp.nanos)


def _rotation(quaternion: _Array) -> _Array:
    w, x, y, z = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _vector(message: Any) -> _Array:
    return np.array((message.x, message.y, message.z))


def read_sample(message: Any, order: JointOrder, received: float) -> StateSample:
    """Return a state message as numbers.

    Raises:
        BackendError: The message has other joints than expected, or no orientation.
    """
    joints = message.joint_states
    counts = [len(values) for values in (joints.position, joints.velocity, joints.load)]
    if counts != [len(STREAM_ORDER)] * 3:
        more = " A Spot with an arm has 19; it is not driven." if counts[0] == 19 else ""
        raise BackendError(f"state stream: expected {len(STREAM_ORDER)} joints, got {counts}.{more}")
    body = message.kinematic_state
    turn = body.odom_tform_body.rotation
    quaternion = np.array((turn.w, turn.x, turn.y, turn.z))
    length = float(np.linalg.norm(quaternion))
    if not abs(length - 1.0) < 1e-3:
        raise BackendError(f"state stream: expected a unit quaternion of the body, got {quaternion.tolist()}.")
    to_body = _rotation(quaternion / length).T
    packets = message.inertial_state.packets
    made = robot_state_pb2.FootState.CONTACT_MADE
    return StateSample(
        stamp=seconds(joints.acquisition_timestamp),
        received=received,
        position=order.from_stream(joints.position),
        velocity=order.from_stream(joints.velocity),
        load=order.from_stream(joints.load),
        base_position=_vector(body.odom_tform_body.position),
        base_quaternion=quaternion / length,
        linear_velocity=to_body @ _vector(body.velocity_of_body_in_odom.linear),
        angular_velocity=to_body @ _vector(body.velocity_of_body_in_odom.angular),
        gravity=-to_body[:, 2],
        contacts=np.array([contact == made for contact in message.contact_states] or [False] * 4, dtype=bool),
        echo=int(message.last_command.user_command_key),
        acceleration=_vector(packets[-1].acceleration_rt_odom_in_link_frame) if packets else None,
    )


def build_request(
    command: JointCommand, order: JointOrder, *, end_time: float, client_name: str, velocity_limit: float
) -> Any:
    """Return the message of a command: header, end time, gains and velocity limit are in every one.

    Args:
        command: What is sent.
        order: The robot's joint order.
        end_time: When the robot shall stop following it, robot's clock, s.
        client_name: Who we are.
        velocity_limit: Joint speed beyond which the robot stops by itself, rad/s.

    Raises:
        BackendError: A number is not finite: it is not sent.
    """
    parts = (command.position, command.load, command.stiffness, command.damping)
    if not all(np.isfinite(part).all() for part in parts):
        raise BackendError("a command with a number that is not finite was not sent.")
    request = robot_command_pb2.JointControlStreamRequest()
    request.header.client_name = client_name
    request.header.request_timestamp.GetCurrentTime()
    update = request.joint_command
    update.end_time.FromNanoseconds(round(end_time * 1e9))
    update.position.extend(order.to_stream(command.position))
    update.velocity.extend([0.0] * len(STREAM_ORDER))
    update.load.extend(order.to_stream(command.load))
    update.gains.k_q_p.extend(order.to_stream(command.stiffness))
    update.gains.k_qd_p.extend(order.to_stream(command.damping))
    update.user_command_key = command.key
    update.velocity_safety_limit.value = velocity_limit
    return request
