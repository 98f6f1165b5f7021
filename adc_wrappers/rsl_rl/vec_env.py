"""A Gymnasium ``VectorEnv``, or a simulator's batch of tensors, as RSL-RL's ``VecEnv``."""

from __future__ import annotations

from collections import UserDict, deque
from functools import cached_property
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from adc_wrappers.core.env_states import EnvState, part_of, put_array
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.envs.task import PrivilegedView, Task

__all__ = ["OBSERVATION_GROUP", "VALUE_GROUP", "RslRlVecEnv", "TensorVecEnv"]

OBSERVATION_GROUP = "policy"
"""Name of the group of observations that a policy sees, as in Isaac Lab."""

VALUE_GROUP = "critic"
"""Name of the group that a value network sees instead, where it sees more, as there."""

_RECENT_EPISODES = 100


class RslRlVecEnv(VecEnv):
    """A batched env, as it is, for RSL-RL to train on.

    Args:
        env: A vector env over boxes that resets finished envs in the same step, such as those of
            ``make_env(…, num_envs=…)``; wrapped in ``ActuatorCurriculumVectorWrapper`` for the curriculum.
        max_episode_length: Policy steps after which episodes are truncated, where the env does not say it itself.
        reward_scale: Factor on the rewards that RSL-RL sees.
        device: Where RSL-RL's tensors live; the env itself speaks numpy.
        seed: Seed of the first reset.
        privileged: Show the task's privileged view too, as the group ``"critic"``.

    ``extras`` has ``time_outs``, and ``log`` with ``adc/…``, the mean of every reward term as ``reward/…``, and the
    share of envs in the wanted state as ``task/holds``, each on every step.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        *,
        max_episode_length: int | None = None,
        reward_scale: float = 1.0,
        device: str = "cpu",
        seed: int | None = None,
        privileged: bool = False,
    ) -> None:
        _check(env)
        self.env = env
        self.privileged = privileged_view(env) if privileged else None
        """What a value network sees instead of the observations; None for nothing else."""
        self.num_envs = env.num_envs
        self._action_shape = (env.num_envs, *(env.single_action_space.shape or ()))
        self.num_actions = int(np.prod(self._action_shape[1:]))
        self.max_episode_length = _time_limit(env) if max_episode_length is None else max_episode_length
        self.device = device
        self.cfg: dict[str, Any] = {"env": str(env)}
        self.reward_scale = reward_scale
        self.recent_returns: deque[float] = deque(maxlen=_RECENT_EPISODES)
        """Returns of the last hundred completed episodes, without ``reward_scale``."""
        self.holding = 0.0
        """Sum over steps of the share of envs in the wanted state; for whoever resets it."""
        self._steps = torch.zeros(self.num_envs, dtype=torch.long, device=device)
        self._returns = np.zeros(self.num_envs)
        self._observation = self._tensors(env.reset(seed=seed)[0])

    @property
    def unwrapped(self) -> Any:
        """The innermost env."""
        return self.env.unwrapped

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Policy steps since each env's last reset."""
        return self._steps

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        raise BackendError(
            "the clocks of a Gymnasium env cannot be set from outside: call learn(…, init_at_random_ep_len=False)."
        )

    def get_observations(self) -> TensorDict:
        """Return the present observations."""
        return self._observation

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step every env."""
        values = actions.detach().to("cpu").numpy().reshape(self._action_shape)
        observation, reward, terminated, truncated, infos = self.env.step(values)
        self._observation = self._tensors(observation)
        dones = terminated | truncated
        self._count(np.asarray(reward, dtype=np.float64), dones)
        extras = {"time_outs": self._tensor(truncated & ~terminated), "log": _Log(infos)}
        if "holds" in infos:
            self.holding += float(infos["holds"].mean())
        return self._observation, self._tensor(reward) * self.reward_scale, self._tensor(dones).long(), extras

    def reset(self, seed: int | None = None) -> TensorDict:
        """Begin new episodes everywhere."""
        self._observation = self._tensors(self.env.reset(seed=seed)[0])
        self._steps.zero_()
        self._returns[:] = 0.0
        return self._observation

    def trainer_state(self) -> EnvState:
        """Return what is known here of running and recent episodes, for a checkpoint; the envs are saved apart."""
        return {
            "observation": self._observation[OBSERVATION_GROUP].cpu().numpy().copy(),
            **({} if self.privileged is None else {"privileged": self._observation[VALUE_GROUP].cpu().numpy().copy()}),
            "steps": self._steps.cpu().numpy().copy(),
            "returns": self._returns.copy(),
            "recent_returns": np.array(self.recent_returns, dtype=np.float64),
            "holding": self.holding,
        }

    def load_trainer_state(self, state: EnvState) -> None:
        """Restore it."""
        observation = self._observation[OBSERVATION_GROUP].cpu().numpy().copy()
        steps = self._steps.cpu().numpy().copy()
        put_array(observation, state, "observation")
        put_array(steps, state, "steps")
        put_array(self._returns, state, "returns")
        self._observation = self._tensors(observation)
        if self.privileged is not None:
            view = self._observation[VALUE_GROUP].cpu().numpy().copy()
            put_array(view, state, "privileged")
            self._observation[VALUE_GROUP] = self._tensor(view)
        self._steps = torch.as_tensor(steps, device=self.device)
        self.recent_returns.clear()
        self.recent_returns.extend(part_of(state, "recent_returns", np.ndarray).ravel().tolist())
        self.holding = float(part_of(state, "holding", (int, float)))

    def close(self) -> None:
        """Close the vector env."""
        self.env.close()

    def _count(self, reward: Any, dones: Any) -> None:
        self._returns += reward
        self._steps += 1
        if dones.any():
            self.recent_returns.extend(self._returns[dones].tolist())
            self._returns[dones] = 0.0
            self._steps[torch.from_numpy(np.flatnonzero(dones)).to(self.device)] = 0

    def _tensor(self, values: Any) -> torch.Tensor:
        array = np.asarray(values)
        return torch.as_tensor(array.astype(np.float32) if array.dtype == np.float64 else array, device=self.device)

    def _tensors(self, observation: Any) -> TensorDict:
        groups = {OBSERVATION_GROUP: self._tensor(observation).float().reshape(self.num_envs, -1).clone()}
        if self.privileged is not None:
            groups[VALUE_GROUP] = self._tensor(self.privileged.observe())
        return TensorDict(groups, batch_size=[self.num_envs], device=self.device)


class _Log(UserDict[str, float]):
    """A step's metrics, worked out when somebody looks: most runs do not, and it takes a tenth of a step's Python."""

    def __init__(self, infos: dict[str, Any]) -> None:
        self._infos = infos

    @cached_property
    def data(self) -> dict[str, float]:  # type: ignore[override]
        """The metrics by name."""
        log = {f"adc/{name}": float(value) for name, value in self._infos.get("adc", {}).items()}
        for name, values in self._infos.get("reward_terms", {}).items():
            log[f"reward/{name}"] = float(values.mean())
        if "holds" in self._infos:
            log["task/holds"] = float(self._infos["holds"].mean())
        return log


def privileged_view(env: Any) -> PrivilegedView:
    """Return a task's privileged view; refuses an env whose task has none."""
    task = getattr(env.unwrapped, "task", None)
    view = task.privileged() if isinstance(task, Task) else None
    if view is None:
        raise CurriculumError(
            f"ppo.privileged_value: expected a task that shows a value network more than the policy sees "
            f"(Task.privileged), as Spot's stands do; {env.unwrapped} does not. Leave it out."
        )
    return view


def _check(env: VectorEnv[Any, Any, Any]) -> None:
    mode = env.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise BackendError(
            f"RSL-RL expects finished envs to be reset in the same step; this one's autoreset_mode is {mode}. Create "
            "it with autoreset_mode=AutoresetMode.SAME_STEP (gymnasium.make_vec takes it in vector_kwargs)."
        )
    for what, space in (("observation", env.single_observation_space), ("action", env.single_action_space)):
        if not isinstance(space, Box):
            raise BackendError(f"RSL-RL expects a Box of numbers as {what} space, got {space}.")


def _time_limit(env: VectorEnv[Any, Any, Any]) -> int:
    """The task's own limit, or the registered one."""
    task = getattr(env.unwrapped, "task", None)
    if task is not None:
        return int(task.time_limit)
    spec = getattr(env, "spec", None)
    limit = getattr(spec, "max_episode_steps", None)
    if limit is None:
        raise BackendError("the env does not say how long its episodes are: pass max_episode_length=.")
    return int(limit)


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
