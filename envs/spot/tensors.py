"""Spots of a simulator that keeps them as tensors, as the numpy side of this library sees them."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.spot_model import JOINT_NAMES, NOMINAL_POSE
from adc_wrappers.core.actuators import to_numpy
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.deployment import Deployment
from adc_wrappers.envs.lift import Lift

from .body import SPATIAL, observation_scale, robot_poses, spot_mirror
from .failures import StandMonitor
from .settings import SpotSettings
from .stand import stand_deployment, stand_lift

__all__ = ["SpotTensorTask", "check_model"]


def check_model(settings: SpotSettings, simulator: str) -> None:
    """Refuse a model of the user's own, which the simulators of tensors would not simulate.

    Raises:
        CurriculumError: The settings name one.
    """
    if settings.model is not None:
        raise CurriculumError(
            f"the backend {simulator!r} simulates its own model of Spot, got model={settings.model!r}: leave it out, "
            "or use the backend 'mujoco' or 'pybullet'."
        )


class SpotTensorTask:
    """The task that evaluation, export and trainers ask, answered by an env of tensors.

    Args:
        env: The simulator's env: ``settings``, ``task`` (its :class:`~.stand.StandLogic`), ``state()``,
            ``actuator_backend``, ``num_envs``, ``step_dt`` and ``physics_dt``.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self.settings = env.settings
        self.backend = env.actuator_backend
        self.time_limit: int = env.settings.time_limit
        self.policy_step, self.physics_step = float(env.step_dt), float(env.physics_dt)
        self.adc_config = env.adc_config
        self.num_envs: int = env.num_envs
        self.stance = env.task.stance
        joints, limit = len(JOINT_NAMES), env.settings.effective_actions()[1]
        velocity, moments = env.settings.effective_observation()
        self.observation_scale = observation_scale(joints, SPATIAL, velocity=velocity, moments=moments)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (len(self.observation_scale),), np.float32)
        self.action_space = gym.spaces.Box(-limit, limit, (joints,), np.float32)
        self.mirror = spot_mirror(JOINT_NAMES, velocity=velocity, moments=moments)

    @property
    def training(self) -> bool:
        """Whether the cost of a fall eases."""
        return bool(self._env.task.training)

    @training.setter
    def training(self, training: bool) -> None:
        self._env.task.training = training

    @property
    def early_termination(self) -> bool:
        """Whether an episode ends with a fall."""
        return bool(self._env.task.early_termination)

    @property
    def hold_steps(self) -> int:
        """Two seconds."""
        return int(self._env.task.hold_steps)

    def state(self) -> RobotState:
        """Return the robots, read from the device."""
        return RobotState(*(to_numpy(part) for part in self._env.state()))

    def touch(self, feet: Literal["lifted", "support"]) -> NDArray[np.bool_]:
        """Return which robots touch the ground with a foot that is to be lifted, or that carries them."""
        touching: NDArray[np.bool_] = self._env.task.touch(feet).cpu().numpy()
        return touching

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Which robots are in the stance."""
        inside: NDArray[np.bool_] = self._env.task.holds.cpu().numpy()
        return inside

    def episode_monitor(self) -> StandMonitor:
        """Return what tells falls forward, back and sideways, and stances never reached or lost, apart."""
        robots: Any = self  # asked for what a backend and the logic are asked for, in numpy
        return StandMonitor(robots, robots)

    def poses(self) -> NDArray[np.float64]:
        """Return base pose and joint positions of every robot."""
        return robot_poses(self.state())

    def describe(self) -> dict[str, NDArray[np.float64]]:
        """Return nothing: what is randomized, the simulator draws and keeps."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return how far the cost of a fall has eased."""
        state: dict[str, Any] = self._env.task.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self._env.task.load_state_dict(state)

    def deployment(self) -> Deployment:
        """Return joints in the table's order, whatever the engine's, nominal pose, action scale, rates, observation."""
        return stand_deployment(self.settings, JOINT_NAMES, NOMINAL_POSE, (self.policy_step, self.physics_step))

    def lift(self, other: Deployment) -> Lift | None:
        """Return what makes a policy of the plane of symmetry one of Spot in space."""
        return stand_lift(self.stance, self.deployment(), other)
