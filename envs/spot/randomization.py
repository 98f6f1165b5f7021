"""Domain randomization, the paper's and what a robot needs more: once, at every reset, and at random intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotBackend, RobotParameters, RobotStart
from adc_wrappers.backends.guard.limits import ByKind
from adc_wrappers.core.env_states import EnvState, put_array
from adc_wrappers.core.errors import BackendError

from .body import SPATIAL, SpotBody

__all__ = ["KINDS", "PAPER_KINDS", "SpotRandomization"]

PAPER_KINDS = ("friction", "mass", "pose", "velocity", "joints", "push")
"""What the paper randomizes."""

KINDS = (*PAPER_KINDS, "delay", "noise", "latency", "gains", "joint_friction", "held")
"""Everything that can be; ``noise``, and the states' part of ``latency``, are the sensors' (``sensing.py``), and
``held`` is the command limiter's."""

FRICTION = (0.3, 1.0)
"""The paper's static range. Both CPU engines have one coefficient for sticking and sliding; the paper's dynamic range
ends at 0.8."""

MASS = 2.5
POSITION = 0.5
LINEAR_VELOCITY = (1.5, 1.0, 0.5)
ANGULAR_VELOCITY = (0.7, 0.7, 1.0)
JOINT_OFFSET = 0.2
JOINT_VELOCITY = 2.5
DELAY_STEPS = 4
GAIN_FACTOR = (0.9, 1.1)
"""What a robot makes of its gains: a K of 36 to 44 where 40 was identified."""

COULOMB = 1.0
VISCOUS = 0.2
HELD = ByKind(hx=0.7, hy=0.4, kn=0.5)
"""How far from its joints the targets may lie that a robot holds when a policy takes over: they carry its weight."""

PUSH_INTERVAL = (2.0, 5.0)
PUSH_VELOCITY = 0.5

_UNFORESEEN = ("push", "delay", "latency", "noise")
"""Kinds whose next draws, or what is under way, a snapshot does not hold."""

_NEWER = ("stiffness_factor", "damping_factor", "coulomb", "viscous")
"""What states of older checkpoints do not have."""


class SpotRandomization:
    """Random start states, physical parameters and pushes for a batch of Spots.

    Args:
        backend: The robots.
        kinds: What is randomized, of :data:`KINDS`; the rest stays nominal.
        push_axes: World axes along which the robot is pushed.
        body: Its build; a planar robot starts and is pushed in its plane.
        command_latency: Least and largest time that commands are on their way, s, of the kind ``latency``.
    """

    def __init__(
        self,
        backend: RobotBackend,
        kinds: Sequence[str],
        push_axes: Sequence[int],
        body: SpotBody = SPATIAL,
        command_latency: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self._backend = backend
        self._body = body
        self._kinds = frozenset(kinds)
        self._push_axes = [axis for axis in push_axes if axis in body.linear_axes]
        count = backend.num_envs
        self.friction: NDArray[np.float64] = np.full(count, np.nan)
        self.mass: NDArray[np.float64] = np.zeros(count)
        self.delay: NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        """Physics steps by which commands come late."""
        self.stiffness_factor: NDArray[np.float64] = np.ones(count)
        self.damping_factor: NDArray[np.float64] = np.ones(count)
        self.coulomb: NDArray[np.float64] = np.zeros((count, len(backend.joint_names)))
        self.viscous: NDArray[np.float64] = np.zeros_like(self.coulomb)
        self._latency = tuple(round(seconds / backend.physics_step) for seconds in command_latency)
        self._drawn: NDArray[np.bool_] = np.zeros(count, dtype=bool)
        self._until_push: NDArray[np.int64] = np.zeros(count, dtype=np.int64)

    def describe(self) -> dict[str, NDArray[np.float64]]:
        """Return the parameters of every env, for ``info``; only what is randomized."""
        delay = self.delay.astype(np.float64)
        values = {"friction": self.friction, "mass": self.mass, "delay": delay}
        found = {name: value.copy() for name, value in values.items() if name in self._kinds}
        if "latency" in self._kinds:
            found["command_latency"] = delay * self._backend.physics_step
        if "gains" in self._kinds:
            found["stiffness_factor"] = self.stiffness_factor.copy()
            found["damping_factor"] = self.damping_factor.copy()
        if "joint_friction" in self._kinds:
            found["joint_coulomb"] = self.coulomb.mean(axis=1)
            found["joint_viscous"] = self.viscous.mean(axis=1)
        return found

    def standardized(self) -> NDArray[np.float64]:
        """Return friction, mass, both gain factors and the delay of every env, each about in [−1, 1].

        What is not randomized is 0.
        """
        middle, half = 0.5 * sum(FRICTION), 0.5 * (FRICTION[1] - FRICTION[0])
        gains = np.stack((self.stiffness_factor, self.damping_factor)) - 1.0
        delay = self.delay / max(self._latency[1] if "latency" in self._kinds else DELAY_STEPS, 1)
        friction = np.nan_to_num((self.friction - middle) / half)
        return np.stack((friction, self.mass / MASS, *gains / (GAIN_FACTOR[1] - 1.0), delay), axis=1)

    def save(self, env_ids: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return the lasting parameters of chosen envs."""
        for kind in _UNFORESEEN:
            if kind in self._kinds:
                raise BackendError(
                    f"a Spot that is randomized by {kind!r} cannot be saved: what comes next does not follow from its "
                    f"state. Leave it out, as in randomize={[k for k in PAPER_KINDS if k not in _UNFORESEEN]}."
                )
        return {name: values[env_ids] for name, values in self._lasting().items()}

    def load(self, values: Mapping[str, NDArray[np.float64]], env_ids: NDArray[np.int64]) -> None:
        """Give chosen envs saved parameters."""
        for name, own in self._lasting().items():
            own[env_ids] = values[name]
        self._apply(env_ids)
        self._drawn[env_ids] = True

    def _lasting(self) -> dict[str, NDArray[np.float64]]:
        """Return what is drawn once in an env's life."""
        return {
            "friction": self.friction,
            "mass": self.mass,
            "stiffness_factor": self.stiffness_factor,
            "damping_factor": self.damping_factor,
            "coulomb": self.coulomb,
            "viscous": self.viscous,
        }

    def _apply(self, env_ids: NDArray[np.int64]) -> None:
        """Give the robots what was drawn for them once; what is not randomized stays as it is."""
        apply = self._backend.set_parameters
        if "friction" in self._kinds:
            apply(RobotParameters(friction=self.friction[env_ids]), env_ids)
        if "mass" in self._kinds:
            apply(RobotParameters(base_mass_offset=self.mass[env_ids]), env_ids)
        if "gains" in self._kinds:
            stiffness, damping = self.stiffness_factor[env_ids], self.damping_factor[env_ids]
            apply(RobotParameters(stiffness_factor=stiffness, damping_factor=damping), env_ids)
        if "joint_friction" in self._kinds:
            apply(RobotParameters(joint_coulomb=self.coulomb[env_ids], joint_viscous=self.viscous[env_ids]), env_ids)

    def env_state(self) -> EnvState:
        """Return what was drawn and when the next pushes come; the engine's part is the backend's to save."""
        return {name: values.copy() for name, values in self._arrays().items()}

    def load_env_state(self, state: EnvState) -> None:
        """Restore it."""
        for name, values in self._arrays().items():
            if name in state or name not in _NEWER:
                put_array(values, state, name)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**self._lasting(), "delay": self.delay, "drawn": self._drawn, "until_push": self._until_push}

    def begin(self, env_ids: NDArray[np.int64], rng: np.random.Generator, level: float = 1.0) -> None:
        """Begin episodes: parameters that are drawn once or at a reset, the next push, and the start state.

        Args:
            env_ids: The envs.
            rng: Where numbers are drawn from.
            level: How much of the latency there is, in [0, 1].
        """
        self._startup(env_ids[~self._drawn[env_ids]], rng)
        if "delay" in self._kinds:
            self.delay[env_ids] = rng.integers(0, DELAY_STEPS + 1, len(env_ids))
            self._backend.set_parameters(RobotParameters(command_delay=self.delay[env_ids]), env_ids)
        if "latency" in self._kinds:
            low, high = self._latency
            drawn = rng.uniform(low, high + 1.0, len(env_ids))
            self.delay[env_ids] = np.minimum(level * drawn, high).astype(np.int64)
            self._backend.set_parameters(RobotParameters(command_delay=self.delay[env_ids]), env_ids)
        self._plan_push(env_ids, rng)
        self._backend.reset(self.start_state(len(env_ids), rng), env_ids)

    def _startup(self, env_ids: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Draw what lasts for the env's whole life.

        From a generator of its own, so that later episodes of a seed do not depend on whether this was their first.
        """
        if not len(env_ids):
            return
        self._drawn[env_ids] = True
        (rng,) = rng.spawn(1)
        count = len(env_ids)
        if "friction" in self._kinds:
            self.friction[env_ids] = rng.uniform(*FRICTION, count)
        if "mass" in self._kinds:
            self.mass[env_ids] = rng.uniform(-MASS, MASS, count)
        if "gains" in self._kinds:
            self.stiffness_factor[env_ids] = rng.uniform(*GAIN_FACTOR, count)
            self.damping_factor[env_ids] = rng.uniform(*GAIN_FACTOR, count)
        if "joint_friction" in self._kinds:
            shape = (count, self.coulomb.shape[1])
            self.coulomb[env_ids] = rng.uniform(0.0, COULOMB, shape)
            self.viscous[env_ids] = rng.uniform(0.0, VISCOUS, shape)
        self._apply(env_ids)

    def start_state(self, count: int, rng: np.random.Generator) -> RobotStart:
        """Draw start states in which the lowest foot just touches the ground."""
        joints = np.tile(self._backend.nominal_pose, (count, 1))
        joint_velocity = np.zeros_like(joints)
        position, yaw = np.zeros((count, 3)), np.zeros(count)
        linear, angular = np.zeros((count, 3)), np.zeros((count, 3))
        if "joints" in self._kinds:
            joints += rng.uniform(-JOINT_OFFSET, JOINT_OFFSET, joints.shape)
            joint_velocity += rng.uniform(-JOINT_VELOCITY, JOINT_VELOCITY, joints.shape)
        if "pose" in self._kinds:
            position[:, :2] = rng.uniform(-POSITION, POSITION, (count, 2))
            yaw = rng.uniform(-np.pi, np.pi, count)
        if "velocity" in self._kinds:
            linear += rng.uniform(-1.0, 1.0, (count, 3)) * LINEAR_VELOCITY
            angular += rng.uniform(-1.0, 1.0, (count, 3)) * ANGULAR_VELOCITY
        if self._body.robot.planar:
            position[:, 1] = linear[:, 1] = yaw[:] = 0.0
            angular[:, [0, 2]] = 0.0
        zero = np.zeros(count)
        quaternion = np.stack((np.cos(yaw / 2), zero, zero, np.sin(yaw / 2)), axis=1)
        position[:, 2] = self._body.touchdown_height(quaternion, joints)
        return RobotStart(position, quaternion, linear, angular, joints, joint_velocity)

    def maybe_push(self, rng: np.random.Generator) -> None:
        """Push the robots whose time has come."""
        if "push" not in self._kinds:
            return
        self._until_push -= 1
        if self._until_push.min() > 0:  # most steps
            return
        due = np.flatnonzero(self._until_push <= 0)
        if len(due):
            change = np.zeros((len(due), 3))
            change[:, self._push_axes] = rng.uniform(-PUSH_VELOCITY, PUSH_VELOCITY, (len(due), len(self._push_axes)))
            self._backend.push(change, due)
            self._plan_push(due, rng)

    def _plan_push(self, env_ids: NDArray[np.int64], rng: np.random.Generator) -> None:
        seconds = rng.uniform(*PUSH_INTERVAL, len(env_ids))
        self._until_push[env_ids] = np.ceil(seconds / self._backend.policy_step).astype(np.int64)
