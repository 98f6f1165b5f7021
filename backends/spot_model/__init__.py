"""One Spot: one table of numbers, written out as MJCF, URDF and USD. No engine is imported here."""

from __future__ import annotations

from .knee import KNEE_ANGLES, KNEE_PEAK_TORQUE, KNEE_TORQUES, knee_torque_limit
from .mechanics import foot_positions, link_poses, standing_height
from .mjcf import spot_mjcf
from .planar import PLANAR_SPOT, planar_spot
from .table import (
    FOOT_NAMES,
    FOOT_RADIUS,
    HIP_TORQUE_LIMIT,
    JOINT_NAMES,
    LEG_NAMES,
    LINK_NAMES,
    NOMINAL_POSE,
    PLANE_JOINTS,
    SPOT,
    JointSpec,
    LinkSpec,
    RobotSpec,
    ShapeSpec,
)
from .urdf import spot_urdf
from .usd import spot_usd

__all__ = [
    "FOOT_NAMES",
    "FOOT_RADIUS",
    "HIP_TORQUE_LIMIT",
    "JOINT_NAMES",
    "KNEE_ANGLES",
    "KNEE_PEAK_TORQUE",
    "KNEE_TORQUES",
    "LEG_NAMES",
    "LINK_NAMES",
    "NOMINAL_POSE",
    "PLANAR_SPOT",
    "PLANE_JOINTS",
    "SPOT",
    "JointSpec",
    "LinkSpec",
    "RobotSpec",
    "ShapeSpec",
    "foot_positions",
    "knee_torque_limit",
    "link_poses",
    "planar_spot",
    "spot_mjcf",
    "spot_urdf",
    "spot_usd",
    "standing_height",
]
