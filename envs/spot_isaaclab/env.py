"""The handstand as a direct Isaac Lab env: rewards, falls, success and what is learned are the shared logic's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import gymnasium as gym
import torch
from isaaclab.envs import DirectRLEnv

from adc_wrappers.backends.array_kinds import fill_rows
from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.backends.isaaclab import IsaacLabBackend
from adc_wrappers.backends.isaaclab.spot_state import SpotReader
from adc_wrappers.backends.limiter import CommandLimiter
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, NOMINAL_POSE, SPOT
from adc_wrappers.core.action_term import ActionTerm
from adc_wrappers.envs.episodes import StepResult
from adc_wrappers.envs.spot.body import SPATIAL, observation_scale, rotate
from adc_wrappers.envs.spot.sensing import SpotSensing
from adc_wrappers.envs.spot.settings import SpotSettings
from adc_wrappers.envs.spot.stand import StandLogic
from adc_wrappers.envs.spot.tensors import SpotTensorTask
from adc_wrappers.envs.spot.terms import HANDSTAND, Stance, observation

from .cfg import SpotHandstandEnvCfg
from .starts import draw_start

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
    limiter: CommandLimiter | None = None
    """What stands between targets and joints."""

    def __init__(self, cfg: SpotHandstandEnvCfg, render_mode: str | None = None, **kwargs: Any) -> None:
        self.settings = SpotSettings(**cfg.settings)
        self.adc_config = self.settings.recommended_curriculum()
        self.action_scale, self.action_limit = self.settings.effective_actions()
        cfg.action_space = gym.spaces.Box(-self.action_limit, self.action_limit, (len(JOINT_NAMES),))
        self._kinds = self.settings.randomized()
        velocity, _ = self.settings.effective_sensing()
        self._velocity = velocity != "none"
        cfg.observation_space = len(observation_scale(len(JOINT_NAMES), SPATIAL, velocity=self._velocity))
        self.watchers: list[Callable[[StepResult], None]] = []
        """Are called with every step, as tensors, before finished envs are reset."""
        super().__init__(cfg, render_mode, **kwargs)
        self._nominal = torch.tensor(NOMINAL_POSE, device=self.device)
        self.action_term = ActionTerm(self.num_envs, JOINT_NAMES)
        self._action = torch.zeros(self.num_envs, len(JOINT_NAMES), device=self.device)
        self._targets = self._nominal.repeat(self.num_envs, 1)
        self._held = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        folded = getattr(self, "_physics_handles_decimation", False)
        self.reader = SpotReader(
            self.scene["robot"], self.scene["contacts"], self.scene.env_origins, latest_only=folded
        )
        self._state: RobotState | None = self.reader.state()
        self.task = StandLogic(self.settings, self.stance, LINK_NAMES, self.step_dt, self._state, self._action)
        """Rewards, falls, success and what is learned, the same on every simulator."""
        self._before = self.task.moment(self._state, self._action)
        latency = self.settings.state_latency
        self.sensing = SpotSensing(self._state, self._kinds, velocity, self.step_dt, latency)
        """What the robots measure."""
        limits = self.settings.command_limits()
        if limits is not None:
            self.limiter = CommandLimiter(limits, SPOT, self.step_dt, self._targets)

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
        self._before = self.task.moment(self.reader.state(), self._action)
        # in place, as everywhere here: RSL-RL steps under inference mode, and others do not
        torch.clamp(actions, -self.action_limit, self.action_limit, out=self._action)
        self._targets = self._nominal + self.action_scale * self.action_term(self._action, self.action_limit)
        self.action_term.end_step()
        if self.limiter is not None:
            seen = self.sensing.seen(self.state())
            self._targets = self.limiter(self._targets, seen.joint_positions, seen.joint_velocities, *self._gains())
            self.limiter.accept(self._targets)
            self._action.copy_((self._targets - self._nominal) / self.action_scale)

    def _gains(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return K and B in the table's order, without the envs' own factors; nothing leaves the device."""
        gains = self.actuator_backend.gains()
        return gains.stiffness[:, self._gain_order], gains.damping[:, self._gain_order]

    @cached_property
    def _gain_order(self) -> torch.Tensor:
        names = list(self.actuator_backend.joint_names)
        return torch.tensor([names.index(name) for name in JOINT_NAMES], device=self.device)

    def _draw(self, shape: tuple[int, int]) -> torch.Tensor:
        return torch.empty(shape, device=self.device).uniform_(-1.0, 1.0)

    def _apply_action(self) -> None:
        self._state = None
        self.reader.command(self._targets)

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        self._state = None
        state, task = self.state(), self.task
        self.sensing.step(state, self._draw, task.level)
        task.step(state, self._before, self._action)
        self._held.add_(1).mul_(task.holds)
        self._seen = self._observation(state)
        self._broken = ~torch.isfinite(self._seen).all(dim=-1)
        terminated = task.fallen | self._broken if task.early_termination else self._broken
        truncated = (self.episode_length_buf >= self.max_episode_length) & ~terminated
        self.extras["is_success"] = task.success(self._held, truncated)
        self.extras["progress"] = task.progress()
        self.extras["holds"] = task.holds
        self._ended = (terminated, truncated)
        return terminated, truncated

    def look(self) -> None:
        """Judge the robots where they are; for those that were put there, not stepped."""
        self._state = None
        self.task.look(self.state(), self._before, self._action)

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
        terms = self.reward_terms()
        log = self.extras.setdefault("log", {})
        for name, values in terms.items():
            log[f"reward/{name}"] = values.mean()
        total = torch.where(self._broken, 0.0, torch.stack(list(terms.values())).sum(dim=0))
        if self.watchers:
            self._show(terms, total)
        return total

    def _show(self, terms: dict[str, torch.Tensor], reward: torch.Tensor) -> None:
        """Show the step to those who watch; what broken physics gave reads zero."""
        broken, tensors = self._broken, self.extras
        whole: Any = {
            "observation": self._seen.masked_fill(broken[:, None], 0.0),
            "reward": reward,
            "reward_terms": {name: values.masked_fill(broken, 0.0) for name, values in terms.items()},
            "success": tensors["is_success"],
            "holds": tensors["holds"],
            "progress": tensors["progress"],
        }
        terminated, truncated = self._ended
        step = StepResult(terminated=terminated, truncated=truncated, broken=broken, **whole)  # type: ignore[arg-type]
        for watcher in self.watchers:
            watcher(step)

    def _reset_idx(self, env_ids: Any) -> None:
        super()._reset_idx(env_ids)
        rows = torch.as_tensor(env_ids, device=self.device, dtype=torch.long)
        fill_rows(self._action, rows, 0.0)
        fill_rows(self._held, rows, 0)
        self.task.begin(rows)
        start: Any = draw_start(len(rows), self._kinds, self.device)
        self.place(start, rows)
        self.sensing.begin(self.state(), rows, self._draw, self.task.level)
        if self.limiter is not None:
            self.limiter.begin(start.joint_positions, rows)
            self._action.index_copy_(0, rows, (start.joint_positions - self._nominal) / self.action_scale)

    def place(self, start: RobotStart, env_ids: torch.Tensor) -> None:
        """Put chosen robots into a state, given as tensors in the table's order."""
        tensors: Any = start
        position, quaternion, linear, angular, joints, joint_velocities = tensors
        turned = rotate(quaternion, angular[:, None])[:, 0]
        self.reader.place(env_ids, position, quaternion, linear, turned, joints, joint_velocities)
        self._state = None

    def _observation(self, state: RobotState) -> torch.Tensor:
        seen = self.sensing.seen(state)
        values: torch.Tensor = observation(seen, self._nominal, self._action, velocity=self._velocity)
        return values

    def _get_observations(self) -> dict[str, torch.Tensor]:
        self._state = None
        return {"policy": self._observation(self.state())}
