"""The numbers that the backend and its worlds exchange: checked, in one block of memory that workers share."""

from __future__ import annotations

import multiprocessing
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import MAX_COMMAND_DELAY, RobotState
from adc_wrappers.core.cores import available_cores
from adc_wrappers.core.env_states import EnvState, put_array
from adc_wrappers.core.errors import BackendError

__all__ = [
    "CONTACT_STEPS",
    "BatchArrays",
    "check_settings",
    "into_body",
    "numbers",
    "saved_width",
    "state_width",
    "worker_count",
]


Array = NDArray[np.float64]
_FEW_ENVS = 4


def numbers(name: str, values: Any, shape: tuple[int, ...], least: float = -np.inf, most: float = np.inf) -> Array:
    """Return finite numbers of this shape and range, or say what is wrong with them."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise BackendError(f"{name}: expected shape {shape}, got {array.shape}.")
    if not (np.isfinite(array).all() and (array >= least).all() and (array <= most).all()):
        raise BackendError(f"{name}: expected finite numbers from {least:g} to {most:g}, got {array.tolist()}.")
    return array


def check_settings(num_envs: int, physics_step: float, decimation: int, workers: int | None, gravity: float) -> None:
    """Refuse settings that no world can have."""
    for name, value, least in (("num_envs", num_envs, 1), ("decimation", decimation, 1), ("workers", workers or 0, 0)):
        if operator.index(value) < least:
            raise BackendError(f"{name}: expected a whole number of at least {least}, got {value}.")
    if not (np.isfinite(physics_step) and physics_step > 0.0 and np.isfinite(gravity)):
        raise BackendError(f"expected a physics_step above 0 and a finite gravity, got {physics_step} and {gravity}.")


def worker_count(num_envs: int, workers: int | None) -> int:
    """Return how many processes to start; a daemonic process may start none."""
    daemonic = multiprocessing.current_process().daemon
    if workers is None:
        return 0 if daemonic or num_envs < _FEW_ENVS else min(num_envs, available_cores())
    if workers and daemonic:
        raise BackendError(
            f"workers={workers}: this process is itself a daemonic worker, which may start none. Use workers=0 here."
        )
    return min(workers, num_envs)


CONTACT_STEPS = 3
"""Physics steps whose ground forces are kept."""

_POSE_AND_VELOCITY = 13


def state_width(joints: int, links: int) -> int:
    """Return how many numbers make up the state of one robot."""
    return 16 + 3 * joints + links


def saved_width(joints: int, links: int) -> int:
    """Return how many numbers a world is saved as: whether it failed, base, joints, targets under way, contacts."""
    return 1 + _POSE_AND_VELOCITY + 2 * joints + (MAX_COMMAND_DELAY + 1) * joints + CONTACT_STEPS * links


class BatchArrays:
    """Named views of one flat float64 buffer, each with one row per env.

    The backend writes commands and requests; the world of a row carries requests out before its next physics step and
    takes the request back. So a policy step needs one signal per worker, whatever was asked in between.

    Args:
        num_envs: Rows.
        joints: Joints of a robot.
        links: Links whose contact is reported.
        buffer: Memory of :meth:`size` float64 numbers, all zero; by default new memory of this process.
    """

    def __init__(self, num_envs: int, joints: int, links: int, buffer: Any = None) -> None:
        size = self.size(num_envs, joints, links)
        flat = np.zeros(size) if buffer is None else np.frombuffer(buffer, dtype=np.float64, count=size)
        self._flat, self._taken, self._rows = flat, 0, num_envs
        self.targets = self._take(joints)
        self.stiffness = self._take(joints)
        self.damping = self._take(joints)
        self.starts = self._take(_POSE_AND_VELOCITY + 2 * joints)
        """Position, quaternion w x y z, world velocity, body angular velocity, joint angles and speeds."""
        self.pushes = self._take(3)
        """Velocity still to be added to the base."""
        self.friction = self._take(1)[:, 0]
        """NaN: as the model says."""
        self.base_mass_offset = self._take(1)[:, 0]
        self.command_delay = self._take(1)[:, 0]
        self.gain_factors = self._take(2)
        """What the robots make of K and of B; the gains here have them in."""
        self.joint_coulomb = self._take(joints)
        self.joint_viscous = self._take(joints)
        self.requested = self._take(1)[:, 0]
        """1 where any of the following waits; a push waits where it is not 0."""
        self.reset_wanted = self._take(1)[:, 0]
        """1 where the row of ``starts`` waits to be taken over."""
        self.parameters_changed = self._take(1)[:, 0]
        """1 where friction, mass, delay or joint friction wait to be taken over."""
        self.saved = self._take(saved_width(joints, links))
        """What a world was last saved as, or is to be put into."""
        self.states = self._take(state_width(joints, links))
        ends = np.cumsum([3, 4, 3, 3, 3, joints, joints, joints])
        self.state = RobotState(*np.split(self.states, ends, axis=1))
        """``states`` by name: views."""

    @staticmethod
    def size(num_envs: int, joints: int, links: int) -> int:
        """Return how many float64 numbers the buffer must hold."""
        commands_and_requests = 5 * joints + (_POSE_AND_VELOCITY + 2 * joints) + 3 + 8
        return num_envs * (commands_and_requests + saved_width(joints, links) + state_width(joints, links))

    def _take(self, columns: int) -> Array:
        begin = self._taken
        self._taken += self._rows * columns
        return self._flat[begin : self._taken].reshape(self._rows, columns)

    def save(self) -> EnvState:
        """Return what the worlds were saved as, what was requested since, and the states that are shown."""
        return {name: values.copy() for name, values in self._lasting().items()}

    def load(self, state: EnvState) -> None:
        """Restore it; of a run that was saved when delays were shorter, with fewer targets under way."""
        state = {**state, "saved": _with_more_targets(state.get("saved"), self.saved.shape[1], self.targets.shape[1])}
        for name, values in self._lasting().items():
            put_array(values, state, name)
        self.requested[:] = 1.0  # whether anything waits is seen at the next step

    def _lasting(self) -> dict[str, Array]:
        names = (
            "saved", "states", "starts", "pushes", "reset_wanted", "friction", "base_mass_offset", "command_delay",
            "joint_coulomb", "joint_viscous",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def show_start(self, rows: NDArray[np.int64], *, fixed_base: bool) -> None:
        """Write the state that the requested starts of these rows amount to: no torque and no contact yet."""
        start, state, shown = self.starts[rows], self.state, 16 + (self.starts.shape[1] - _POSE_AND_VELOCITY)
        quaternion = start[:, 3:7]
        down = np.broadcast_to(np.array([0.0, 0.0, -1.0]), (len(rows), 3))
        state.base_position[rows] = start[:, :3]
        state.base_quaternion[rows] = quaternion
        state.base_linear_velocity[rows] = 0.0 if fixed_base else into_body(quaternion, start[:, 7:10])
        state.base_angular_velocity[rows] = 0.0 if fixed_base else start[:, 10:13]
        state.projected_gravity[rows] = into_body(quaternion, down)
        self.states[rows, 16:shown] = start[:, _POSE_AND_VELOCITY:]
        self.states[rows, shown:] = 0.0


def _with_more_targets(saved: Any, width: int, joints: int) -> Any:
    """Return saved rows with their oldest targets repeated until they are as wide as rows are now."""
    missing = width - saved.shape[1] if isinstance(saved, np.ndarray) and saved.ndim == 2 else 0
    if missing <= 0 or missing % joints:
        return saved
    begin = 1 + _POSE_AND_VELOCITY + 2 * joints
    oldest = np.tile(saved[:, begin : begin + joints], missing // joints)
    return np.concatenate((saved[:, :begin], oldest, saved[:, begin:]), axis=1)


def into_body(quaternion: Array, vector: Array) -> Array:
    """Turn world vectors ``(n, 3)`` into the frames whose orientations are ``quaternion``, w x y z, ``(n, 4)``."""
    scalar, axis = quaternion[:, :1], quaternion[:, 1:]
    twice = 2.0 * np.cross(axis, vector)
    return np.asarray(vector - scalar * twice + np.cross(axis, twice))
