"""Estimation from one state message of what the tasks see: height above the ground, and which links touch it."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.spot_model import FOOT_NAMES, FOOT_RADIUS, LINK_NAMES, SPOT, ShapeSpec, link_poses

from .messages import StateSample, _rotation

__all__ = ["StateEstimator"]

_Array = NDArray[np.float64]
_Pose = tuple[_Array, dict[str, _Array]]
"""The body's rotation, and every link in the body's frame."""

WEIGHT: Final = SPOT.total_mass * 9.81
LINK_FORCE: Final = 10.0
GROUND_SHARE: Final = 0.05
"""Share of the way that the ground's height moves to the lowest touching foot at every policy step: odometry drifts
slowly, and a foot that has just left the ground may still count as touching."""

TOUCHING: Final = 0.004
"""Metres above the ground below which a link other than a foot counts as touching."""


def _points(shape: ShapeSpec) -> tuple[_Array, float]:
    """Return the points of a shape whose lowest decides, in the link's frame, and the radius around them."""
    if shape.kind == "box":
        half = np.array(shape.size) / 2.0
        corners = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half
        return corners + shape.position, 0.0
    roll, pitch, _ = shape.rpy
    axis = np.array([np.cos(roll) * np.sin(pitch), -np.sin(roll), np.cos(roll) * np.cos(pitch)])
    length = shape.size[1] if shape.kind != "sphere" else 0.0
    middle = np.array(shape.position)
    return np.stack((middle - axis * length / 2.0, middle + axis * length / 2.0)), shape.size[0]


_SHAPES: Final = tuple(
    (i, name, *_points(shape))
    for i, name in enumerate(LINK_NAMES)
    if name not in FOOT_NAMES
    for shape in SPOT.link(name).collision
)
_FEET: Final = [LINK_NAMES.index(name) for name in FOOT_NAMES]


class StateEstimator:
    """An estimator of the ground's height in the odometry frame, from the feet that the robot says touch it.

    Feet: the robot's own contacts; their force is the weight shared by the feet that touch, so that only whether there
    is one means something. Other links: by kinematics, with the model's shapes, above the ground under the feet.
    """

    def __init__(self) -> None:
        self._ground: float | None = None
        self._known: tuple[StateSample, RobotState] | None = None

    def state(self, sample: StateSample) -> RobotState:
        """Return a state of one robot; worked out once per sample."""
        if self._known is None or self._known[0] is not sample:
            pose = _pose(sample)
            self._ground = self._ground_under(sample, pose)
            self._known = (sample, _work_out(sample, pose, self._ground))
        return self._known[1]

    def glance(self, sample: StateSample) -> RobotState:
        """Return the state of a sample between two policy steps, from any thread: what is known of the ground stays."""
        pose = _pose(sample)
        return _work_out(sample, pose, self._ground_under(sample, pose, follow=False))

    def above_ground(self, sample: StateSample) -> StateSample:
        """Return a sample whose height counts from the ground, once that is known; odometry counts from anywhere."""
        if self._ground is None:
            return sample
        return sample._replace(base_position=sample.base_position - np.array((0.0, 0.0, self._ground)))

    def _ground_under(self, sample: StateSample, pose: _Pose, *, follow: bool = True) -> float:
        """Return the ground's height by a sample and what was known before."""
        rotation, poses = pose
        known = self._ground
        feet = np.stack([poses[name][:3, 3] for name in FOOT_NAMES]) @ rotation.T + sample.base_position
        low = feet[:, 2] - FOOT_RADIUS
        touched = float(low[sample.contacts].min()) if sample.contacts.any() else None
        if known is None:
            return float(low.min()) if touched is None else touched
        if touched is None:
            return min(known, float(low.min()))  # in the air, where a foot is there is no ground
        return known + GROUND_SHARE * (touched - known) if follow else known


def _pose(sample: StateSample) -> _Pose:
    return _rotation(sample.base_quaternion), link_poses(sample.position)


def _work_out(sample: StateSample, pose: _Pose, ground: float) -> RobotState:
    rotation, poses = pose
    forces = np.zeros((1, len(LINK_NAMES)))
    forces[0, _FEET] = np.where(sample.contacts, WEIGHT / max(1, int(sample.contacts.sum())), 0.0)
    for index, name, points, radius in _SHAPES:
        link = poses[name]
        height = (points @ link[:3, :3].T + link[:3, 3]) @ rotation[2] + sample.base_position[2] - radius
        if height.min() - ground < TOUCHING:
            forces[0, index] = LINK_FORCE
    position = sample.base_position - np.array((0.0, 0.0, ground))
    return RobotState(
        base_position=position[None],
        base_quaternion=sample.base_quaternion[None],
        base_linear_velocity=sample.linear_velocity[None],
        base_angular_velocity=sample.angular_velocity[None],
        projected_gravity=sample.gravity[None],
        joint_positions=sample.position[None],
        joint_velocities=sample.velocity[None],
        joint_torques=sample.load[None],
        contact_forces=forces,
    )
