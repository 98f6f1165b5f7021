"""Readings of the engine's coordinates as a :class:`RobotState`, in arrays made once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotState
from adc_wrappers.core.env_states import EnvState, put_array

from .base_motion import BaseMotion
from .stepping import KEPT_STEPS, BatchStepper

__all__ = ["StateReader"]


class StateReader:
    """A reader of a batch's state; float64, as the engine computes.

    Args:
        stepper: The batch.
        num_envs: Number of robots.
        links: Number of links whose contact is reported.
        base: How the base moves.
    """

    def __init__(self, stepper: BatchStepper, num_envs: int, links: int, base: BaseMotion) -> None:
        joints = len(stepper.joint_positions)
        self._stepper = stepper
        self._base = base
        self._recent = np.zeros((num_envs, KEPT_STEPS, links))
        sizes = (3, 4, 3, 3, 3, joints, joints, joints, links)
        self._state = RobotState(*(np.zeros((num_envs, size)) for size in sizes))
        self._broken: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

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

    def save(self) -> EnvState:
        """Return the torques and contacts last taken up."""
        return {"recent": self._recent.copy(), "torques": self._state.joint_torques.copy()}

    def load(self, state: EnvState) -> None:
        """Restore them."""
        put_array(self._recent, state, "recent")
        put_array(self._state.joint_torques, state, "torques")

    def read(self, broken: NDArray[np.int64]) -> RobotState:
        """Return the state; every number of a broken robot is NaN."""
        state, stepper = self._state, self._stepper
        for values in state[:5] if self._broken.size else ():
            values[self._broken] = 0.0  # a base that moves in its plane writes no more than its plane
        self._base.read(stepper.qpos, stepper.qvel, state)
        np.take(stepper.qpos, stepper.joint_positions, axis=1, out=state.joint_positions)
        np.take(stepper.qvel, stepper.joint_velocities, axis=1, out=state.joint_velocities)
        self._recent.max(axis=1, out=state.contact_forces)
        self._broken = broken
        if broken.size:
            for values in state:
                values[broken] = np.nan
        return state
