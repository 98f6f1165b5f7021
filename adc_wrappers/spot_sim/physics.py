"""The simulated body: one Spot of the MuJoCo backend, a physics step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotParameters, RobotStart
from adc_wrappers.backends.mujoco_robot import MujocoRobotBackend
from adc_wrappers.backends.spot_model import FOOT_NAMES, JOINT_NAMES, LINK_NAMES, SPOT, spot_mjcf, standing_height

from .clock import SECOND
from .motion import SIT_POSE, JointOrder
from .readings import Reading, rotation
from .settings import PracticeSettings

__all__ = ["PHYSICS_STEP", "SpotPhysics"]

_Array = NDArray[np.float64]

PHYSICS_STEP = 2_000_000
"""Nanoseconds."""

_LEAST_STIFFNESS = 1e-6  # N·m/rad: what a load without stiffness is written through
_CONTACT_FORCE = 1.0  # N, as in the tasks
_GRAVITY = np.array([0.0, 0.0, 9.81])
_FEET = [LINK_NAMES.index(name) for name in FOOT_NAMES]
_BODY = [i for i, name in enumerate(LINK_NAMES) if name.endswith(("body", "hip", "uleg"))]
_SITTING_HEIGHT = 0.12  # m: a little above the ground, to settle from
_LOWER = np.array([joint.lower for joint in SPOT.actuated])
_UPPER = np.array([joint.upper for joint in SPOT.actuated])
_ONE = np.zeros(1, dtype=np.int64)


class SpotPhysics:
    """One robot, sitting at first.

    The law is that of the tasks' MuJoCo backend, to the last bit: there is no delay, noise or friction unless the
    settings say so. A desired velocity and a load are written as a shift of the target by ``(B v + load) / K``.

    Args:
        settings: Hidden truth about the joints.
    """

    def __init__(self, settings: PracticeSettings) -> None:
        self._settings = settings
        self._backend = MujocoRobotBackend(1, model=_model(settings), physics_step=0.002, decimation=1, nthread=1)
        self._order: JointOrder | None = None
        self._written: tuple[Any, Any] | None = None
        self._target: _Array = np.zeros((1, 12))
        self._set_parameters(settings)
        self.elapsed = 0
        """Nanoseconds simulated."""
        sitting = max(standing_height(SIT_POSE), _SITTING_HEIGHT)
        self.place(_at_rest(np.array([0.0, 0.0, sitting]), np.array([1.0, 0.0, 0.0, 0.0]), SIT_POSE))

    def _set_parameters(self, settings: PracticeSettings) -> None:
        friction = settings.ground_friction
        parameters = RobotParameters(
            friction=None if friction is None else np.array([friction]),
            base_mass_offset=np.array([settings.base_mass_offset]) if settings.base_mass_offset else None,
            command_delay=np.array([settings.command_delay]),
        )
        self._backend.set_parameters(parameters, _ONE)

    def place(self, start: RobotStart) -> Reading:
        """Put the robot into a state; time goes on."""
        self._backend.reset(start)
        self._velocity = np.asarray(start.base_linear_velocity, dtype=np.float64)[0].copy()
        self._reading = self._read(_GRAVITY)
        return self._reading

    def sit_upright(self) -> Reading:
        """Put the robot on its belly where it is, whatever lay on the ground before."""
        where = self._reading.base_position.copy()
        where[2] = max(standing_height(SIT_POSE), _SITTING_HEIGHT)
        w, x, y, z = self._reading.base_quaternion
        yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
        return self.place(_at_rest(where, np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]), SIT_POSE))

    def push(self, velocity: _Array) -> None:
        """Add to the velocity of the body, m/s, world."""
        self._backend.push(velocity[None], _ONE)
        self._velocity = self._velocity + velocity
        self._reading = self._read(self._reading.specific_force)

    @property
    def reading(self) -> Reading:
        """The present, without noise."""
        return self._reading

    def step(self, order: JointOrder) -> Reading:
        """Take one physics step."""
        if order is not self._order:
            self._write(order)
        self._backend.advance(self._target)
        self.elapsed += PHYSICS_STEP
        before = self._velocity
        state = self._backend.state()
        world = rotation(state.base_quaternion[0])
        self._velocity = world @ state.base_linear_velocity[0]
        felt = world.T @ ((self._velocity - before) / (PHYSICS_STEP / SECOND) + _GRAVITY)
        self._reading = self._read(felt)
        return self._reading

    def check(self, order: JointOrder) -> None:
        """Refuse gains that the integrator cannot hold.

        Raises:
            BackendError: It says which joint.
        """
        self._write(order)

    def _write(self, order: JointOrder) -> None:
        settings = self._settings
        stiffness = settings.gain_scale * order.stiffness
        damping = settings.damping_scale * order.damping
        position = order.position.clip(_LOWER, _UPPER) if settings.saturate_targets else order.position
        shift = damping * order.velocity + order.load
        if shift.any():
            stiffness = np.maximum(stiffness, _LEAST_STIFFNESS)
            position = position + shift / stiffness
        gains = (order.stiffness.tobytes(), order.damping.tobytes(), bool(shift.any()))
        if gains != self._written:
            self._backend.set_gains(stiffness[None], damping[None] + settings.viscous_friction)
            self._written = gains
        self._target[0] = position
        self._order = order

    def _read(self, felt: _Array) -> Reading:
        state = self._backend.state()
        touching = state.contact_forces[0] > _CONTACT_FORCE
        return Reading(
            elapsed=self.elapsed,
            positions=state.joint_positions[0].copy(),
            velocities=state.joint_velocities[0].copy(),
            torques=state.joint_torques[0].copy(),
            base_position=state.base_position[0].copy(),
            base_quaternion=state.base_quaternion[0].copy(),
            base_velocity=self._velocity,
            base_turning=state.base_angular_velocity[0].copy(),
            specific_force=felt,
            feet=touching[_FEET],
            body_touches=bool(touching[_BODY].any()),
        )

    def close(self) -> None:
        """Release the engine."""
        self._backend.close()


def _model(settings: PracticeSettings) -> Any:
    """Return the generated Spot with dry friction in its joints, or None for the one without."""
    if not settings.joint_friction:
        return None
    from adc_wrappers.backends.mujoco_robot.engine import mujoco

    spec = mujoco.MjSpec.from_string(spot_mjcf())
    for name in JOINT_NAMES:
        spec.joint(name).frictionloss = settings.joint_friction
    return spec


def _at_rest(position: _Array, quaternion: _Array, joints: _Array) -> RobotStart:
    still = np.zeros((1, 3))
    return RobotStart(position[None], quaternion[None], still, still, joints[None], np.zeros((1, 12)))
