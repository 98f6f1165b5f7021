"""The layout of a robot: its joints and links, and what its joints can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.spot_model import SPOT, RobotSpec
from adc_wrappers.core.errors import BackendError

__all__ = ["RobotLayout"]


@dataclass(frozen=True, eq=False)
class RobotLayout:
    """Names, nominal pose and torque limits of a robot, all in the order of ``joint_names``."""

    joint_names: tuple[str, ...]
    link_names: tuple[str, ...]
    nominal_pose: NDArray[np.float64]
    """rad, ``(joints,)``."""

    torque_limits: NDArray[np.float64]
    """Largest torque at any angle, N·m, ``(joints,)``."""

    knees: NDArray[np.int64]
    """Indices of the joints whose limit follows Spot's knee table."""

    legs: NDArray[np.float64]
    """How many legs each joint stands for, ``(joints,)``. Every other number of a joint is that of one leg."""

    planar: bool
    """Whether the base moves in the plane y = 0 only."""

    @classmethod
    def make(
        cls,
        joint_names: Sequence[str] | None = None,
        link_names: Sequence[str] | None = None,
        nominal_pose: ArrayLike | None = None,
        torque_limits: ArrayLike | None = None,
        knee_joints: Sequence[str] | None = None,
        robot: RobotSpec = SPOT,
    ) -> RobotLayout:
        """Fill what is not given from a robot's table, joint by joint, by name.

        Args:
            joint_names: The actuated joints; default: the table's.
            link_names: Links whose ground contact is reported; default: the table's.
            nominal_pose: rad, one per joint; default: the table's stance.
            torque_limits: N·m, one per joint, ``inf`` for none; default: Spot's hips 45 and the knee table's peak.
            knee_joints: Joints whose limit depends on their angle as Spot's knee's does; default: the table's knees.
            robot: The table.

        Raises:
            BackendError: A length is wrong, a number is off, or a joint that the table does not have lacks its numbers.

        Example:
            >>> RobotLayout.make().torque_limits[:3].tolist()
            [45.0, 45.0, 113.236015]
        """
        table = {joint.name: joint for joint in robot.actuated}
        names = tuple(table if joint_names is None else joint_names)
        foreign = [name for name in names if name not in table]
        if foreign and (nominal_pose is None or torque_limits is None):
            raise BackendError(
                f"{robot.name.capitalize()} has no joint {', '.join(foreign)}, so its table gives no numbers for it. "
                "Pass nominal_pose and torque_limits for your joint_names."
            )
        poses = dict(zip(table, robot.nominal_pose, strict=True))
        knees = [name for name in names if name in table and name.endswith("_kn")]
        return cls(
            names,
            tuple(robot.link_names if link_names is None else link_names),
            _per_joint("nominal_pose", [poses[n] for n in names] if nominal_pose is None else nominal_pose, names),
            _limits([table[n].effort for n in names] if torque_limits is None else torque_limits, names),
            _indices(knees if knee_joints is None else knee_joints, names),
            _per_joint("legs", [table[n].legs if n in table else 1 for n in names], names),
            robot.planar,
        )


def _per_joint(what: str, values: ArrayLike, names: Sequence[str]) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    if array.shape != (len(names),) or np.isnan(array).any():
        raise BackendError(f"{what}: expected {len(names)} numbers, one per joint, got {array.tolist()}.")
    array.setflags(write=False)
    return array


def _limits(values: ArrayLike, names: Sequence[str]) -> NDArray[np.float64]:
    limits = _per_joint("torque_limits", values, names)
    if not (limits > 0.0).all():
        raise BackendError(f"torque_limits: expected positive numbers, got {limits.tolist()}.")
    return limits


def _indices(chosen: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise BackendError(f"knee_joints: {', '.join(unknown)} not among the joints {', '.join(names)}.")
    return np.array([names.index(name) for name in chosen], dtype=np.int64)
