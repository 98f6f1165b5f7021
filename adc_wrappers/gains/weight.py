"""The weight on a joint: the torque it asks for, and the stiffness it adds or takes away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.spot_model import RobotSpec
from adc_wrappers.backends.spot_model.mechanics import link_poses
from adc_wrappers.core.actuators import to_numpy

__all__ = ["JointWeight", "carried", "hanging", "load_of", "standing_table"]

GRAVITY = 9.81
_SETTLING = 12.0  # time constants
_NUDGE = 0.02  # rad or m

_Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class JointWeight:
    """The weight on one joint at the nominal pose."""

    torque: float
    """What the joint must hold, N·m (N)."""

    stiffness: float
    """How that torque changes with the joint, N·m/rad (N/m). Below zero the weight pulls the joint further the further
    it is: it takes that much away from K, and a joint with a smaller K cannot hold its pose at all."""

    how: str
    """What the joint carries, in words."""

    def sag(self, stiffness: float) -> float:
        """Return by how much a joint of stiffness K gives way, rad (m); infinite if it cannot hold the weight."""
        left = stiffness + self.stiffness
        return float("inf") if left <= 0.0 else self.torque / left


def load_of(
    axis: ArrayLike, anchor: ArrayLike, mass: float, centre: ArrayLike, *, share: float = 1.0
) -> tuple[float, float]:
    """Return torque and stiffness of a mass that turns about an axis: first and second derivative of its potential.

    >>> torque, stiffness = load_of((0, 1, 0), (0, 0, 0), 2.0, (0, 0, 0.5))  # upside down: it topples
    >>> round(torque, 3), round(stiffness, 3)
    (0.0, -9.81)
    """
    axis, lever = np.asarray(axis, dtype=np.float64), np.subtract(centre, anchor)
    across = lever - axis * float(axis @ lever)
    scale = share * mass * GRAVITY
    return scale * float(np.cross(axis, lever)[2]), -scale * float(across[2])


def carried(axis: ArrayLike, anchor: ArrayLike, foot: ArrayLike, mass: float, feet: int) -> JointWeight:
    """Return the weight on a joint above a foot that carries its share of a robot: a vertical force at that point.

    >>> carried((0, 1, 0), (0, 0, 0.5), (0, 0, 0), 2.0, 1).stiffness  # straight above its foot it buckles
    -9.81
    """
    torque, stiffness = load_of(axis, anchor, mass, foot, share=1.0 / feet)
    return JointWeight(torque=-torque, stiffness=-stiffness, how=f"the robot, on {feet} feet")


def standing_table(robot: RobotSpec) -> list[JointWeight]:
    """Return the weight on every joint of a robot that stands on all its feet, each carrying the same."""
    poses = link_poses(robot.nominal_pose, robot)
    feet = len(robot.foot_names) * robot.actuated[0].legs
    found = []
    for joint in robot.actuated:
        (foot,) = (name for name in _below(robot, joint.child) if name in robot.foot_names)
        pose = poses[joint.child]
        axis = pose[:3, :3] @ np.asarray(joint.axis)
        found.append(carried(axis, pose[:3, 3], poses[foot][:3, 3], robot.total_mass, feet))
    return found


def _below(robot: RobotSpec, link: str) -> list[str]:
    """Return a link and all that hangs on it."""
    return [link, *(name for _, child in robot.children(link) for name in _below(robot, child.name))]


def hanging(probe: Any, joints: NDArray[np.int64]) -> list[JointWeight]:
    """Measure what hangs on joints, one in each env, with the gains that are live: let them settle at two targets.

    Args:
        probe: A probe with ``release`` whose world has gravity.
        joints: Which joint of each env.
    """
    rows, backend = np.arange(len(joints)), probe.backend
    stiffness = to_numpy(backend.gains().stiffness)[rows, joints]
    slowest = np.sqrt(stiffness / backend.effective_inertia()[joints]).min()
    samples = int(np.ceil(_SETTLING / slowest / probe.time_step))
    start = probe.rest()
    probe.release(joints if len(joints) > 1 else int(joints[0]))
    ends = []
    for offset in (0.0, _NUDGE):
        targets = start.copy()
        targets[rows, joints] += offset
        for _ in range(samples):
            last = probe.move(targets)
        ends.append(last[rows, joints] - start[rows, joints])
    moved = np.maximum(ends[1] - ends[0], 1e-9)
    return [
        JointWeight(torque=float(-k * end), stiffness=float(k * (_NUDGE / step - 1.0)), how="what hangs on it")
        for k, end, step in zip(stiffness, ends[0], moved, strict=True)
    ]
