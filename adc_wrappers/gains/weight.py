"""What the weight does to a joint: the torque it asks for, and the stiffness it adds or takes away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.spot_model import RobotSpec
from adc_wrappers.backends.spot_model.mechanics import link_poses
from adc_wrappers.core.actuators import to_numpy

__all__ = ["JointWeight", "hanging", "load_of", "standing_table"]

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


def standing_table(robot: RobotSpec) -> list[JointWeight]:
    """Return the weight on every joint of a robot that stands on all its feet, each carrying the same.

    A foot is planted, and everything on the body's side of a joint turns about it.
    """
    poses = link_poses(robot.nominal_pose, robot)
    feet = len(robot.foot_names) * robot.actuated[0].legs
    masses = {link.name: link.mass for link in robot.links}
    centres = {link.name: (poses[link.name] @ [*link.com, 1.0])[:3] for link in robot.links}
    found = []
    for joint in robot.actuated:
        far = _below(robot, joint.child)
        near = [name for name in masses if name not in far]
        mass = sum(masses[name] for name in near)
        centre = sum(masses[name] * centres[name] for name in near) / mass
        pose = poses[joint.child]
        torque, stiffness = load_of(pose[:3, :3] @ np.asarray(joint.axis), pose[:3, 3], mass, centre, share=1.0 / feet)
        found.append(JointWeight(torque=-torque, stiffness=stiffness, how=f"the robot, on {feet} feet"))
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
