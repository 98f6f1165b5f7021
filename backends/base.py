"""The contracts that physics engines and robots fulfil."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.actuators import Gains
from adc_wrappers.core.env_states import EnvState
from adc_wrappers.core.errors import BackendError

__all__ = [
    "MAX_COMMAND_DELAY",
    "RobotBackend",
    "RobotParameters",
    "RobotStart",
    "RobotState",
    "check_push_in_plane",
    "check_start_in_plane",
]


MAX_COMMAND_DELAY: Final = 20
"""Longest delay of position targets, physics steps."""


class RobotState(NamedTuple):
    """The state of a batch of ``n`` robots after a policy step; numpy arrays, or torch tensors on a device.

    The arrays belong to the backend and are valid until its next ``advance`` or ``reset``: copy what must last.
    """

    base_position: Any
    """Origin of the base link in the world, m, ``(n, 3)``."""

    base_quaternion: Any
    """Orientation of the base in the world, w x y z, ``(n, 4)``."""

    base_linear_velocity: Any
    """Velocity of the base link's origin in the base frame, m/s, ``(n, 3)``."""

    base_angular_velocity: Any
    """Angular velocity of the base in the base frame, rad/s, ``(n, 3)``."""

    projected_gravity: Any
    """Direction of gravity in the base frame, unit length, ``(n, 3)``; ``(0, 0, −1)`` standing level."""

    joint_positions: Any
    """rad, ``(n, joints)``, in the order of ``joint_names``."""

    joint_velocities: Any
    """rad/s, ``(n, joints)``."""

    joint_torques: Any
    """Torque applied at the last physics step, after its limit, N·m, ``(n, joints)``."""

    contact_forces: Any
    """Largest ground force on each link over the last three physics steps, N, ``(n, links)``, in the order of
    ``link_names``."""


class RobotStart(NamedTuple):
    """A state to put ``n`` robots into."""

    base_position: NDArray[np.float64]
    """m, ``(n, 3)``."""

    base_quaternion: NDArray[np.float64]
    """w x y z, unit length, ``(n, 4)``."""

    base_linear_velocity: NDArray[np.float64]
    """In the world frame, m/s, ``(n, 3)``."""

    base_angular_velocity: NDArray[np.float64]
    """In the base frame, rad/s, ``(n, 3)``."""

    joint_positions: NDArray[np.float64]
    """rad, ``(n, joints)``."""

    joint_velocities: NDArray[np.float64]
    """rad/s, ``(n, joints)``."""


@dataclass(frozen=True, kw_only=True)
class RobotParameters:
    """Physical parameters that randomization may give to chosen robots; None leaves one as it is."""

    friction: NDArray[np.float64] | None = None
    """Coefficient of sliding friction between the robot and the ground, ``(n,)``."""

    base_mass_offset: NDArray[np.float64] | None = None
    """Mass added to the base link as modelled, its inertia scaled alike, kg, ``(n,)``."""

    command_delay: NDArray[np.int64] | None = None
    """Physics steps by which position targets reach the PD law late, ``(n,)``."""

    stiffness_factor: NDArray[np.float64] | None = None
    """What a joint makes of its stiffness: it acts as K times this, while :meth:`RobotBackend.gains` says K, ``(n,)``.
    It stays when gains are set, as Isaac Lab's ``randomize_gain_factors`` do."""

    damping_factor: NDArray[np.float64] | None = None
    """The same for the damping, ``(n,)``."""

    joint_armature: NDArray[np.float64] | None = None
    """Rotor inertia seen at the joints, kg·m², ``(n, joints)``."""

    joint_coulomb: NDArray[np.float64] | None = None
    """Dry friction of the joints: a torque against the motion, whatever its speed, N·m, ``(n, joints)``."""

    joint_viscous: NDArray[np.float64] | None = None
    """Viscous friction of the joints, beside the PD law's damping, N·m·s/rad, ``(n, joints)``."""


class RobotBackend(ABC):
    """A batch of robots with position-controlled joints: what the tasks of this library need.

    The PD law ``τ = K (q_d − q) − B q̇`` is evaluated at every physics step and clipped to the joint's torque limit.
    """

    num_envs: int
    """Number of robots."""

    joint_names: Sequence[str]
    """Actuated joints, in the order of every joint array."""

    link_names: Sequence[str]
    """Links whose contact with the ground is reported, in the order of ``RobotState.contact_forces``."""

    physics_step: float
    """Seconds between two evaluations of the PD law."""

    decimation: int
    """Physics steps in one policy step."""

    nominal_pose: NDArray[np.float64]
    """q_0, rad, ``(joints,)``."""

    @property
    def policy_step(self) -> float:
        """Seconds in one policy step."""
        return self.physics_step * self.decimation

    @abstractmethod
    def effective_inertia(self) -> NDArray[np.float64]:
        """Return M per joint: diagonal of the joint-space inertia at the nominal pose, armature included."""

    @abstractmethod
    def gains(self) -> Gains:
        """Return the live gains of every env, read from where the physics takes them, without its robots' factors."""

    @abstractmethod
    def set_gains(
        self,
        stiffness: NDArray[np.float64],
        damping: NDArray[np.float64],
        env_ids: NDArray[np.int64] | None = None,
    ) -> None:
        """Write gains of shape ``(len(env_ids), joints)``; without ``env_ids``, of all envs."""

    @abstractmethod
    def reset(self, start: RobotStart, env_ids: NDArray[np.int64] | None = None) -> None:
        """Put chosen robots (default: all) into a state and forget their delayed targets; gains stay."""

    @abstractmethod
    def advance(self, targets: NDArray[np.float64]) -> None:
        """Simulate one policy step under position targets, ``(num_envs, joints)``."""

    @abstractmethod
    def state(self) -> RobotState:
        """Return the present state."""

    def held_targets(self) -> NDArray[np.float64] | None:
        """Return the position targets that robots hold after a reset, ``(num_envs, joints)``.

        None: the joint positions that they were put into. A command limiter goes on from them.
        """
        return None

    @abstractmethod
    def push(self, velocity_change: NDArray[np.float64], env_ids: NDArray[np.int64]) -> None:
        """Add to the base's linear velocity in the world frame, m/s, ``(len(env_ids), 3)``."""

    @abstractmethod
    def set_parameters(self, parameters: RobotParameters, env_ids: NDArray[np.int64]) -> None:
        """Give chosen robots physical parameters; they last until they are set again."""

    def physics_state(self) -> EnvState | None:
        """Return all that decides how the robots go on under given targets and gains; None if it cannot be saved.

        Robots that load it go on as these do, to the last bit. An engine that cannot be put into a state to the last
        bit puts these robots into it anew as well; so take it where a run would be resumed, and nowhere else.
        """
        return None

    def load_physics_state(self, state: EnvState) -> None:
        """Put robots of the same model, as many, where :meth:`physics_state` was taken; gains stay."""
        raise BackendError(f"{type(self).__name__} cannot be put into a saved state.")

    def incident(self) -> dict[str, Any] | None:
        """Return why a guard has ended the running episode, None while it goes on; a simulator has none."""
        return None

    @abstractmethod
    def render(self, env_id: int = 0) -> NDArray[np.uint8]:
        """Return a picture of one robot, RGB."""

    @abstractmethod
    def close(self) -> None:
        """Release the engine; may be called twice."""


_IN_PLANE = 1e-6


def check_start_in_plane(start: RobotStart) -> None:
    """Refuse a start with y, roll, yaw or their rates."""
    linear, angular = start.base_linear_velocity, start.base_angular_velocity
    outside = (start.base_position[:, [1]], start.base_quaternion[:, [1, 3]], linear[:, [1]], angular[:, [0, 2]])
    if any((np.abs(values) > _IN_PLANE).any() for values in outside):
        raise BackendError(
            "a planar robot moves along x and z and turns about y: expected a start whose y, roll, yaw and their "
            "rates are zero."
        )


def check_push_in_plane(velocity_change: NDArray[np.float64]) -> None:
    """Refuse a push with y, ``(n, 3)``."""
    if (np.abs(velocity_change[:, 1]) > _IN_PLANE).any():
        raise BackendError("a planar robot cannot be pushed sideways: expected a velocity change without y.")
