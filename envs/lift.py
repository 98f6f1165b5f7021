"""The lift of a policy into a larger task: from the plane of symmetry into space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError

from .deployment import Deployment

__all__ = ["Lift", "lift_from_plane"]

_BASE = {"base_linear_velocity": (0, 2), "base_angular_velocity": (1,), "projected_gravity": (0, 2)}
"""Which axes of the base are in the plane: it moves along x and z and turns about y."""


@dataclass(frozen=True, eq=False)
class Lift:
    """Two matrices that make a policy of a larger task out of a smaller one's: ``actions @ policy(observations @ x)``.

    Whatever the smaller robot does under its policy, the larger one does under the lifted policy, as long as it is in a
    state that the smaller one knows.
    """

    observations: NDArray[np.float64]
    """What of the larger observation the smaller policy sees, ``(smaller, larger)``."""

    actions: NDArray[np.float64]
    """What the smaller action is in the larger task, ``(larger, smaller)``."""

    def apart(self) -> NDArray[np.float64]:
        """Return the projection to what the smaller policy does not see, ``(larger, larger)``."""
        seen = np.linalg.pinv(self.observations) @ self.observations
        rest: NDArray[np.float64] = np.eye(len(seen)) - seen
        return rest


def lift_from_plane(plane: Deployment, space: Deployment) -> Lift:
    """Return the lift of a robot in its plane of symmetry, whose joints each stand for a left and a right one.

    Args:
        plane: The robot with joints such as ``f_hy``.
        space: The robot with joints such as ``fl_hy`` and ``fr_hy``.

    Raises:
        CurriculumError: The two do not observe the same, or stand in other poses.
    """
    names = [part.name for part in space.observation]
    if [part.name for part in plane.observation] != names:
        raise CurriculumError(
            f"a policy that sees {', '.join(part.name for part in plane.observation)} cannot begin a training with "
            f"{', '.join(names)}: give both the same linear_velocity and moments (--set)."
        )
    pairs = _pairs(plane, space)
    scales = np.array(space.action_scale), np.array(plane.action_scale)
    mean = pairs / pairs.sum(axis=1, keepdims=True)
    blocks = []
    for part in space.observation:
        if part.now in _BASE:
            blocks.append(np.eye(part.size)[list(_BASE[part.now])])
        else:
            last = part.now == "last_action"  # targets count, and each robot has its own α
            blocks.append(mean * scales[0] / scales[1][:, np.newaxis] if last else mean)
    return Lift(_diagonal(blocks), pairs.T * scales[1] / scales[0][:, np.newaxis])


def _pairs(plane: Deployment, space: Deployment) -> NDArray[np.float64]:
    """Return 1 where a joint of the plane stands for one in space, ``(plane, space)``."""
    pairs = np.array([[float(name == own[0] + own[2:]) for own in space.joint_names] for name in plane.joint_names])
    posed = pairs * np.subtract.outer(np.array(plane.nominal_pose), np.array(space.nominal_pose))
    if not (pairs.sum(axis=1) == 2.0).all() or np.abs(posed).max() > 1e-6:
        raise CurriculumError(
            f"expected joints of a plane of symmetry, each for two of {', '.join(space.joint_names)} and in the same "
            f"nominal pose, got {', '.join(plane.joint_names)}."
        )
    return pairs


def _diagonal(blocks: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    joined = np.zeros((sum(len(block) for block in blocks), sum(block.shape[1] for block in blocks)))
    row = column = 0
    for block in blocks:
        joined[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return joined
