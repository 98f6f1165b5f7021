"""Checkpoints and metrics of a run, once per iteration."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from adc_wrappers.runs import Checkpoint, RunFolder
from adc_wrappers.training.progress import ProgressReporter
from adc_wrappers.training.trained import read_tensors, tensor_bytes

from .schedules import KLAdaptiveLearningRate
from .vec_env import find_curriculum

__all__ = ["RunCallback", "load_parameters", "restore"]


class RunCallback(BaseCallback):
    """Writes a row of metrics when a rollout ends and a checkpoint when the update after it is done.

    Put it behind the callbacks whose results it records.
    """

    def __init__(
        self, folder: RunFolder, schedule: KLAdaptiveLearningRate, checkpoint_every: int, reporter: ProgressReporter
    ) -> None:
        super().__init__()
        self._folder = folder
        self._schedule = schedule
        self._every = checkpoint_every
        self._reporter = reporter
        self._since = time.perf_counter()
        self._steps_then = 0
        self._saved_iteration = -1

    def _on_training_start(self) -> None:
        self._since, self._steps_then = time.perf_counter(), self.num_timesteps

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        iteration = find_curriculum(self.training_env).curriculum.iteration
        if iteration > 0 and iteration % self._every == 0:
            self._save(iteration)

    def _on_training_end(self) -> None:
        self._save(find_curriculum(self.training_env).curriculum.iteration)

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
        numpy_state: Any = np.random.get_state(legacy=False)  # noqa: NPY002 (SB3 draws its minibatches from it)
        numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()
        wrapper = find_curriculum(self.training_env)
        state = {
            "num_timesteps": self.num_timesteps,
            "curriculum": wrapper.state_dict(),
            "task": None if wrapper.inner_task is None else wrapper.inner_task.state_dict(),
            "learning_rate": self._schedule.state_dict(),
            "python_rng": random.getstate(),
            "numpy_rng": numpy_state,
        }
        return {
            "state.json": json.dumps(state).encode(),
            "parameters.pt": tensor_bytes(self.model.get_parameters()),
            "torch_rng.pt": tensor_bytes(torch.get_rng_state()),
        }


def load_parameters(model: PPO, checkpoint: Checkpoint) -> None:
    """Load policy and optimizer; only tensors are read, no pickled code."""
    parameters = read_tensors(checkpoint, "parameters.pt")
    model.set_parameters(parameters, exact_match=True)


def restore(model: PPO, venv: VecEnv, schedule: KLAdaptiveLearningRate, folder: RunFolder) -> None:
    """Bring a fresh model and env to the state of the newest whole checkpoint, if there is any."""
    if not folder.checkpoints.paths():
        folder.metrics.keep_until(0)
        return
    checkpoint = folder.checkpoints.load_latest()
    state = checkpoint.json("state.json")
    load_parameters(model, checkpoint)
    wrapper = find_curriculum(venv)
    wrapper.load_state_dict(state["curriculum"])
    if wrapper.inner_task is not None and state.get("task") is not None:
        wrapper.inner_task.load_state_dict(state["task"])
    schedule.load_state_dict(state["learning_rate"])
    model.num_timesteps = int(state["num_timesteps"])
    folder.metrics.keep_until(int(state["curriculum"]["iteration"]))
    version, internal, gauss = state["python_rng"]
    random.setstate((version, tuple(internal), gauss))
    numpy_state = state["numpy_rng"]
    numpy_state["state"]["key"] = np.array(numpy_state["state"]["key"], dtype=np.uint32)
    np.random.set_state(numpy_state)  # noqa: NPY002
    torch.set_rng_state(read_tensors(checkpoint, "torch_rng.pt"))
