"""Forward kinematics straight from the table, in numpy: a third opinion beside the two engines."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .table import FOOT_RADIUS, SPOT, JointSpec, RobotSpec

__all__ = ["foot_positions", "link_poses", "standing_height"]

_Array = NDArray[np.float64]


def link_poses(joint_positions: ArrayLike, robot: RobotSpec = SPOT) -> dict[str, _Array]:
    """Return every link's pose in the base link's frame.

    Args:
        joint_positions: One angle per actuated joint, rad, in the table's order.
        robot: The table.

    Returns:
        Link name to 4×4 homogeneous transform.

    Raises:
        ValueError: The number of angles is not the number of actuated joints.
    """
    angles = np.asarray(joint_positions, dtype=np.float64)
    if angles.shape != (len(robot.actuated),):
        raise ValueError(f"expected {len(robot.actuated)} joint positions, got shape {angles.shape}")
    remaining = iter(angles.tolist())
    poses: dict[str, _Array] = {robot.links[0].name: np.eye(4)}
    for joint in robot.joints:
        angle = 0.0 if joint.axis is None else next(remaining)
        poses[joint.child] = poses[joint.parent] @ _joint_transform(joint, angle)
    return poses


def foot_positions(joint_positions: ArrayLike, robot: RobotSpec = SPOT) -> _Array:
    """Return the centres of the feet in the body's frame, ``(feet, 3)``, in the order of ``robot.foot_names``."""
    poses = link_poses(joint_positions, robot)
    return np.stack([poses[name][:3, 3] for name in robot.foot_names])


def standing_height(joint_positions: ArrayLike, robot: RobotSpec = SPOT) -> float:
    """Return the height of the body's origin, level, at which the lowest foot just touches flat ground, m.

    Start episodes at this height: higher ones begin in the air.

    Example:
        >>> from adc_wrappers.backends.spot_model import NOMINAL_POSE
        >>> round(standing_height(NOMINAL_POSE), 4)
        0.515
    """
    return FOOT_RADIUS - float(foot_positions(joint_positions, robot)[:, 2].min())


def _joint_transform(joint: JointSpec, angle: float) -> _Array:
    """Child frame in the parent frame: a shift, then a rotation about the joint's axis (Rodrigues)."""
    transform = np.eye(4)
    transform[:3, 3] = joint.origin
    if joint.axis is not None:
        x, y, z = joint.axis
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        transform[:3, :3] += math.sin(angle) * cross + (1.0 - math.cos(angle)) * (cross @ cross)
    return transform
