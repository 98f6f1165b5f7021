"""A batch of tensors, such as Isaac Lab's or mjlab's, as RSL-RL's ``VecEnv``, with what a run folder keeps of it."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from adc_wrappers.core.env_states import EnvState

from .vec_env import OBSERVATION_GROUP

__all__ = ["TensorVecEnv"]

_RECENT_EPISODES = 100


class TensorVecEnv(VecEnv):
    """A simulator's batch of tensors for RSL-RL to train on; nothing is read from the device in a step.

    Args:
        env: A ``gymnasium.Env`` with ``num_envs`` of this library, with the curriculum's wrapper around it.
        reward_scale: Factor on the rewards that RSL-RL sees.
        seed: Seed of the first reset.
    """

    def __init__(self, env: Any, *, reward_scale: float = 1.0, seed: int | None = None) -> None:
        self.env = env
        inner = env.unwrapped
        self.num_envs, self.device, self.cfg = inner.num_envs, str(inner.device), inner.cfg
        self.task = inner.numpy_task()
        self.num_actions = int(self.task.action_space.shape[0])
        self.max_episode_length = int(inner.max_episode_length)
        self.reward_scale = reward_scale
        with torch.inference_mode(False):
            self._returns = torch.zeros(self.num_envs, dtype=torch.float64, device=self.device)
            self._held = torch.zeros((), dtype=torch.float64, device=self.device)
        self._ended: list[torch.Tensor] = []
        self._recent: deque[float] = deque(maxlen=_RECENT_EPISODES)
        self._observation = self._packed(env.reset(seed=seed)[0])

    @property
    def unwrapped(self) -> Any:
        """What is asked for ``task``: this view of the innermost env, whose answers are in numpy."""
        return self

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """The env's own clocks, which RSL-RL may set."""
        clocks: torch.Tensor = self.env.unwrapped.episode_length_buf
        return clocks

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        self.env.unwrapped.episode_length_buf = value

    def get_observations(self) -> TensorDict:
        """Return the present observations."""
        return self._observation

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step every env."""
        observation, reward, terminated, truncated, extras = self.env.step(actions.to(self.device))
        self._observation = self._packed(observation)
        done = terminated | truncated
        self._returns.add_(reward)
        self._ended.append(torch.where(done, self._returns, torch.nan))
        self._returns.masked_fill_(done, 0.0)
        self._held.add_(extras["holds"].double().mean())
        told = {"time_outs": truncated & ~terminated, "log": extras.get("log", {})}
        return self._observation, reward * self.reward_scale, done.long(), told

    def reset(self, seed: int | None = None) -> TensorDict:
        """Begin new episodes everywhere."""
        self._observation = self._packed(self.env.reset(seed=seed)[0])
        self._returns.zero_()
        return self._observation

    @property
    def recent_returns(self) -> deque[float]:
        """Returns of the last hundred completed episodes, without ``reward_scale``; asking reads from the device."""
        if self._ended:
            rows = torch.stack(self._ended).cpu()
            self._ended.clear()
            self._recent.extend(rows[~rows.isnan()].tolist())
        return self._recent

    @property
    def holding(self) -> float:
        """Sum over steps of the share of envs in the wanted state; asking reads from the device."""
        return float(self._held)

    @holding.setter
    def holding(self, value: float) -> None:
        self._held.fill_(value)

    def trainer_state(self) -> EnvState:
        """Return nothing: the simulator's own state cannot be saved, and its episodes begin anew."""
        return {}

    def load_trainer_state(self, state: EnvState) -> None:
        """Nothing was kept."""

    def close(self) -> None:
        """Close the simulation."""
        self.env.close()

    def _packed(self, observation: Any) -> TensorDict:
        values = {OBSERVATION_GROUP: observation["policy"].clone()}
        return TensorDict(values, batch_size=[self.num_envs], device=self.device)
