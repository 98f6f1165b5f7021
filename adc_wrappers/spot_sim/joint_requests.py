"""Reading joint commands, and what makes one invalid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .command_stream import CommandStream
from .motion import ARM_JOINTS, JointCommand, JointOrder
from .robot import SimulatedSpot
from .wire import nanoseconds

__all__ = ["InvalidRequest", "read_command"]

_Array = NDArray[np.float64]
_LEGS = 12


class InvalidRequest(ValueError):  # noqa: N818 (it is the protocol's word)
    """A joint command that the robot would not take."""


def read_command(request: Any, stream: CommandStream, robot: SimulatedSpot) -> JointCommand:
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
    order = JointOrder(*(values[:_LEGS] for values in (position, velocity, load, stiffness, damping)))
    if robot.arm:
        robot.arm_positions = position[_LEGS:]
    return JointCommand(
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
