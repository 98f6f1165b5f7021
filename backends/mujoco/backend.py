"""A batch of Spots, or of other legged robots, in MuJoCo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.base import RobotBackend, RobotParameters, RobotStart, RobotState
from adc_wrappers.backends.spot_model import SPOT, RobotSpec
from adc_wrappers.core.actuators import Gains, damping_for
from adc_wrappers.core.cores import available_cores
from adc_wrappers.core.env_states import EnvState, part_of, put_array

from .base_motion import base_motion
from .layout import RobotLayout
from .model import base_body, compile_robot, joint_inertia, load_spec
from .parameters import JOINT_FIELDS, LiveParameters, check_gains, check_sizes, row_indices, shaped
from .reading import StateReader
from .rendering import RobotCamera
from .stepping import BatchStepper, CommandDelay, JointTrack

__all__ = ["MujocoRobotBackend"]

_START_STIFFNESS = 60.0
_PICTURE = (640, 480)


class MujocoRobotBackend(RobotBackend):
    """Robots stepped by :mod:`mujoco.batch`, one thread per core, each robot with its own gains, friction and mass.

    **The PD law** is MuJoCo's affine actuator: ``force = K·q_d − K·q − B·q̇`` at the start of every physics step,
    clipped to the joint's torque limit; for Spot's knees that is the limit at the present angle, within 0.1 N·m. The
    integrator is ``implicitfast``: it takes the term in ``B`` implicitly (with the velocity at the end of the step) and
    the term in ``K`` explicitly. A clipped torque is constant over the step. Gains are refused where this is unstable,
    which is where ``K dt²/M ≥ 4 + 2 B dt/M``: far beyond the limit of an explicit law.

    **Determinism**: a robot's motion depends on its own state, parameters and targets alone, to the last bit: not on
    the number of threads, nor on the other robots.

    **Instability**: a robot whose state is not finite, has a coordinate faster than 1000 m/s or rad/s, or makes the
    engine warn, and one that is given a target that is not finite, reads NaN in every number until it is reset. Nothing
    is printed or logged. The others do not notice.

    Args:
        num_envs: Number of robots.
        model: Text or path of an MJCF or URDF, or an ``MjSpec``; default: the generated Spot. Its actuators, sensors,
            keyframes, joint springs and joint dampings are replaced by ours, see :func:`.model.compile_robot`.
        physics_step: Seconds between two evaluations of the PD law.
        decimation: Physics steps in one policy step.
        nthread: Threads; default: one per core this process may use.
        self_collision: Let links of the robot collide with each other.
        joint_names: Actuated joints, in the order of every joint array; default: Spot's.
        link_names: Links whose ground contact is reported; default: Spot's.
        nominal_pose: q_0, rad; default: Spot's stance.
        torque_limits: Largest torque per joint at any angle, N·m; default: Spot's.
        knee_joints: Joints whose limit follows Spot's knee table as well; default: Spot's knees.
        fixed_base: Weld the base where the model has it and switch contacts off, for system identification. The base's
            part of a start is then not used.
        gravity: False switches gravity off.
        picture_size: Width and height of pictures.
        robot: The table that the generated model and everything not given come from. A planar robot's joints stand for
            two legs each: gains, torques, inertias and limits are said and read per leg, as they are of Spot.

    Raises:
        BackendError: A setting is off, or the model lacks a joint or link.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        model: str | Path | Any | None = None,
        physics_step: float = 0.002,
        decimation: int = 10,
        nthread: int | None = None,
        self_collision: bool = False,
        joint_names: Sequence[str] | None = None,
        link_names: Sequence[str] | None = None,
        nominal_pose: ArrayLike | None = None,
        torque_limits: ArrayLike | None = None,
        knee_joints: Sequence[str] | None = None,
        fixed_base: bool = False,
        gravity: bool = True,
        picture_size: tuple[int, int] = _PICTURE,
        robot: RobotSpec = SPOT,
    ) -> None:
        threads = available_cores() if nthread is None else nthread
        check_sizes(num_envs, physics_step, decimation, threads)
        layout = RobotLayout.make(joint_names, link_names, nominal_pose, torque_limits, knee_joints, robot)
        spec = load_spec(model, self_collision, robot=robot)
        compiled = compile_robot(
            spec, layout, physics_step=physics_step, self_collision=self_collision, fixed_base=fixed_base,
            gravity=gravity,
        )  # fmt: skip
        self.num_envs = num_envs
        self.joint_names = layout.joint_names
        self.link_names = layout.link_names
        self.physics_step = physics_step
        self.decimation = decimation
        self.nominal_pose = layout.nominal_pose
        self._layout = layout
        self._fixed_base = fixed_base
        self._picture_size = picture_size
        self._drawn = load_spec(model, self_collision, visuals=True, robot=robot)
        self._camera: RobotCamera | None = None
        self._inertia = joint_inertia(compiled, layout)
        self._base = int(base_body(spec, layout).id)
        self._motion = base_motion(compiled, self._base, layout, num_envs, fixed_base)
        self._stepper = BatchStepper(compiled, num_envs, min(threads, num_envs), decimation, layout, self._motion)
        self._reader = StateReader(self._stepper, num_envs, len(layout.link_names), self._motion)
        self._parameters = LiveParameters(self._stepper, compiled, self._base, layout.legs)
        self._commands = CommandDelay(num_envs, layout.nominal_pose, decimation)
        self._alive = np.ones(num_envs, dtype=bool)
        self._read: RobotState | None = None
        start = np.full((num_envs, len(layout.joint_names)), _START_STIFFNESS)
        self.set_gains(start, damping_for(start, self._inertia))

    def effective_inertia(self) -> NDArray[np.float64]:
        """Return M per joint, from the engine's mass matrix at the nominal pose."""
        return self._inertia.copy()

    def gains(self) -> Gains:
        """Return copies of the gains the engine's actuators have."""
        return self._parameters.gains()

    def set_gains(
        self,
        stiffness: NDArray[np.float64],
        damping: NDArray[np.float64],
        env_ids: NDArray[np.int64] | None = None,
    ) -> None:
        """Write gains; they act from the next physics step on."""
        rows = row_indices(env_ids, self.num_envs)
        shape = (len(rows), len(self.joint_names))
        k, b = shaped("stiffness", stiffness, shape), shaped("damping", damping, shape)
        check_gains(k, b, self._inertia, self.physics_step, self._layout)
        self._parameters.set_gains(k, b, slice(None) if env_ids is None else rows)

    def reset(self, start: RobotStart, env_ids: NDArray[np.int64] | None = None) -> None:
        """Put chosen robots into a state.

        Their torques and contacts read zero until the next physics step. A robot with a command delay holds the joint
        positions of its start until its first target arrives.
        """
        rows = row_indices(env_ids, self.num_envs)
        joints = len(self.joint_names)
        sizes = (3, 4, 3, 3, joints, joints)
        parts = zip(RobotStart._fields, start, sizes, strict=True)
        values = RobotStart(*(shaped(name, part, (len(rows), size)) for name, part, size in parts))
        qpos, qvel = self._coordinates(values)
        self._stepper.place(qpos, qvel, rows)
        self._commands.forget(values.joint_positions, rows)
        self._reader.forget(rows)
        self._alive[rows] = True
        self._retire(~self._stepper.sound())

    def _coordinates(self, start: RobotStart) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a start in the engine's coordinates."""
        rows = len(start.joint_positions)
        qpos = np.zeros((rows, self._stepper.qpos.shape[1]))
        qvel = np.zeros((rows, self._stepper.qvel.shape[1]))
        self._motion.write(start, qpos, qvel)
        qpos[:, self._stepper.joint_positions] = start.joint_positions
        qvel[:, self._stepper.joint_velocities] = start.joint_velocities
        return qpos, qvel

    def advance(self, targets: NDArray[np.float64]) -> None:
        """Simulate one policy step."""
        wanted = shaped("targets", targets, (self.num_envs, len(self.joint_names)))
        bad: NDArray[np.bool_] = np.asarray(~np.isfinite(wanted).all(axis=1))
        if bad.any():
            wanted = np.where(bad[:, np.newaxis], self.nominal_pose, wanted)
        self._stepper.run(self._commands.spread(wanted))
        self._settle(bad)

    def advance_each(self, targets: NDArray[np.float64]) -> JointTrack:
        """Simulate one policy step under the targets of each of its physics steps, ``(n, decimation, joints)``.

        They act as they are: the command delay of the parameters is not used.

        Returns:
            The joints after each physics step; all NaN for a robot whose simulation is broken.
        """
        wanted = shaped("targets", targets, (self.num_envs, self.decimation, len(self.joint_names)))
        bad: NDArray[np.bool_] = np.asarray(~np.isfinite(wanted).all(axis=(1, 2)))
        if bad.any():
            wanted = np.where(bad[:, np.newaxis, np.newaxis], self.nominal_pose, wanted)
        track = JointTrack(*(np.empty(wanted.shape) for _ in JointTrack._fields))
        self._stepper.run(wanted, track)
        self._settle(bad)
        for part in track:
            part[~self._alive] = np.nan
        return track

    def _settle(self, bad: NDArray[np.bool_]) -> None:
        """Take up what a policy step has left, and take broken robots out of play."""
        self._reader.note_step()
        self._retire(bad | ~self._stepper.sound())

    def _retire(self, broken: NDArray[np.bool_]) -> None:
        """Take robots whose simulation broke out of play until their reset."""
        self._read = None
        self._alive &= ~broken
        if not self._alive.all():
            self._stepper.park(np.flatnonzero(~self._alive))

    def state(self) -> RobotState:
        """Return the present state, float64; read once per step or reset."""
        if self._read is None:
            self._read = self._reader.read(np.flatnonzero(~self._alive))
        return self._read

    def push(self, velocity_change: NDArray[np.float64], env_ids: NDArray[np.int64]) -> None:
        """Add to the base's linear velocity in the world frame."""
        rows = row_indices(env_ids, self.num_envs)
        change = shaped("velocity_change", velocity_change, (len(rows), 3))
        self._motion.push(self._stepper.qvel, rows, change)
        self._retire(~self._stepper.sound())

    def set_parameters(self, parameters: RobotParameters, env_ids: NDArray[np.int64]) -> None:
        """Give chosen robots friction, base mass, command delay, gain factors, and armature and friction of joints."""
        rows = row_indices(env_ids, self.num_envs)
        if parameters.friction is not None:
            self._parameters.set_friction(shaped("friction", parameters.friction, (len(rows),)), rows)
        if parameters.base_mass_offset is not None:
            offset = shaped("base_mass_offset", parameters.base_mass_offset, (len(rows),))
            self._parameters.set_base_mass(offset, rows)
        if parameters.command_delay is not None:
            delay = shaped("command_delay", parameters.command_delay, (len(rows),))
            self._commands.set_delays(delay, rows)
        for name in ("stiffness_factor", "damping_factor"):
            if getattr(parameters, name) is not None:
                self._parameters.set_factor(name, shaped(name, getattr(parameters, name), (len(rows),)), rows)
        for name in JOINT_FIELDS:
            if getattr(parameters, name) is not None:
                values = shaped(name, getattr(parameters, name), (len(rows), len(self.joint_names)))
                self._parameters.set_joint_dynamics(name, values, rows)

    def physics_state(self) -> EnvState:
        """Return motion with the solver's warm start, parameters, targets under way, torques and contacts."""
        return {
            "motion": self._stepper.save(),
            "parameters": self._parameters.save(),
            "commands": self._commands.save(),
            "reading": self._reader.save(),
            "alive": self._alive.copy(),
        }

    def load_physics_state(self, state: EnvState) -> None:
        """Restore them; the robots go on to the last bit as those that were saved."""
        put_array(self._alive, state, "alive")
        self._parameters.load(part_of(state, "parameters"), self.num_envs)
        self._commands.load(part_of(state, "commands"))
        self._reader.load(part_of(state, "reading"))
        self._stepper.load(part_of(state, "motion"))
        self._read = None

    def render(self, env_id: int = 0) -> NDArray[np.uint8]:
        """Return a picture of one robot, RGB, ``(height, width, 3)``; a broken robot is drawn as it waits."""
        row = int(row_indices(np.array([env_id]), self.num_envs)[0])
        if self._camera is None:
            drawn = compile_robot(
                self._drawn.copy(), self._layout, physics_step=self.physics_step, fixed_base=self._fixed_base
            )
            self._camera = RobotCamera(drawn, self._base, *self._picture_size)
        return self._camera.picture(self._stepper.qpos[row])

    def close(self) -> None:
        """Release the graphics context; may be called twice."""
        if self._camera is not None:
            self._camera.close()
            self._camera = None
