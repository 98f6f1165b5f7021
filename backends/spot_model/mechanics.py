"""Forward kinematics and effective inertia straight from the table, in numpy: a third opinion beside the engines."""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.core import ActuatorCurriculum, CurriculumConfig

from .table import FOOT_RADIUS, JOINT_NAMES, SPOT, JointSpec, RobotSpec

__all__ = ["effective_inertia", "foot_positions", "identified_gains", "link_poses", "standing_height"]


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


def effective_inertia(joint_positions: ArrayLike | None = None, robot: RobotSpec = SPOT) -> NDArray[np.float64]:
    """Return the diagonal of the joint-space inertia, armature included, per actuated joint of one leg, kg·m².

    For one joint that is the inertia, about its axis, of all that it carries.

    Args:
        joint_positions: One angle per actuated joint, rad; by default the nominal pose.
        robot: The table.
    """
    poses = link_poses(robot.nominal_pose if joint_positions is None else joint_positions, robot)
    children = {
        joint.parent: [other.child for other in robot.joints if other.parent == joint.parent] for joint in robot.joints
    }

    def carried(link: str) -> list[str]:
        return [link, *(name for child in children.get(link, []) for name in carried(child))]

    values = []
    for joint in robot.actuated:
        pose = poses[joint.child]
        axis, origin = pose[:3, :3] @ np.asarray(joint.axis), pose[:3, 3]
        total = joint.armature * joint.legs
        for name in carried(joint.child):
            link, frame = robot.link(name), poses[name]
            xx, yy, zz, xy, xz, yz = link.inertia
            own = frame[:3, :3].T @ axis
            arm = np.cross(axis, frame[:3, :3] @ np.asarray(link.com) + frame[:3, 3] - origin)
            tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            total += float(own @ tensor @ own) + link.mass * float(arm @ arm)
        values.append(total / joint.legs)
    return np.array(values)


def identified_gains(pattern: str = ".*") -> tuple[dict[str, float], dict[str, float]]:
    """Return K_* and critical damping by joint name: what the robot is until a curriculum's wrapper stiffens it.

    Args:
        pattern: A regular expression that the joints' names match whole.
    """
    config = CurriculumConfig()
    stiffness = ActuatorCurriculum(config, JOINT_NAMES).target_stiffness
    damping = config.damping_at(stiffness, effective_inertia(), JOINT_NAMES)
    rows = [row for row in zip(JOINT_NAMES, stiffness, damping, strict=True) if re.fullmatch(pattern, row[0])]
    return {name: float(k) for name, k, _ in rows}, {name: float(b) for name, _, b in rows}
