"""The handstand in mjlab as this library's trainers and evaluations use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.mjlab.backend import MjlabBackend
from adc_wrappers.backends.mjlab.env import GymMjlabEnv
from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.core.action_term import ActionTerm
from adc_wrappers.envs.episodes import StepResult
from adc_wrappers.envs.spot.settings import SpotSettings
from adc_wrappers.envs.spot.stand import StandLogic
from adc_wrappers.envs.spot.tensors import SpotTensorTask

from .terms import SpotStandAction, stand_of

__all__ = ["SpotStandMjlabEnv"]


class SpotStandMjlabEnv(GymMjlabEnv):
    """Spots that go from four feet to two, in mjlab; made and used like its parent.

    The task is in the config's terms (:func:`~.cfg.handstand_cfg`), so that mjlab's plain env has it too. Added is what
    trainers and evaluations of this library ask an env.
    """

    def _configure_gym_env_spaces(self) -> None:
        """Besides mjlab's own spaces, say within which bounds actions are."""
        super()._configure_gym_env_spaces()
        limit = self.spots.stand.action_limit
        self.single_action_space = gym.spaces.Box(-limit, limit, (len(JOINT_NAMES),))
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, self.num_envs)

    @property
    def spots(self) -> SpotStandAction:
        """The term that holds the robots."""
        return stand_of(self)

    @property
    def settings(self) -> SpotSettings:
        """The task's numbers."""
        return self.spots.settings

    @property
    def adc_config(self) -> Any:
        """The curriculum that the task recommends."""
        return self.settings.recommended_curriculum()

    @property
    def actuator_backend(self) -> MjlabBackend:
        """The gains of all robots, for a curriculum's wrapper, in the table's order."""
        return self.spots.actuator_backend

    @property
    def task(self) -> StandLogic:
        """Rewards, falls, success and what is learned, the same on every simulator."""
        return self.spots.stand.logic

    @property
    def action_term(self) -> ActionTerm:
        """What a wrapper of actions may change."""
        return self.spots.stand.action_term

    @property
    def watchers(self) -> list[Callable[[StepResult], None]]:
        """Are called with every step, as tensors, before finished envs are reset."""
        return self.spots.stand.watchers

    def state(self) -> RobotState:
        """Return the present state, in the table's order."""
        return self.spots.state()

    def numpy_task(self) -> SpotTensorTask:
        """Return these Spots as the numpy side of the library sees them."""
        return SpotTensorTask(self)
