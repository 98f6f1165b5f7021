"""The backend: what a task calls, checked, and handed on to the worlds."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.base import (
    MAX_COMMAND_DELAY,
    RobotBackend,
    RobotParameters,
    RobotStart,
    RobotState,
    check_push_in_plane,
    check_start_in_plane,
)
from adc_wrappers.backends.spot_model import SPOT, RobotSpec, spot_urdf, standing_height
from adc_wrappers.core.actuators import Gains, damping_for
from adc_wrappers.core.env_states import EnvState, put_array
from adc_wrappers.core.errors import BackendError

from .arrays import BatchArrays, check_settings, into_body, numbers, worker_count
from .camera import Studio
from .model import WorldSettings, describe
from .workers import LocalBatch, WorkerPool

__all__ = ["BulletRobotBackend"]

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

_FIRST_STIFFNESS = 60.0
_LEAST_FACTOR = 1e-3


class BulletRobotBackend(RobotBackend):
    """A batch of Spots in PyBullet, one physics client each (about 36 MB).

    The PD law is computed here at every physics step, with the state of that step; the engine's own motors are off.
    Hips are limited to ±45 N·m, knees by Spot's table at their present angle; a URDF's own effort limits are not read.
    Robots start at rest in the nominal pose, standing, with K = 60 and critical damping.

    ``reset``, ``push`` and ``set_parameters`` take effect in the engine at the beginning of the next ``advance``;
    ``state`` shows a reset or push at once.

    Args:
        num_envs: Number of robots.
        model: URDF text, or the path of a URDF file, with Spot's joint names; by default the library's own Spot.
        physics_step: Seconds between two evaluations of the PD law.
        decimation: Physics steps in one policy step.
        workers: Processes that share the robots; 0 simulates in this process. By default 0 for fewer than 4 robots,
            otherwise one per core. Results do not depend on it.
        fixed_base: Hold the base where a reset puts it, for tests and system identification.
        gravity: m/s², downwards.
        robot: The table that the generated model and its names come from. A planar robot's joints stand for two legs
            each: gains, torques, inertias and limits are said and read per leg, as they are of Spot.

    Raises:
        BackendError: A setting is out of range, the model is not usable, or a worker could not start.
        MissingExtraError: PyBullet is not installed.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        model: str | Path | None = None,
        physics_step: float = 0.002,
        decimation: int = 10,
        workers: int | None = None,
        fixed_base: bool = False,
        gravity: float = 9.81,
        robot: RobotSpec = SPOT,
    ) -> None:
        check_settings(num_envs, physics_step, decimation, workers, gravity)
        self.num_envs = num_envs
        self.physics_step = float(physics_step)
        self.decimation = decimation
        self.joint_names = robot.joint_names
        self.nominal_pose = np.array(robot.nominal_pose)
        if robot.planar and model is not None:
            raise BackendError("model: a planar robot is generated from its table. Leave model out, or use MuJoCo.")
        on_joints = robot.planar and not fixed_base
        self._settings = WorldSettings(
            model=spot_urdf(robot, plane_joints=on_joints) if model is None else os.fspath(model),
            physics_step=self.physics_step,
            decimation=decimation,
            fixed_base=fixed_base,
            gravity=float(gravity),
            robot=robot,
        )
        self._loose = spot_urdf(robot) if model is None else self._settings.model
        self._description = describe(self._loose, robot)
        self.link_names = self._description.link_names
        self.workers = worker_count(num_envs, workers)
        self._studio: Studio | None = None
        self._closed = False
        self._batch, self._arrays = self._make_batch()
        self._arrays.friction[:] = np.nan
        self._arrays.gain_factors[:] = 1.0
        self.set_gains(*self._first_gains())
        self.reset(self._standing())

    def _make_batch(self) -> tuple[LocalBatch | WorkerPool, BatchArrays]:
        joints, links = len(self.joint_names), self.link_names
        if self.workers:
            pool = WorkerPool(self._settings, self.num_envs, joints, links, self.workers)
            return pool, pool.arrays
        arrays = BatchArrays(self.num_envs, joints, len(links))
        return LocalBatch(self._settings, arrays, links, 0, self.num_envs), arrays

    def _first_gains(self) -> tuple[Array, Array]:
        stiffness = np.full((self.num_envs, len(self.joint_names)), _FIRST_STIFFNESS)
        return stiffness, damping_for(stiffness, self._description.effective_inertia)

    def _standing(self) -> RobotStart:
        still = np.zeros((self.num_envs, 3))
        pose = np.tile(self.nominal_pose, (self.num_envs, 1))
        position = np.tile([0.0, 0.0, standing_height(self.nominal_pose, self._settings.robot)], (self.num_envs, 1))
        upright = np.tile([1.0, 0.0, 0.0, 0.0], (self.num_envs, 1))
        return RobotStart(position, upright, still, still, pose, np.zeros_like(pose))

    @property
    def explicit_time_step(self) -> float:
        """The PD law is evaluated explicitly, once per physics step."""
        return self.physics_step

    def effective_inertia(self) -> Array:
        """Return the diagonal of PyBullet's mass matrix at the nominal pose."""
        return self._description.effective_inertia.copy()

    def gains(self) -> Gains:
        """Return the gains that the next physics step uses, without the robots' factors."""
        factors = self._arrays.gain_factors[:, :, None]
        return Gains(self._arrays.stiffness / factors[:, 0], self._arrays.damping / factors[:, 1])

    def set_gains(self, stiffness: Array, damping: Array, env_ids: Rows | None = None) -> None:
        """Write gains of chosen envs (default: all); they act from the next physics step on."""
        self._get_ready()
        rows = self._rows(env_ids)
        shape = (len(rows), len(self.joint_names))
        checked = [
            numbers(name, values, shape, least=0.0) for name, values in (("stiffness", stiffness), ("damping", damping))
        ]
        factors = self._arrays.gain_factors[rows][:, :, None]
        self._arrays.stiffness[rows], self._arrays.damping[rows] = (
            checked[0] * factors[:, 0],
            checked[1] * factors[:, 1],
        )

    def reset(self, start: RobotStart, env_ids: Rows | None = None) -> None:
        """Put chosen robots into a state and forget their delayed targets and pushes; gains and parameters stay.

        A robot with a command delay holds the joint positions of its start until its first target arrives.
        """
        self._get_ready()
        rows = self._rows(env_ids)
        joints = len(self.joint_names)
        widths = (3, 4, 3, 3, joints, joints)
        parts = [
            numbers(name, values, (len(rows), width))
            for name, values, width in zip(RobotStart._fields, start, widths, strict=True)
        ]
        length = np.linalg.norm(parts[1], axis=1, keepdims=True)
        if (np.abs(length - 1.0) > 1e-3).any():
            worst = float(length[np.abs(length - 1.0).argmax(), 0])
            raise BackendError(f"base_quaternion: expected unit length (w x y z), got a length of {worst:.6g}.")
        parts[1] = parts[1] / length
        if self._settings.robot.planar:
            check_start_in_plane(RobotStart(*parts))
        self._arrays.starts[rows] = np.concatenate(parts, axis=1)
        self._arrays.reset_wanted[rows] = self._arrays.requested[rows] = 1.0
        self._arrays.pushes[rows] = 0.0
        self._arrays.show_start(rows, fixed_base=self._settings.fixed_base)

    def advance(self, targets: Array) -> None:
        """Simulate one policy step; a robot whose targets or physics are not finite shows NaN until its next reset."""
        self._get_ready()
        values = np.asarray(targets, dtype=np.float64)
        if values.shape != self._arrays.targets.shape:
            raise BackendError(
                f"targets: expected shape {self._arrays.targets.shape} (envs, joints), got {values.shape}."
            )
        self._arrays.targets[:] = values
        try:
            self._batch.advance()
        except BackendError:
            self.close()
            raise

    def state(self) -> RobotState:
        """Return views of the present state, which the next ``advance`` or ``reset`` overwrites."""
        self._batch.settle()
        return self._arrays.state

    def push(self, velocity_change: Array, env_ids: Rows) -> None:
        """Add to the base's linear velocity in the world frame; a fixed base does not move."""
        self._get_ready()
        rows = self._rows(env_ids)
        change = numbers("velocity_change", velocity_change, (len(rows), 3))
        if self._settings.fixed_base:
            return
        if self._settings.robot.planar:
            check_push_in_plane(change)
        state = self._arrays.state
        np.add.at(self._arrays.pushes, rows, change)
        self._arrays.requested[rows] = 1.0
        np.add.at(state.base_linear_velocity, rows, into_body(state.base_quaternion[rows], change))

    def set_parameters(self, parameters: RobotParameters, env_ids: Rows) -> None:
        """Give chosen robots friction (of every link, the ground having 1), base mass, and what their joints are like.

        PyBullet has no armature.
        """
        self._get_ready()
        if parameters.joint_armature is not None:
            raise BackendError("joint_armature: PyBullet has no rotor inertia of joints. Use the MuJoCo backend.")
        rows = self._rows(env_ids)
        per_joint = (len(rows), len(self.joint_names))
        lightest = 0.01 - self._description.base_mass
        bounds = {
            "friction": (0.0, np.inf),
            "base_mass_offset": (lightest, np.inf),
            "command_delay": (0.0, float(MAX_COMMAND_DELAY)),
            "stiffness_factor": (_LEAST_FACTOR, np.inf),
            "damping_factor": (_LEAST_FACTOR, np.inf),
            "joint_coulomb": (0.0, np.inf),
            "joint_viscous": (0.0, np.inf),
        }
        given = {name: getattr(parameters, name) for name in bounds if getattr(parameters, name) is not None}
        checked = {
            name: numbers(name, values, per_joint if name.startswith("joint") else per_joint[:1], *bounds[name])
            for name, values in given.items()
        }
        delay = checked.get("command_delay")
        if delay is not None and (delay != np.round(delay)).any():
            raise BackendError(f"command_delay: expected whole physics steps, got {delay.tolist()}.")
        self._set_factors(checked.pop("stiffness_factor", None), checked.pop("damping_factor", None), rows)
        for name, values in checked.items():
            getattr(self._arrays, name)[rows] = values
        self._arrays.parameters_changed[rows] = self._arrays.requested[rows] = 1.0

    def _set_factors(self, stiffness: Array | None, damping: Array | None, rows: Rows) -> None:
        """Give chosen robots factors on K or B; the gains stay."""
        gains = self.gains()
        for column, values in enumerate((stiffness, damping)):
            if values is not None:
                self._arrays.gain_factors[rows, column] = values
        self.set_gains(gains.stiffness[rows], gains.damping[rows], rows)

    def physics_state(self) -> EnvState:
        """Return every robot's motion, parameters, targets and requests under way, and contacts.

        PyBullet cannot be put into a state to the last bit, so the robots are put into this one anew, as those will be
        that load it: see :meth:`.world.World.save`.
        """
        self._get_ready()
        self._batch.save()
        return {**self._arrays.save(), "gain_factors": self._arrays.gain_factors.copy()}

    def load_physics_state(self, state: EnvState) -> None:
        """Restore them."""
        self._get_ready()
        factors = np.ones_like(self._arrays.gain_factors)
        if "gain_factors" in state:  # older checkpoints have none
            put_array(factors, state, "gain_factors")
        self._set_factors(factors[:, 0], factors[:, 1], self._rows(None))
        self._arrays.load(state)
        self._batch.load()

    def render(self, env_id: int = 0) -> NDArray[np.uint8]:
        """Return a picture of one robot, 640 × 400, RGB; the camera follows it."""
        self._get_ready()
        (row,) = self._rows(np.array([env_id]))
        if self._studio is None:
            self._studio = Studio(self._loose, self._settings.robot)
        state = self._arrays.state
        return self._studio.photograph(state.base_position[row], state.base_quaternion[row], state.joint_positions[row])

    def close(self) -> None:
        """Stop the workers and give the physics clients back; may be called twice."""
        self._closed = True
        self._batch.close()
        if self._studio is not None:
            self._studio.close()

    def _get_ready(self) -> None:
        """Refuse to work when closed, and wait for workers that an interrupt has left at work on the arrays."""
        if self._closed:
            raise BackendError("this backend has been closed. Make a new one.")
        self._batch.settle()

    def _rows(self, env_ids: ArrayLike | None) -> Rows:
        if env_ids is None:
            return np.arange(self.num_envs)
        rows = np.asarray(env_ids)
        if rows.size == 0:
            rows = rows.astype(np.int64)
        whole = rows.ndim == 1 and np.issubdtype(rows.dtype, np.integer)
        if not whole or (rows < 0).any() or (rows >= self.num_envs).any():
            raise BackendError(f"env_ids: expected whole numbers from 0 to {self.num_envs - 1}, got {rows.tolist()}.")
        return rows.astype(np.int64)
