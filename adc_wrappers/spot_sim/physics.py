"""The simulated body: the Spot of the MuJoCo backend, free or held, a physics step at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotStart
from adc_wrappers.backends.mujoco import RobotLayout
from adc_wrappers.backends.mujoco.engine import mujoco
from adc_wrappers.backends.mujoco.model import base_body, compile_robot, joint_inertia, load_spec
from adc_wrappers.backends.mujoco.parameters import check_gains
from adc_wrappers.backends.spot_model import (
    FOOT_NAMES,
    JOINT_NAMES,
    LINK_NAMES,
    SPOT,
    knee_torque_limit,
    standing_height,
)

from .clock import SECOND
from .motion import SIT_POSE, PdTargets
from .readings import Reading
from .settings import PracticeSettings

__all__ = ["PHYSICS_STEP", "Base", "FreeBase", "HeldBase", "SpotPhysics"]


_Array = NDArray[np.float64]


class Base(ABC):
    """The body in the simulation; positions in m and velocities in m/s in the world, angular ones in the body."""

    @property
    @abstractmethod
    def pose(self) -> _Array:
        """Position and quaternion w x y z, ``(7,)``."""

    @property
    @abstractmethod
    def velocity(self) -> _Array:
        """Linear and angular velocity, ``(6,)``."""

    @abstractmethod
    def put(self, start: RobotStart) -> None:
        """Put the body of a start without a batch axis into the simulation."""

    @abstractmethod
    def push(self, velocity: _Array) -> None:
        """Add to the linear velocity."""


class FreeBase(Base):
    """A body that moves: the first coordinates of the simulation.

    Args:
        data: The simulation's ``MjData``.
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    @property
    def pose(self) -> _Array:
        """What the simulation says."""
        return np.asarray(self._data.qpos[:7].copy())

    @property
    def velocity(self) -> _Array:
        """What the simulation says."""
        return np.asarray(self._data.qvel[:6].copy())

    def put(self, start: RobotStart) -> None:
        """Set the coordinates."""
        self._data.qpos[:7] = _pose_of(start)
        self._data.qvel[:6] = *start.base_linear_velocity, *start.base_angular_velocity

    def push(self, velocity: _Array) -> None:
        """Change the coordinates' velocity."""
        self._data.qvel[:3] += velocity


class HeldBase(Base):
    """A body that somebody holds: it stays where it is put.

    Args:
        model: The simulation's ``MjModel``.
        body: Number of the base in it.
    """

    def __init__(self, model: Any, body: int) -> None:
        self._model, self._body = model, body

    @property
    def pose(self) -> _Array:
        """Where it is held."""
        return np.concatenate((self._model.body_pos[self._body], self._model.body_quat[self._body]))

    @property
    def velocity(self) -> _Array:
        """None."""
        return np.zeros(6)

    def put(self, start: RobotStart) -> None:
        """Hold it there; a velocity that the start may have is stopped."""
        pose = _pose_of(start)
        self._model.body_pos[self._body], self._model.body_quat[self._body] = pose[:3], pose[3:]

    def push(self, velocity: _Array) -> None:
        """Nothing: whoever holds it does not let go."""


def _pose_of(start: RobotStart) -> _Array:
    quaternion = start.base_quaternion / np.linalg.norm(start.base_quaternion)
    return np.concatenate((start.base_position, quaternion))


PHYSICS_STEP = 2_000_000
"""Nanoseconds."""

_LEAST_STIFFNESS = 1e-6  # N·m/rad: what a load without stiffness is written through
_CONTACT_FORCE = 1.0  # N, as in the tasks
_FEET = [LINK_NAMES.index(name) for name in FOOT_NAMES]
_BODY = [i for i, name in enumerate(LINK_NAMES) if name.endswith(("body", "hip", "uleg"))]
_SITTING_HEIGHT = 0.12  # m: a little above the ground, to settle from
_STAND_HEIGHT = 1.0  # m: the body on a stand, legs in the air
_LOWER = np.array([joint.lower for joint in SPOT.actuated])
_UPPER = np.array([joint.upper for joint in SPOT.actuated])
_MAX_SPEED = 1e3  # a faster coordinate is a simulation that has blown up


class SpotPhysics:
    """One robot, sitting at first.

    Model and law are those of the tasks' MuJoCo backend, and so are the results, to the last bit: there is no delay,
    noise or friction unless the settings say so. A desired velocity and a load are written as a shift of the target by
    ``(B v + load) / K``.

    Args:
        settings: Hidden truth about the joints.
    """

    def __init__(self, settings: PracticeSettings) -> None:
        self._settings = settings
        self._layout = layout = RobotLayout.make()
        spec = load_spec(None)
        for name in JOINT_NAMES:
            spec.joint(name).frictionloss = settings.joint_friction
        self._model: Any = compile_robot(
            spec, layout, physics_step=PHYSICS_STEP / SECOND, fixed_base=settings.on_stand
        )  # fmt: skip
        self._inertia = joint_inertia(self._model, layout)
        self._data: Any = mujoco.MjData(self._model)
        body = int(base_body(spec, layout).id)
        self._base: Base = HeldBase(self._model, body) if settings.on_stand else FreeBase(self._data)
        self._set_parameters(body)
        joints = [self._model.joint(name) for name in JOINT_NAMES]
        self._positions = np.array([int(joint.qposadr[0]) for joint in joints])
        self._velocities = np.array([int(joint.dofadr[0]) for joint in joints])
        self._knees = layout.knees
        self._knee_positions = self._positions[self._knees]
        self._gains: tuple[bytes, bytes, bool] | None = None
        self._order: PdTargets | None = None
        self._targets: deque[_Array] = deque(maxlen=settings.command_delay + 1)
        self._forces: deque[_Array] = deque(maxlen=3)
        self._before = np.zeros(3)
        self._reading: Reading | None = None
        self.elapsed = 0
        """Nanoseconds simulated."""
        self.place(self._at_rest(np.zeros(2), 0.0))

    def _set_parameters(self, base: int) -> None:
        model, settings = self._model, self._settings
        if settings.ground_friction is not None:
            model.geom_friction[model.geom_bodyid != 0, 0] = settings.ground_friction
            model.pair_friction[:, :2] = settings.ground_friction
        if settings.base_mass_offset:
            scale = 1.0 + settings.base_mass_offset / model.body_mass[base]
            model.body_mass[base] *= scale
            model.body_inertia[base] *= scale
            mujoco.mj_setConst(model, self._data)

    def place(self, start: RobotStart) -> Reading:
        """Put the robot into a state, without memory; time goes on."""
        parts = RobotStart(*(np.asarray(part, dtype=np.float64)[0] for part in start))
        data = self._data
        mujoco.mj_resetData(self._model, data)
        self._base.put(parts)
        data.qpos[self._positions], data.qvel[self._velocities] = parts.joint_positions, parts.joint_velocities
        self._before = self._base.velocity[:3]
        self._targets.clear()
        self._targets.append(np.array(parts.joint_positions))
        self._forces.clear()
        self._reading = None
        return self.reading

    def sit_upright(self) -> Reading:
        """Put the robot upright and at rest where it is, whatever lay on the ground before."""
        place = self._base.pose
        if not np.isfinite(place).all():
            return self.place(self._at_rest(np.zeros(2), 0.0))
        w, x, y, z = place[3:]
        return self.place(self._at_rest(place[:2], float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))))

    def push(self, velocity: _Array) -> None:
        """Add to the velocity of the body, m/s, world."""
        self._base.push(velocity)
        self._before = self._base.velocity[:3]
        self._reading = None

    def step(self, order: PdTargets) -> None:
        """Take one physics step."""
        if order is not self._order:
            self._write(order)
        data = self._data
        limit = knee_torque_limit(data.qpos[self._knee_positions])
        self._model.actuator_forcerange[self._knees, 0] = -limit
        self._model.actuator_forcerange[self._knees, 1] = limit
        self._targets.append(self._target)
        data.ctrl[:] = self._targets[0]
        self._before = self._base.velocity[:3]
        mujoco.mj_step(self._model, data)
        self._forces.append(data.sensordata.copy())
        self._reading = None
        self.elapsed += PHYSICS_STEP

    @property
    def sound(self) -> bool:
        """Whether the simulation has not blown up."""
        return bool(np.isfinite(self._data.qpos).all() and np.abs(self._data.qvel).max() <= _MAX_SPEED)

    @property
    def fastest_joint(self) -> float:
        """The largest speed of a joint, rad/s."""
        return float(np.abs(self._data.qvel[self._velocities]).max())

    def check(self, order: PdTargets) -> None:
        """Refuse gains that the integrator cannot hold.

        Raises:
            BackendError: It says which joint.
        """
        stiffness, damping = self._effective(order)
        check_gains(stiffness[None], damping[None], self._inertia, PHYSICS_STEP / SECOND, self._layout)

    def _effective(self, order: PdTargets) -> tuple[_Array, _Array]:
        settings = self._settings
        damping = settings.damping_scale * order.damping + settings.viscous_friction
        return settings.gain_scale * order.stiffness, damping

    def _write(self, order: PdTargets) -> None:
        settings = self._settings
        stiffness, damping = self._effective(order)
        position = order.position.clip(_LOWER, _UPPER) if settings.saturate_targets else order.position
        shift = settings.damping_scale * order.damping * order.velocity + order.load
        shifted = bool(shift.any())
        if shifted:
            stiffness = np.maximum(stiffness, _LEAST_STIFFNESS)
            position = position + shift / stiffness
        gains = (order.stiffness.tobytes(), order.damping.tobytes(), shifted)
        if gains != self._gains:
            self._model.actuator_gainprm[:, 0] = stiffness
            self._model.actuator_biasprm[:, 1] = -stiffness
            self._model.actuator_biasprm[:, 2] = -damping
            self._gains = gains
        self._target = position
        self._order = order

    @property
    def reading(self) -> Reading:
        """The present, without noise; read once per physics step."""
        if self._reading is None:
            self._reading = self._read()
        return self._reading

    def _read(self) -> Reading:
        data, values = self._data, np.empty(52)
        values[:12], values[12:24] = data.qpos[self._positions], data.qvel[self._velocities]
        values[24:36] = data.actuator_force
        values[36:43], values[43:49] = self._base.pose, self._base.velocity
        values[49:] = (values[43:46] - self._before) / (PHYSICS_STEP / SECOND)
        squares = np.square(self._forces).reshape(-1, len(LINK_NAMES), 3).sum(axis=2)
        touching = (squares > _CONTACT_FORCE**2).any(axis=0)
        return Reading(self.elapsed, values, touching[_FEET], bool(touching[_BODY].any()))

    def _at_rest(self, place: _Array, yaw: float) -> RobotStart:
        """Return a start with folded legs, a little above the ground, or on the stand."""
        height = _STAND_HEIGHT if self._settings.on_stand else max(standing_height(SIT_POSE), _SITTING_HEIGHT)
        position = np.array([[*place, height]])
        quaternion = np.array([[np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]])
        still = np.zeros((1, 3))
        return RobotStart(position, quaternion, still, still, SIT_POSE[None], np.zeros((1, 12)))
