"""Episodes of a task as they run: time limit, success, broken physics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.env_states import EnvState, part_of, put_array

from .task import Task

__all__ = ["EpisodeRunner", "StepResult"]


class StepResult(NamedTuple):
    """The result of one policy step, before any reset."""

    observation: NDArray[np.float32]
    reward: NDArray[np.float64]
    reward_terms: dict[str, NDArray[np.float64]]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    success: NDArray[np.bool_]
    """Of the episodes that end here: not terminated, and in the wanted state for the last ``hold_steps`` steps."""
    holds: NDArray[np.bool_]
    """Which envs are in the wanted state."""
    progress: NDArray[np.float64]
    """How far each env is on its way, in [0, 1]."""
    broken: NDArray[np.bool_]
    """Whose physics gave a number that is not finite: terminated, observation and reward zeroed."""


class EpisodeRunner:
    """The clocks of a batch of episodes, by which a task is run in steps."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._elapsed: NDArray[np.int64] = np.zeros(task.backend.num_envs, dtype=np.int64)
        self._held: NDArray[np.int64] = np.zeros(task.backend.num_envs, dtype=np.int64)
        self.broken_episodes = 0
        """Episodes ended because the physics broke."""

    def begin(self, env_ids: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Begin new episodes."""
        self.task.begin(env_ids, rng)
        self._elapsed[env_ids] = 0
        self._held[env_ids] = 0

    def env_state(self) -> EnvState | None:
        """Return clocks and task as a checkpoint needs them; None if the task cannot be saved."""
        task = self.task.env_state()
        if task is None:
            return None
        return {
            "elapsed": self._elapsed.copy(),
            "held": self._held.copy(),
            "broken_episodes": self.broken_episodes,
            "learned": self.task.state_dict(),
            "task": task,
        }

    def load_env_state(self, state: EnvState, rng: np.random.Generator) -> None:
        """Restore what :meth:`env_state` returned; ``rng`` is the generator of the next :meth:`begin`."""
        put_array(self._elapsed, state, "elapsed")
        put_array(self._held, state, "held")
        self.broken_episodes = part_of(state, "broken_episodes", int)
        learned = part_of(state, "learned")
        if learned:
            self.task.load_state_dict(learned)
        self.task.load_env_state(part_of(state, "task"), rng)

    def step(self, actions: NDArray[np.float32]) -> StepResult:
        """Simulate one policy step of every env; nothing is reset."""
        task = self.task
        task.advance(actions)
        self._elapsed += 1
        observation = task.observe()
        terms = task.reward_terms()
        reward = np.zeros(len(observation))
        for term in terms.values():
            reward += term
        terminated = task.terminated() if task.early_termination else np.zeros(len(observation), dtype=bool)
        holds = task.holds()
        self._held = np.where(holds, self._held + 1, 0)
        broken = ~(np.isfinite(observation).all(axis=1) & np.isfinite(reward))
        if broken.any():
            self.broken_episodes += int(broken.sum())
            observation[broken] = 0.0
            reward[broken] = 0.0
            terms = {name: np.where(broken, 0.0, value) for name, value in terms.items()}
            terminated = terminated | broken
        truncated = (self._elapsed >= task.time_limit) & ~terminated
        success = task.success(self._held, truncated)
        progress = task.progress()
        return StepResult(observation, reward, terms, terminated, truncated, success, holds, progress, broken)
