"""The handstand as a direct Isaac Lab env: rewards, falls, success and what is learned are the shared logic's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import gymnasium as gym
import torch
from isaaclab.envs import DirectRLEnv

from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.backends.isaaclab import IsaacLabBackend
from adc_wrappers.backends.isaaclab.spot_state import SpotReader
from adc_wrappers.backends.spot_model import JOINT_NAMES, NOMINAL_POSE
from adc_wrappers.core.action_term import ActionTerm
from adc_wrappers.envs.episodes import StepResult
from adc_wrappers.envs.spot.body import SPATIAL, observation_scale, rotate
from adc_wrappers.envs.spot.settings import SpotSettings
from adc_wrappers.envs.spot.stand import StandLogic
from adc_wrappers.envs.spot.tensor_stand import TensorStand
from adc_wrappers.envs.spot.tensors import SpotTensorTask
from adc_wrappers.envs.spot.terms import HANDSTAND, Stance

from .cfg import SpotHandstandEnvCfg

__all__ = ["SpotStandIsaacEnv"]


class SpotStandIsaacEnv(DirectRLEnv):
    """Spots that go from four feet to two, in Isaac Lab.

    Joints and links of observations, actions and rewards are in the order of our table on every engine. ``extras`` has
    ``is_success`` on every step, for the episodes that end in it, the task's own ``progress`` in [0, 1], and the means
    of the reward's terms under ``log``.

    Args:
        cfg: The config, see :func:`~.cfg.handstand_cfg`.
        render_mode: Isaac Lab's.
        **kwargs: Isaac Lab's.
    """

    cfg: SpotHandstandEnvCfg
    stance: Stance = HANDSTAND

    def __init__(self, cfg: SpotHandstandEnvCfg, render_mode: str | None = None, **kwargs: Any) -> None:
        self.settings = SpotSettings(**cfg.settings)
        self.adc_config = self.settings.recommended_curriculum()
        self.action_scale, self.action_limit = self.settings.effective_actions()
        cfg.action_space = gym.spaces.Box(-self.action_limit, self.action_limit, (len(JOINT_NAMES),))
        velocity, moments = self.settings.effective_observation()
        cfg.observation_space = len(observation_scale(len(JOINT_NAMES), SPATIAL, velocity=velocity, moments=moments))
        super().__init__(cfg, render_mode, **kwargs)
        self._targets = torch.tensor(NOMINAL_POSE, device=self.device).repeat(self.num_envs, 1)
        folded = getattr(self, "_physics_handles_decimation", False)
        self.reader = SpotReader(
            self.scene["robot"], self.scene["contacts"], self.scene.env_origins, latest_only=folded
        )
        self._state: RobotState | None = self.reader.state()
        self.stand = TensorStand(
            self.settings, self._state, self.step_dt, lambda: self.actuator_backend.gains(), self.stance
        )
        """All that is not physics."""

    @property
    def task(self) -> StandLogic:
        """Rewards, falls, success and what is learned, the same on every simulator."""
        return self.stand.logic

    @property
    def action_term(self) -> ActionTerm:
        """What a wrapper of actions may change."""
        return self.stand.action_term

    @property
    def watchers(self) -> list[Callable[[StepResult], None]]:
        """Are called with every step, as tensors, before finished envs are reset."""
        return self.stand.watchers

    @cached_property
    def actuator_backend(self) -> IsaacLabBackend:
        """The gains of all robots, for a curriculum's wrapper, in the table's order as everything else."""
        return IsaacLabBackend(self, joint_names=JOINT_NAMES)

    def numpy_task(self) -> SpotTensorTask:
        """Return these Spots as the numpy side of the library sees them."""
        return SpotTensorTask(self)

    def _setup_scene(self) -> None:
        """The scene's config has everything."""

    def state(self) -> RobotState:
        """Return the present state, in the table's order; read once per step or reset."""
        if self._state is None:
            self._state = self.reader.state()
        return self._state

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self._targets = self.stand.act(actions, self.reader.state())

    def _apply_action(self) -> None:
        self._state = None
        self.reader.command(self._targets)

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        self._state = None
        timed_out = self.episode_length_buf >= self.max_episode_length
        return self.stand.judge(self.state(), timed_out, self.extras)

    def look(self) -> None:
        """Judge the robots where they are; for those that were put there, not stepped."""
        self._state = None
        self.task.look(self.state(), self.stand.before, self.stand.action)

    def fallen(self) -> torch.Tensor:
        """Return which robots touched the ground with a link that must not, after the last step."""
        touching: torch.Tensor = self.task.fallen
        return touching

    def holds(self) -> torch.Tensor:
        """Return which robots were in the stance after the last step."""
        inside: torch.Tensor = self.task.holds
        return inside

    def reward_terms(self) -> dict[str, torch.Tensor]:
        """Return the weighted terms of the last step."""
        return self.task.reward_terms()

    def _get_rewards(self) -> torch.Tensor:
        return self.stand.reward

    def _reset_idx(self, env_ids: Any) -> None:
        super()._reset_idx(env_ids)
        rows = torch.as_tensor(env_ids, device=self.device, dtype=torch.long)
        start = self.stand.draw_start(len(rows))
        self.place(start, rows)
        self.stand.begin(rows, start, self.state())

    def place(self, start: RobotStart, env_ids: torch.Tensor) -> None:
        """Put chosen robots into a state, given as tensors in the table's order."""
        tensors: Any = start
        position, quaternion, linear, angular, joints, joint_velocities = tensors
        turned = rotate(quaternion, angular[:, None])[:, 0]
        self.reader.place(env_ids, position, quaternion, linear, turned, joints, joint_velocities)
        self._state = None

    def _get_observations(self) -> dict[str, torch.Tensor]:
        self._state = None
        return {"policy": self.stand.observation(self.state())}
