"""Checkpoints and metrics of a run, once per iteration."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from adc_wrappers.core.env_states import EnvState, EnvStateError, part_of, put_array
from adc_wrappers.runs import Checkpoint, CheckpointError, RunFolder
from adc_wrappers.training.config import ProgressReporter
from adc_wrappers.training.metrics import Pace, metrics_row
from adc_wrappers.training.resuming import (
    checkpoint_parts,
    load_random_states,
    load_running,
    load_torch_random_state,
    read_learning_rate,
    read_state,
    running_state,
)
from adc_wrappers.training.trained import check_weights, read_tensors

from .callbacks import KLAdaptiveLearningRate
from .vec_env import find_curriculum

__all__ = ["RunCallback", "load_parameters", "restore"]


class RunCallback(BaseCallback):
    """A callback that writes metrics when a rollout ends and a checkpoint when the update after it is done.

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
        self._pace = Pace()
        self._settled = self._saved_iteration = done
        self._running: EnvState | None = None

    def _on_training_start(self) -> None:
        self._pace.restart(self.num_timesteps)

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
        row = metrics_row(
            find_curriculum(self.training_env),
            steps=self.num_timesteps,
            returns=[episode["r"] for episode in self.model.ep_info_buffer or []],
            learning_rate=self._schedule.learning_rate,
            pace=self._pace,
        )
        self._folder.metrics.append(row)
        self._reporter.update(self.num_timesteps, row)

    def _save(self, iteration: int) -> None:
        if iteration == self._saved_iteration:
            return
        parts = checkpoint_parts(
            find_curriculum(self.training_env),
            steps=self.num_timesteps,
            learning_rate=self._schedule.state_dict(),
            parameters=self.model.get_parameters(),
            running=self._running,
        )
        self._folder.checkpoints.save(self.num_timesteps, parts)
        self._saved_iteration = iteration


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
