"""The lift of a policy into a larger task: from the plane of symmetry into space, or to more observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError

from .deployment import Deployment, ObservationPart

__all__ = ["Lift", "lift_from_less", "lift_from_plane", "lift_value"]

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

    unseen: float = 1.0
    """Factor on the first weights of what the smaller policy does not see; 0: at first as if it were not there."""

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


def lift_from_less(less: Deployment, more: Deployment) -> Lift | None:
    """Return the lift of the same robot's policy that sees fewer moments, or has another action scale.

    Args:
        less: What the policy was made for.
        more: What it is lifted to.

    Returns:
        The lift; None where both are the same, and nothing is to be done.

    Raises:
        CurriculumError: The policy sees what cannot be seen there, or moves other joints.
    """
    if less.joint_names != more.joint_names or less.nominal_pose != more.nominal_pose:
        raise CurriculumError(
            f"expected a policy of the same joints in the same nominal pose: {', '.join(more.joint_names)}; got "
            f"{', '.join(less.joint_names)}."
        )
    if less.observation == more.observation and less.action_scale == more.action_scale:
        return None
    ratio = np.array(less.action_scale) / np.array(more.action_scale)
    return Lift(_seen(less.observation, more.observation, ratio), np.diag(ratio), unseen=0.0)


def lift_value(less: Deployment, more: Deployment, parts: Sequence[ObservationPart], size: int) -> Lift:
    """Return the lift of a value network to one that sees other numbers than the policy.

    Args:
        less: What the smaller network's policy was made for; the network sees what that sees.
        more: What the other policy is made for.
        parts: The parts of an observation that the other network's view begins with.
        size: How many numbers the view has.
    """
    ratio = np.array(less.action_scale) / np.array(more.action_scale)
    rest = size - sum(part.size for part in parts)
    return Lift(np.pad(_seen(less.observation, parts, ratio), ((0, 0), (0, rest))), np.ones((1, 1)), unseen=0.0)


def _seen(
    less: Sequence[ObservationPart], more: Sequence[ObservationPart], ratio: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what of the larger observation is the smaller one, ``(smaller, larger)``; targets count, whatever α is."""
    names = [part.name for part in more]
    missing = [part.name for part in less if part.name not in names]
    if missing:
        raise CurriculumError(
            f"a policy that sees {', '.join(missing)} cannot begin a training with {', '.join(names)}: give both the "
            "same linear_velocity, and no fewer moments (--set)."
        )
    begins = dict(zip(names, np.cumsum([0, *(part.size for part in more)]), strict=False))
    seen = np.zeros((sum(part.size for part in less), sum(part.size for part in more)))
    row = 0
    for part in less:
        scale = np.diag(1.0 / ratio) if part.now == "last_action" else np.eye(part.size)
        seen[row : row + part.size, begins[part.name] : begins[part.name] + part.size] = scale
        row += part.size
    return seen


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
