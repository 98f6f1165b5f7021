"""From the engine's coordinates to a :class:`RobotState`, in arrays made once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotState

from .stepping import KEPT_STEPS, BatchStepper

__all__ = ["StateReader"]

_OFF_DIAGONAL = ((1, 2, 3, -1.0), (1, 3, 2, 1.0), (2, 3, 1, -1.0))  # R_rc = 2 (q_r q_c ± w q_other), R_cr with ∓

_Array = NDArray[np.float64]


class StateReader:
    """Reads the state of a batch; float64, as the engine computes.

    Args:
        stepper: The batch.
        num_envs: Number of robots.
        links: Number of links whose contact is reported.
        fixed_pose: Position and quaternion of a welded base, ``(7,)``; None if it is free.
    """

    def __init__(self, stepper: BatchStepper, num_envs: int, links: int, fixed_pose: _Array | None) -> None:
        joints = len(stepper.joint_positions)
        self._stepper = stepper
        self._fixed_pose = fixed_pose
        self._recent = np.zeros((num_envs, KEPT_STEPS, links))
        self._rotation = np.zeros((num_envs, 3, 3))
        self._products = np.zeros((num_envs, 4, 4))
        sizes = (3, 4, 3, 3, 3, joints, joints, joints, links)
        self._state = RobotState(*(np.zeros((num_envs, size)) for size in sizes))

    def note_step(self) -> None:
        """Take up torques and contacts of the policy step just simulated."""
        forces = self._stepper.forces
        new = forces.shape[1]
        self._recent[:, : KEPT_STEPS - new] = self._recent[:, new:]
        latest = self._recent[:, KEPT_STEPS - new :]
        np.einsum("ntlc,ntlc->ntl", forces, forces, out=latest)
        np.sqrt(latest, out=latest)
        self._state.joint_torques[:] = self._stepper.torques

    def forget(self, rows: NDArray[np.int64]) -> None:
        """Drop torques and contacts of chosen robots: no physics step has been taken since their reset."""
        self._recent[rows] = 0.0
        self._state.joint_torques[rows] = 0.0

    def read(self, broken: NDArray[np.int64]) -> RobotState:
        """Return the state; every number of a broken robot is NaN."""
        state, stepper = self._state, self._stepper
        self._read_base(state)
        np.take(stepper.qpos, stepper.joint_positions, axis=1, out=state.joint_positions)
        np.take(stepper.qvel, stepper.joint_velocities, axis=1, out=state.joint_velocities)
        self._recent.max(axis=1, out=state.contact_forces)
        if broken.size:
            for values in state:
                values[broken] = np.nan
        return state

    def _read_base(self, state: RobotState) -> None:
        """A free joint has position and linear velocity in the world, angular velocity in the base's frame."""
        pose = self._stepper.qpos[:, :7] if self._fixed_pose is None else self._fixed_pose
        state.base_position[:] = pose[..., :3]
        state.base_quaternion[:] = pose[..., 3:]
        _rotation_matrices(state.base_quaternion, self._products, self._rotation)
        np.negative(self._rotation[:, 2], out=state.projected_gravity)
        if self._fixed_pose is None:
            linear = self._stepper.qvel[:, :3]
            np.einsum("nji,nj->ni", self._rotation, linear, out=state.base_linear_velocity)
            state.base_angular_velocity[:] = self._stepper.qvel[:, 3:6]
        else:
            state.base_linear_velocity[:] = 0.0
            state.base_angular_velocity[:] = 0.0


def _rotation_matrices(quaternion: _Array, products: _Array, out: _Array) -> None:
    """Write the rotation matrix of each unit quaternion (w x y z): its columns are the base's axes in the world.

    Args:
        quaternion: ``(n, 4)``.
        products: Room for ``2 q_i q_j``, ``(n, 4, 4)``.
        out: ``(n, 3, 3)``.
    """
    np.multiply(quaternion[:, :, None], quaternion[:, None, :], out=products)
    products += products
    w, square = products[:, 0], products.diagonal(axis1=1, axis2=2)
    for row, column, other, sign in _OFF_DIAGONAL:
        turn = w[:, other] * sign
        np.add(products[:, row, column], turn, out=out[:, row - 1, column - 1])
        np.subtract(products[:, row, column], turn, out=out[:, column - 1, row - 1])
    for axis, (one, two) in enumerate(((2, 3), (1, 3), (1, 2))):
        np.subtract(1.0 - square[:, one], square[:, two], out=out[:, axis, axis])
