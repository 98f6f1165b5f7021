"""A simulator's batch of tensors as a ``gymnasium.vector.VectorEnv`` of numpy arrays."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from adc_wrappers.core.actuators import to_numpy

from .episodes import StepResult
from .task import EpisodeWatcher
from .task_env import final_infos

__all__ = ["TensorTaskEnv"]


class TensorTaskEnv(VectorEnv[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]):
    """Envs of Isaac Lab or mjlab with the interface that :class:`~.task_env.TaskVectorEnv` has.

    Everything is copied from the device at every step: for evaluation and export. Trainers take the tensors.

    Args:
        env: The simulator's env, as ``gymnasium.make`` gives it. Inside are ``numpy_task()``, ``actuator_backend``, and
            ``watchers`` that are called with a :class:`~.episodes.StepResult` of tensors before anything is reset.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": [],
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(self, env: Any) -> None:
        self.tensor_env = env
        inner = env.unwrapped
        self.task = inner.numpy_task()
        self.num_envs = inner.num_envs
        self.device = inner.device
        self.actuator_backend = inner.actuator_backend
        self.adc_config = inner.adc_config
        self.action_term = inner.action_term
        self.single_observation_space = self.task.observation_space
        self.single_action_space = self.task.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.render_mode = None
        self.watchers: list[EpisodeWatcher] = []
        """Are shown every step before finished envs are reset."""
        self._running = False
        self._result: StepResult | None = None
        inner.watchers.append(self._note)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin new episodes everywhere; such an env resets no others from outside."""
        if (options or {}).get("reset_mask") is not None:
            raise ValueError("reset_mask: this simulator resets all envs or, in a step, those that end.")
        first = seed[0] if isinstance(seed, list) else seed
        observation, _ = self.tensor_env.reset(seed=first)
        self._running = True
        for watcher in self.watchers:
            watcher.begin(np.arange(self.num_envs))
        return self._observation(observation), {}

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Simulate one policy step of every env; those that end have been reset when it returns."""
        import torch

        if not self._running:
            raise ResetNeeded("call reset() before step().")
        with torch.inference_mode():
            moved = torch.as_tensor(np.asarray(actions, dtype=np.float32), device=self.device)
            observation, *_ = self.tensor_env.step(moved)
        result, self._result = self._result, None
        if result is None:
            raise RuntimeError(f"{type(self.tensor_env.unwrapped).__name__} took a step and told nobody how it went.")
        infos: dict[str, Any] = {
            "reward_terms": result.reward_terms, "holds": result.holds, "progress": result.progress,
        }  # fmt: skip
        done = result.terminated | result.truncated
        if done.any():
            infos.update(final_infos(result, done))
            for watcher in self.watchers:
                watcher.begin(np.flatnonzero(done))
        return self._observation(observation), result.reward, result.terminated, result.truncated, infos

    def _note(self, step: StepResult) -> None:
        """Keep a step as arrays and show it to the watchers, while the envs are where it led them."""
        values: dict[str, Any] = {
            name: _masks_or_numbers(part) for name, part in step._asdict().items() if name != "reward_terms"
        }
        values["observation"] = values["observation"].astype(np.float32)
        self._result = StepResult(
            **values, reward_terms={name: to_numpy(term) for name, term in step.reward_terms.items()}
        )
        for watcher in self.watchers:
            watcher.step(self._result)

    def _observation(self, observation: Any) -> NDArray[np.float32]:
        return to_numpy(observation["policy"]).astype(np.float32)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the simulation so that another can be made in this process, where there is one at a time."""
        self.tensor_env.close()
        gc.collect()


def _masks_or_numbers(values: Any) -> NDArray[Any]:
    array: NDArray[Any] = values.cpu().numpy().copy()
    return array if array.dtype == bool else array.astype(np.float64)
