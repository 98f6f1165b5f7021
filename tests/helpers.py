"""Small envs, backends and probes that several tests use."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np

from adc_wrappers.core.actuators import Gains

STILL = {
    "pole_mass": 1e-6,
    "start_angle": 0.0,
    "start_rate": 0.0,
    "angle_limit": 1e9,
    "position_limit": 1e9,
    "time_limit": 10**9,
}
"""Cart-pole settings under which nothing but the PD law acts on the cart and no episode ends."""


_HEED = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def heeding_signals(command: list[str]) -> list[str]:
    """Return a command that ends when it is asked to, also where the test run itself is deaf to it.

    A run in the background ignores Ctrl-C, one under ``nohup`` SIGHUP, and processes inherit what is ignored. Not by
    ``preexec_fn``: it runs Python in a copy of this process, whose threads and locks (gRPC's, torch's) are not there,
    and some of these copies abort.
    """
    return [sys.executable, "-I", "-S", "-c", _HEED, *command]


class FakeBackend:
    """A backend that remembers gains, and can be told to lose them."""

    def __init__(self, num_envs: int = 1, joints: int = 2, inertia: float = 0.1, ignore_writes: bool = False) -> None:
        self.num_envs = num_envs
        self.joint_names = tuple(f"j{i}" for i in range(joints))
        self.inertia = np.full(joints, inertia)
        self.stiffness = np.ones((num_envs, joints))
        self.damping = np.ones((num_envs, joints))
        self.ignore_writes = ignore_writes
        self.writes: list[Any] = []

    def effective_inertia(self) -> np.ndarray:
        return self.inertia

    def gains(self) -> Gains:
        return Gains(self.stiffness.copy(), self.damping.copy())

    def set_gains(self, stiffness: Any, damping: Any, env_ids: Any = None) -> None:
        self.writes.append((np.array(stiffness), None if env_ids is None else np.array(env_ids)))
        if self.ignore_writes:
            return
        rows = slice(None) if env_ids is None else env_ids
        self.stiffness[rows], self.damping[rows] = stiffness, damping


class ScriptedEnv(gym.Env):
    """Episodes whose lengths are known in advance; every third one is a success."""

    def __init__(self, lengths: list[int], backend: Any = None) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.actuator_backend = backend if backend is not None else FakeBackend()
        self._lengths = lengths
        self._episode = -1
        self._clock = 0
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._episode += 1
        self._clock = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        self.actions.append(np.array(action))
        self._clock += 1
        done = self._clock >= self._lengths[self._episode % len(self._lengths)]
        info = {"is_success": self._episode % 3 == 0} if done else {}
        truncated = done and self._episode % 2 == 1
        return np.zeros(3, np.float32), 1.0, done and not truncated, truncated, info


class TorchBatchEnv(gym.Env):
    """A batch of PD-controlled point masses on torch tensors, shaped like an Isaac Lab env.

    Each env's episodes have the lengths of its row of ``lengths``, over and over; finished envs are reset in the same
    step. ``episode_length_buf`` is what such envs expose and RSL-RL randomizes: it must not be trusted.
    """

    is_vector_env = True

    def __init__(self, lengths: Any, joints: int = 2, substeps: int = 4, time_step: float = 0.001) -> None:
        import torch

        self._torch = torch
        self._lengths = torch.as_tensor(lengths)
        self.num_envs = len(self._lengths)
        self.device = "cpu"
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (self.num_envs, 2 * joints), np.float32)
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (self.num_envs, joints), np.float32)
        self.time_step = time_step
        self.substeps = substeps
        self.position = torch.zeros(self.num_envs, joints, dtype=torch.float64)
        self.velocity = torch.zeros_like(self.position)
        self.episode_length_buf = torch.randint(0, 1000, (self.num_envs,))
        self._clock = torch.zeros(self.num_envs, dtype=torch.int64)
        self._episode = torch.zeros(self.num_envs, dtype=torch.int64)
        self._log: dict[str, Any] = {}
        self.actuator_backend = TorchBackend(self.num_envs, joints)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        for tensor in (self.position, self.velocity, self._clock, self._episode):
            tensor.zero_()
        return {"policy": self.position.float()}, {"log": self._log}

    def step(self, action: Any) -> Any:
        torch, backend = self._torch, self.actuator_backend
        for _ in range(self.substeps):
            force = backend.stiffness * (action - self.position) - backend.damping * self.velocity
            self.velocity.add_(force / backend.inertia, alpha=self.time_step)
            self.position.add_(self.velocity, alpha=self.time_step)
        self._clock += 1
        wanted = self._lengths.gather(1, (self._episode % self._lengths.shape[1]).unsqueeze(1)).squeeze(1)
        done = self._clock >= wanted
        truncated = done & (self._episode % 2 == 1)
        success = self._episode % 3 == 0
        self._clock.masked_fill_(done, 0)
        self._episode.add_(done)
        reward = torch.ones(self.num_envs)
        extras = {"log": self._log, "is_success": success}
        return {"policy": self.position.float()}, reward, done & ~truncated, truncated, extras


class TorchBackend:
    """Gains as torch tensors, written in place."""

    def __init__(self, num_envs: int, joints: int) -> None:
        import torch

        self._torch = torch
        self.num_envs = num_envs
        self.joint_names = tuple(f"j{i}" for i in range(joints))
        self.inertia = torch.full((joints,), 0.1, dtype=torch.float64)
        self.stiffness = torch.ones(num_envs, joints, dtype=torch.float64)
        self.damping = torch.ones(num_envs, joints, dtype=torch.float64)

    def effective_inertia(self) -> np.ndarray:
        return self.inertia.numpy()

    def gains(self) -> Gains:
        return Gains(self.stiffness, self.damping)

    def set_gains(self, stiffness: Any, damping: Any, env_ids: Any = None) -> None:
        rows = slice(None) if env_ids is None else self._torch.as_tensor(env_ids)
        self.stiffness[rows] = self._torch.as_tensor(stiffness)
        self.damping[rows] = self._torch.as_tensor(damping)


def spied_commands(env: Any) -> list[np.ndarray]:
    """Return the list that every further command to the backend of an env goes into."""
    backend, sent = env.actuator_backend, []
    advance = type(backend).advance

    def spied(command: Any) -> None:
        sent.append(np.array(command))
        advance(backend, command)

    backend.advance = spied
    return sent
