"""The handstand as terms of mjlab's managers: one action term holds the robots and the shared logic, others ask it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from mjlab.managers.action_manager import ActionTerm, ActionTermCfg

from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.backends.mjlab.backend import MjlabBackend
from adc_wrappers.backends.mjlab.spot_state import SpotReader
from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.backends.spot_tensors import LateTargets
from adc_wrappers.envs.spot.randomization import DELAY_STEPS
from adc_wrappers.envs.spot.settings import SpotSettings
from adc_wrappers.envs.spot.tensor_stand import TensorStand

__all__ = [
    "CONTACTS",
    "ROBOT",
    "STAND",
    "SpotStandAction",
    "SpotStandActionCfg",
    "observation",
    "reward_term",
    "stand_of",
    "terminated",
    "truncated",
]

STAND, ROBOT, CONTACTS = "stand", "robot", "contacts"
"""Names of the action term, of the entity and of its contact sensor."""


@dataclass(kw_only=True)
class SpotStandActionCfg(ActionTermCfg):
    """Config of :class:`SpotStandAction`."""

    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the task, by name: see :class:`adc_wrappers.envs.spot.SpotSettings`."""

    def build(self, env: Any) -> SpotStandAction:
        """Build the term; mjlab calls this."""
        return SpotStandAction(self, env)


class SpotStandAction(ActionTerm):
    """Joint targets of a batch of Spots, their episodes, and the verdict on every step.

    mjlab asks in this order: action, physics, terminations, rewards, resets, observations. The first termination term
    judges the step; what comes later reads the verdict.

    Args:
        cfg: The config.
        env: mjlab's env.
    """

    def __init__(self, cfg: SpotStandActionCfg, env: Any) -> None:
        super().__init__(cfg, env)
        self.settings = SpotSettings(**cfg.settings)
        self.reader = SpotReader(env, self._entity, env.scene[CONTACTS])
        state = self.reader.state()
        self.stand = TensorStand(self.settings, state, env.step_dt, lambda: self.actuator_backend.gains())
        """All that is not physics."""
        self._late = LateTargets(state.joint_positions, env.cfg.decimation)
        seconds = self.settings.command_latency
        self._latency = [round(value / env.physics_dt) for value in seconds]
        self._raw = torch.zeros_like(self.stand.action)
        if "gains" in self.stand.kinds:
            self.actuator_backend.draw_factors()  # made now: factors are drawn at the first reset already

    @cached_property
    def actuator_backend(self) -> MjlabBackend:
        """The gains of all robots, for a curriculum's wrapper, in the table's order."""
        return MjlabBackend(self._env, entity=self.cfg.entity_name, joints=JOINT_NAMES)

    @property
    def action_dim(self) -> int:
        """Number of joints."""
        return len(JOINT_NAMES)

    @property
    def raw_action(self) -> torch.Tensor:
        """The policy's last action, as it came."""
        return self._raw

    def process_actions(self, actions: torch.Tensor) -> None:
        """Turn actions into targets, once per policy step."""
        self._raw.copy_(actions)
        self._late.send(self.stand.act(actions, self.reader.state()))

    def apply_actions(self) -> None:
        """Command the targets that arrive, before every physics step."""
        self.reader.command(self._late.arriving())

    def judge(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Judge the step just simulated; return who terminated and who was truncated."""
        self.reader.note_step()
        env = self._env
        return self.stand.judge(self.reader.state(), env.episode_length_buf >= env.max_episode_length, env.extras)

    def look(self) -> None:
        """Judge the robots where they are; for those that were put there, not stepped."""
        self.stand.logic.look(self.reader.state(), self.stand.before, self.stand.action)

    def reset(self, env_ids: torch.Tensor | slice | None) -> None:
        """Begin episodes."""
        everybody = torch.arange(self.num_envs, device=self.device)
        rows = everybody if env_ids is None else everybody[env_ids]
        start = self.stand.draw_start(len(rows))
        self.place(start, rows)
        self.stand.begin(rows, start, self.reader.state())

    def place(self, start: RobotStart, rows: torch.Tensor) -> None:
        """Put chosen robots into a state, given as tensors in the table's order; commands under way are dropped."""
        joints: Any = start.joint_positions
        self.reader.place(start, rows)
        self._late.begin(joints, self._draw_delays(len(rows)), rows)

    def _draw_delays(self, count: int) -> torch.Tensor:
        kinds, numbers = self.stand.kinds, torch.rand(count, device=self.device)
        if "latency" in kinds:
            low, high = self._latency
            drawn = self.stand.logic.level * (low + (high + 1 - low) * numbers)
            return torch.clamp(drawn, max=high).to(torch.long)
        return ((DELAY_STEPS + 1 if "delay" in kinds else 0) * numbers).to(torch.long)

    def state(self) -> RobotState:
        """Return the present state, in the table's order."""
        return self.reader.state()


def stand_of(env: Any) -> SpotStandAction:
    """Return the term that holds an env's Spots."""
    term: SpotStandAction = env.action_manager.get_term(STAND)
    return term


def terminated(env: Any) -> torch.Tensor:
    """Termination term, the first: judge the step and return who fell."""
    fell, _ = stand_of(env).judge()
    return fell


def truncated(env: Any) -> torch.Tensor:
    """Termination term after it: return whose time is up."""
    ended: tuple[torch.Tensor, torch.Tensor] = stand_of(env).stand.ended
    return ended[1]


def reward_term(env: Any, name: str) -> torch.Tensor:
    """Reward term: return one of the shared logic's, weighted."""
    value: torch.Tensor = stand_of(env).stand.terms[name]
    return value


def observation(env: Any) -> torch.Tensor:
    """Observation term: return what the policies see."""
    term = stand_of(env)
    return term.stand.observation(term.state())
