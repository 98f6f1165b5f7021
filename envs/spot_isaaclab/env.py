"""The handstand as a direct Isaac Lab env: observation, reward, termination and success are the shared functions."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import gymnasium as gym
import torch
from isaaclab.envs import DirectRLEnv

from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.backends.isaaclab import IsaacLabBackend
from adc_wrappers.backends.isaaclab.spot_state import SpotReader
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, NOMINAL_POSE
from adc_wrappers.core import CurriculumConfig
from adc_wrappers.core.action_term import ActionTerm
from adc_wrappers.envs.spot.body import rotate
from adc_wrappers.envs.spot.rewards import RewardInputs, reward_terms
from adc_wrappers.envs.spot.settings import SUCCESS_SECONDS, SpotSettings
from adc_wrappers.envs.spot.terms import HANDSTAND, Stance, any_contact, in_stance, observation

from .cfg import SpotHandstandEnvCfg
from .starts import draw_start

__all__ = ["SpotStandIsaacEnv"]


class SpotStandIsaacEnv(DirectRLEnv):
    """Spots that go from four feet to two, in Isaac Lab.

    Joints and links of observations, actions and rewards are in the order of our table on every engine. ``extras`` has
    ``is_success`` on every step, for the episodes that end in it, and the means of the reward's terms under ``log``.

    Args:
        cfg: The config, see :func:`~.cfg.handstand_cfg`.
        render_mode: Isaac Lab's.
        **kwargs: Isaac Lab's.
    """

    cfg: SpotHandstandEnvCfg
    stance: Stance = HANDSTAND

    def __init__(self, cfg: SpotHandstandEnvCfg, render_mode: str | None = None, **kwargs: Any) -> None:
        self.settings = SpotSettings(**cfg.settings)
        self.adc_config = CurriculumConfig(length_max=float(self.settings.time_limit))
        preset = self.settings.preset_values()
        self.action_scale = self.settings.action_scale or preset.action_scale
        self.action_limit = self.settings.action_limit or preset.action_limit
        cfg.action_space = gym.spaces.Box(-self.action_limit, self.action_limit, (len(JOINT_NAMES),))
        self._kinds = self.settings.randomized()
        self._angular_axes = list(preset.angular_axes)
        self._fall_links = [i for i, name in enumerate(LINK_NAMES) if name.endswith(preset.fall_links)]
        self._support = [LINK_NAMES.index(name) for name in self.stance.support_feet]
        self._lifted = [LINK_NAMES.index(name) for name in self.stance.lifted_feet]
        self._feet = [i for i, name in enumerate(LINK_NAMES) if name.endswith("foot")]
        super().__init__(cfg, render_mode, **kwargs)
        self._weights, self._fall_cost = self.settings.effective_weights(self.step_dt)
        self._hold_steps = max(1, round(SUCCESS_SECONDS / self.step_dt))
        self._nominal = torch.tensor(NOMINAL_POSE, device=self.device)
        self.action_term = ActionTerm(self.num_envs, JOINT_NAMES)
        self._action = torch.zeros(self.num_envs, len(JOINT_NAMES), device=self.device)
        self._targets = self._nominal.repeat(self.num_envs, 1)
        self._held = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        folded = getattr(self, "_physics_handles_decimation", False)
        self.reader = SpotReader(
            self.scene["robot"], self.scene["contacts"], self.scene.env_origins, latest_only=folded
        )
        self._state: RobotState | None = None
        self._before = self._moment()

    @cached_property
    def actuator_backend(self) -> IsaacLabBackend:
        """The gains of all robots, for a curriculum's wrapper."""
        return IsaacLabBackend(self)

    def _setup_scene(self) -> None:
        """The scene's config has everything."""

    def state(self) -> RobotState:
        """Return the present state, in the table's order; read once per step or reset."""
        if self._state is None:
            self._state = self.reader.state()
        return self._state

    def _moment(self) -> RewardInputs:
        """What the next reward needs to know about the present."""
        state = self.reader.state()
        return RewardInputs(
            action=self._action.clone(),
            joint_velocities=state.joint_velocities.clone(),
            base_position=state.base_position.clone(),
            base_quaternion=state.base_quaternion.clone(),
            joint_positions=state.joint_positions.clone(),
        )

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self._before = self._moment()
        # in place, as everywhere here: RSL-RL steps under inference mode, and others do not
        torch.clamp(actions, -self.action_limit, self.action_limit, out=self._action)
        self._targets = self._nominal + self.action_scale * self.action_term(self._action, self.action_limit)
        self.action_term.end_step()

    def _apply_action(self) -> None:
        self._state = None
        self.reader.command(self._targets)

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        self._state = None
        state = self.state()
        self._held.add_(1).mul_(self.holds())
        self._broken = ~torch.isfinite(self._observation(state)).all(dim=-1)
        terminated = self.fallen() | self._broken
        truncated = (self.episode_length_buf >= self.max_episode_length) & ~terminated
        self.extras["is_success"] = truncated & (self._held >= self._hold_steps)
        return terminated, truncated

    def fallen(self) -> torch.Tensor:
        """Return which robots touch the ground with a link that must not."""
        touching: torch.Tensor = any_contact(self.state(), self._fall_links)
        return touching

    def holds(self) -> torch.Tensor:
        """Return which robots are in the stance now."""
        inside: torch.Tensor = in_stance(self.state(), self.stance.gravity, self._support)
        return inside

    def reward_terms(self) -> dict[str, torch.Tensor]:
        """Return the weighted terms of the last step."""
        raw = reward_terms(
            self._weights,
            self.state(),
            before=self._before,
            action=self._action,
            fallen=self.fallen(),
            gravity=self.stance.gravity,
            height=self.stance.height,
            lifted=self._lifted,
            support=self._support,
            feet=self._feet,
            angular_axes=self._angular_axes,
            policy_step=self.step_dt,
        )
        weights = {**self._weights, "fall": -self._fall_cost.now}
        return {name: weights[name] * value for name, value in raw.items()}

    def _get_rewards(self) -> torch.Tensor:
        if self._fall_cost.eases:  # a read from the device on every step; no preset of the paper does
            self._fall_cost.note(self.holds().cpu().numpy())
        terms = self.reward_terms()
        log = self.extras.setdefault("log", {})
        for name, values in terms.items():
            log[f"reward/{name}"] = values.mean()
        total = torch.stack(list(terms.values())).sum(dim=0)
        return torch.where(self._broken, 0.0, total)

    def _reset_idx(self, env_ids: Any) -> None:
        super()._reset_idx(env_ids)
        rows = torch.as_tensor(env_ids, device=self.device, dtype=torch.long)
        self._action.index_fill_(0, rows, 0.0)
        self._held.index_fill_(0, rows, 0)
        self.place(draw_start(len(rows), self._kinds, self.device), rows)

    def place(self, start: RobotStart, env_ids: torch.Tensor) -> None:
        """Put chosen robots into a state, given as tensors in the table's order."""
        tensors: Any = start
        position, quaternion, linear, angular, joints, joint_velocities = tensors
        turned = rotate(quaternion, angular[:, None])[:, 0]
        self.reader.place(env_ids, position, quaternion, linear, turned, joints, joint_velocities)
        self._state = None

    def _observation(self, state: RobotState) -> torch.Tensor:
        values: torch.Tensor = observation(state, self._nominal, self._action)
        return values

    def _get_observations(self) -> dict[str, torch.Tensor]:
        self._state = None
        return {"policy": self._observation(self.state())}
