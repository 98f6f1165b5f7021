"""Checkpoints and metrics of a run, once per iteration."""

from __future__ import annotations

import json
import time
from collections import deque
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from adc_wrappers.core.env_states import EnvState, EnvStateError, part_of, put_array
from adc_wrappers.runs import Checkpoint, CheckpointError, RunFolder
from adc_wrappers.training.config import ProgressReporter
from adc_wrappers.training.resuming import (
    env_parts,
    load_random_states,
    load_running,
    load_torch_random_state,
    random_states,
    read_learning_rate,
    read_state,
    running_state,
)
from adc_wrappers.training.trained import check_weights, read_tensors, tensor_bytes

from .callbacks import KLAdaptiveLearningRate
from .vec_env import find_curriculum

__all__ = ["RunCallback", "load_parameters", "restore"]


class RunCallback(BaseCallback):
    """Writes a row of metrics when a rollout ends and a checkpoint when the update after it is done.

    Put it behind the callbacks whose results it records.

    Args:
        folder: Where metrics and checkpoints go.
        schedule: The learning rate.
        checkpoint_every: Iterations between two checkpoints.
        reporter: Is told about every iteration.
        done: Iterations that a resumed run has behind it.
    """

    def __init__(
        self,
        folder: RunFolder,
        schedule: KLAdaptiveLearningRate,
        checkpoint_every: int,
        reporter: ProgressReporter,
        done: int = 0,
    ) -> None:
        super().__init__()
        self._folder = folder
        self._schedule = schedule
        self._every = checkpoint_every
        self._reporter = reporter
        self._since = time.perf_counter()
        self._steps_then = 0
        self._settled = self._saved_iteration = done
        self._running: EnvState | None = None

    def _on_training_start(self) -> None:
        self._since, self._steps_then = time.perf_counter(), self.num_timesteps

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        iteration = self._settle()
        if iteration % self._every == 0:
            self._save(iteration)

    def _on_training_end(self) -> None:
        self._save(self._settle())

    def _settle(self) -> int:
        """Take the states of the envs between two iterations and return the number of the one that is done."""
        wrapper = find_curriculum(self.training_env)
        iteration = wrapper.curriculum.iteration
        if iteration != self._settled:
            self._running = running_state(wrapper, _trainer_state(self.model))
            self._settled = iteration
        return iteration

    def _on_rollout_end(self) -> None:
        wrapper = find_curriculum(self.training_env)
        now = time.perf_counter()
        speed = (self.num_timesteps - self._steps_then) / max(now - self._since, 1e-9)
        self._since, self._steps_then = now, self.num_timesteps
        episodes: list[dict[str, float]] = list(self.model.ep_info_buffer or [])
        totals = wrapper.adc.last_totals
        row: dict[str, float] = {
            "iteration": wrapper.curriculum.iteration,
            "steps": self.num_timesteps,
            "stiffness": wrapper.adc.report["stiffness"],
            "damping_mean": wrapper.adc.report["damping_mean"],
            "progress": wrapper.curriculum.progress,
            "episode_length_ema": wrapper.curriculum.length_ema,
            "episode_length_mean": totals.mean_length,
            "episodes": totals.episodes,
            "success_ema": wrapper.curriculum.success_ema,
            "return_mean": float(np.mean([episode["r"] for episode in episodes])) if episodes else float("nan"),
            "learning_rate": self._schedule.learning_rate,
            "steps_per_second": round(speed, 1),
        }
        self._folder.metrics.append(row)
        self._reporter.update(self.num_timesteps, row)

    def _save(self, iteration: int) -> None:
        if iteration == self._saved_iteration:
            return
        self._folder.checkpoints.save(self.num_timesteps, self._parts())
        self._saved_iteration = iteration

    def _parts(self) -> dict[str, bytes]:
        wrapper = find_curriculum(self.training_env)
        state = {
            "num_timesteps": self.num_timesteps,
            "curriculum": wrapper.state_dict(),
            "task": None if wrapper.inner_task is None else wrapper.inner_task.state_dict(),
            "learning_rate": self._schedule.state_dict(),
            **random_states(),
        }
        return {
            "state.json": json.dumps(state).encode(),
            "parameters.pt": tensor_bytes(self.model.get_parameters()),
            "torch_rng.pt": tensor_bytes(torch.get_rng_state()),
            **env_parts(self._running),
        }


def load_parameters(model: PPO, checkpoint: Checkpoint) -> None:
    """Load policy and optimizer; only tensors are read, no pickled code."""
    parameters = read_tensors(checkpoint, "parameters.pt")
    where = f"{checkpoint.path}: parameters.pt"
    if not isinstance(parameters, dict):
        raise CheckpointError(f"{where}: expected the parameters of policy and optimizer by name; get the file again.")
    check_weights(model.policy.state_dict(), parameters.get("policy"), where)
    try:
        model.set_parameters(parameters, exact_match=True)
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # of the optimizer's state, in torch's words
        raise CheckpointError(f"{where}: the optimizer's state does not fit the policy ({error!r}).") from error


def restore(model: PPO, venv: VecEnv, schedule: KLAdaptiveLearningRate, folder: RunFolder) -> bool:
    """Bring a fresh model and env to the state of the newest whole checkpoint, if there is any.

    Returns:
        Whether the envs are in the midst of their episodes, so that they must not be reset.
    """
    if not folder.checkpoints.paths():
        folder.metrics.keep_until(0)
        return False
    checkpoint = folder.checkpoints.load_latest()
    state = read_state(checkpoint)
    rate = state.get("learning_rate")
    read_learning_rate(checkpoint, rate.get("learning_rate") if isinstance(rate, dict) else None)
    load_parameters(model, checkpoint)
    wrapper = find_curriculum(venv)
    wrapper.load_state_dict(state["curriculum"])
    if wrapper.inner_task is not None and state.get("task") is not None:
        wrapper.inner_task.load_state_dict(state["task"])
    schedule.load_state_dict(state["learning_rate"])
    model.num_timesteps = int(state["num_timesteps"])
    folder.metrics.keep_until(int(state["curriculum"]["iteration"]))
    trainer = load_running(checkpoint, wrapper)
    if trainer is not None:
        try:
            _load_trainer_state(model, trainer)
        except EnvStateError as error:
            raise CheckpointError(f"{checkpoint.path}: {error}") from error
    load_random_states(state)
    load_torch_random_state(checkpoint, read_tensors(checkpoint, "torch_rng.pt"))
    return trainer is not None


def _trainer_state(model: Any) -> EnvState:
    """What SB3 holds of running and recent episodes."""
    monitor = _monitor(model)
    episodes = list(model.ep_info_buffer)
    return {
        "observation": np.array(model._last_obs),
        "episode_starts": np.array(model._last_episode_starts, dtype=bool),
        "returns": monitor.episode_returns.copy(),
        "lengths": monitor.episode_lengths.copy(),
        "recent_returns": np.array([episode["r"] for episode in episodes], dtype=np.float32),
        "recent_lengths": np.array([episode["l"] for episode in episodes], dtype=np.int32),
        "recent_successes": np.array(model.ep_success_buffer, dtype=bool),
    }


def _load_trainer_state(model: Any, state: EnvState) -> None:
    monitor, space = _monitor(model), model.observation_space
    observation = np.zeros((model.n_envs, *space.shape), dtype=space.dtype)
    starts = np.zeros(model.n_envs, dtype=bool)
    put_array(observation, state, "observation")
    put_array(starts, state, "episode_starts")
    put_array(monitor.episode_returns, state, "returns")
    put_array(monitor.episode_lengths, state, "lengths")
    returns, lengths = (part_of(state, f"recent_{name}", np.ndarray).ravel() for name in ("returns", "lengths"))
    model._last_obs, model._last_episode_starts = observation, starts
    window = model._stats_window_size
    episodes = [{"r": value, "l": length, "t": 0.0} for value, length in zip(returns, lengths, strict=False)]
    model.ep_info_buffer = deque(episodes, maxlen=window)
    model.ep_success_buffer = deque(part_of(state, "recent_successes", np.ndarray).ravel().tolist(), maxlen=window)


def _monitor(model: Any) -> VecMonitor:
    """The episode monitor, which is the outermost layer of a training env."""
    monitor = model.get_env()
    if not isinstance(monitor, VecMonitor):
        raise TypeError(f"expected a training env with VecMonitor outermost, got {type(monitor).__name__}.")
    return monitor
