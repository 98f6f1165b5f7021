"""Effective inertia of Spot's joints straight from the table, in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .kinematics import link_poses
from .table import SPOT, RobotSpec

__all__ = ["effective_inertia"]


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
