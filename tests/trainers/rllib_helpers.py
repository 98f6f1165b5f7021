"""Envs and probes of the RLlib tests; importable in env runners."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from helpers import FakeBackend

from adc_wrappers import ActuatorCurriculumWrapper, ActuatorPort, make_env
from adc_wrappers.core.backend_access import ActuatorPortMethods


class ClockEnv(ActuatorPortMethods, gym.Env[Any, Any]):
    """An env that shows its clock; an episode is as long as the joint is soft, so every length tells its stiffness."""

    def __init__(self, lengths: list[int] | None = None) -> None:
        self.observation_space = gym.spaces.Box(0, 1000, (1,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.actuator_backend = FakeBackend(joints=1)
        self._lengths = lengths
        self._episode = -1
        self._clock = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._episode += 1
        self._clock = 0
        self._length = self._lengths[self._episode % len(self._lengths)] if self._lengths else self._by_stiffness()
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        self._clock += 1
        done = self._clock >= self._length
        return self._observation(), 1.0, done, False, {"is_success": True} if done else {}

    def _observation(self) -> Any:
        return np.array([self._clock], np.float32)

    def _by_stiffness(self) -> int:
        return round(100 - float(self.actuator_backend.stiffness[0, 0]))


class EpisodeLog(gym.Wrapper):
    """A log of each completed episode's length and live stiffness, in a file of its process, apart from the library."""

    def __init__(self, env: Any, folder: str) -> None:
        super().__init__(env)
        self._path = Path(folder) / f"{os.getpid()}.txt"
        self._steps = 0

    def reset(self, **kwargs: Any) -> Any:
        self._steps = 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self._steps += 1
        if result[2] or result[3]:
            stiffness = float(self.unwrapped.actuator_backend.gains().stiffness[0, 0])
            with self._path.open("a") as file:
                file.write(f"{self._steps} {stiffness!r}\n")
        return result


def logged_cartpole(context: Any) -> Any:
    return EpisodeLog(make_env("cartpole", backend="analytic"), context["folder"])


def clock_env(context: Any) -> Any:
    return ClockEnv()


def ported_env(context: Any) -> Any:
    env = ClockEnv([3, 5, 9])
    return ActuatorPort(env, env.actuator_backend)


def wrapped_env(context: Any) -> Any:
    return ActuatorCurriculumWrapper(ClockEnv([3, 5, 9]))


def cartpole_batch(context: Any) -> Any:
    return make_env("cartpole", backend="analytic", num_envs=context["num_envs"])


def live_stiffness(env_runner: Any) -> Any:
    """K of every env as the physics has it, with the runner's process; None for a runner without envs."""
    if env_runner.env is None:
        return None
    envs = env_runner.env.unwrapped
    if hasattr(envs, "actuator_backend"):
        rows = envs.actuator_backend.gains().stiffness
    else:
        rows = [pair[0] for pair in envs.call("adc_get_gains")]
    return os.getpid(), np.array(rows)[:, 0].tolist()
