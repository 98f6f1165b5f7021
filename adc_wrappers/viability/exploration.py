"""Uniform random exploration from the start distribution: how long it lives, and which states it visits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.task import Snapshot, Task

__all__ = ["Exploration", "explore", "failed", "set_stiffness", "take"]


def set_stiffness(task: Task, stiffness: float) -> None:
    """Give every joint of every env this K and the damping that the task's curriculum goes with it."""
    if not (np.isfinite(stiffness) and stiffness > 0.0):
        raise CurriculumError(f"stiffness: expected a positive number, got {stiffness}.")
    backend = task.backend
    values = np.full((backend.num_envs, len(backend.joint_names)), float(stiffness))
    backend.set_gains(values, task.adc_config.damping_at(values, backend.effective_inertia(), backend.joint_names))


def take(snapshot: Snapshot, rows: NDArray[np.int64]) -> Snapshot:
    """Return chosen rows of a snapshot."""
    return {name: values[rows] for name, values in snapshot.items()}


def failed(task: Task) -> NDArray[np.bool_]:
    """Return which envs have terminated or have broken physics."""
    return np.asarray(task.terminated() | ~np.isfinite(task.observe()).all(axis=1))


@dataclass(frozen=True)
class Exploration:
    """Episodes of uniform random actions, each until it terminates or the horizon is over."""

    alive: NDArray[np.bool_]
    """Whether an episode has not terminated after t steps, ``(horizon + 1, episodes)``."""

    states: list[Snapshot]
    """All envs after t steps."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Steps until termination of each episode; the horizon where it did not terminate."""
        return np.asarray(np.minimum(self.alive.sum(axis=0), len(self.alive) - 1))

    @property
    def survival(self) -> NDArray[np.float64]:
        """Share of the episodes that is alive after t steps."""
        return np.asarray(self.alive.mean(axis=1))

    @property
    def alive_share(self) -> float:
        """Of all visited states the share that is not terminal; an episode's terminal state is visited once."""
        ended = np.count_nonzero(~self.alive[-1])
        return float(self.alive.sum() / (self.alive.sum() + ended))

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Snapshot, NDArray[np.int64]]:
        """Draw visited states that are not terminal, uniformly over all visits, and when they were visited.

        Every episode gives at most one of them as long as there are enough episodes, so that they are independent.
        """
        times, episodes = np.nonzero(self.alive)
        order = rng.permutation(len(times))
        _, first = np.unique(episodes[order], return_index=True)
        weights = self.alive.sum(axis=0)[episodes[order][first]]
        chosen = order[rng.choice(first, size=count, p=weights / weights.sum(), replace=count > len(first))]
        parts = [take(self.states[times[i]], episodes[i : i + 1]) for i in chosen]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, times[chosen]


def explore(
    task: Task, horizon: int, rng: np.random.Generator, progress: Callable[[], Any] | None = None
) -> Exploration:
    """Run one episode per env under uniform random actions.

    Args:
        task: The task; its gains stay as they are.
        horizon: Policy steps.
        rng: Source of starts and actions.
        progress: Called after each step.
    """
    if horizon < 1:
        raise CurriculumError(f"horizon: expected at least 1 policy step, got {horizon}.")
    everyone = np.arange(task.backend.num_envs)
    task.begin(everyone, rng)
    space = task.action_space
    alive, states = [~failed(task)], [task.snapshot(everyone)]
    for _ in range(horizon):
        actions = rng.uniform(space.low, space.high, (len(everyone), *space.shape)).astype(np.float32)
        task.advance(actions)
        alive.append(alive[-1] & ~failed(task))
        states.append(task.snapshot(everyone))
        if progress is not None:
            progress()
    return Exploration(np.array(alive), states)
