"""Evaluation at the target gains."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from adc_wrappers.core import ActuatorCurriculumVectorWrapper, CurriculumConfig

__all__ = ["EvaluationResult", "evaluate", "wilson_interval"]


@dataclass(frozen=True)
class EvaluationResult:
    """Episodes under the target gains."""

    stiffness: tuple[float, ...]
    """K per joint that was live, read back from the backend."""

    lengths: NDArray[np.int64]
    """Length of each episode."""

    returns: NDArray[np.float64]
    """Sum of rewards of each episode."""

    successes: NDArray[np.bool_]
    """Whether the task's success predicate held."""

    def summary(self) -> dict[str, Any]:
        """Return the numbers that a report shows."""
        low, high = wilson_interval(int(self.successes.sum()), len(self.successes))
        return {
            "episodes": len(self.lengths),
            "stiffness": list(self.stiffness),
            "success_rate": float(self.successes.mean()),
            "success_95": [low, high],
            "length_mean": float(self.lengths.mean()),
            "length_std": float(self.lengths.std()),
            "return_mean": float(self.returns.mean()),
            "return_std": float(self.returns.std()),
        }

    def write_csv(self, path: Path) -> None:
        """Write one row per episode."""
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["episode", "length", "return", "success"])
            for i, row in enumerate(zip(self.lengths, self.returns, self.successes, strict=True)):
                writer.writerow([i, int(row[0]), float(row[1]), int(row[2])])


def wilson_interval(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the Wilson score interval of a rate, at 95 % by default.

    >>> [round(x, 3) for x in wilson_interval(9, 10)]
    [0.596, 0.982]
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"expected 0 <= successes <= trials and a trial, got {successes} of {trials}.")
    rate = successes / trials
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    centre = rate + z * z / (2 * trials)
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def evaluate(
    policy: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    envs: VectorEnv[Any, Any, Any],
    config: CurriculumConfig,
    *,
    episodes: int,
    seed: int,
) -> EvaluationResult:
    """Run ``policy`` on ``envs`` with the target gains of ``config`` pinned and read back.

    Every env plays its fixed share of the episodes, so that short ones are not favoured.

    Args:
        policy: From a batch of observations to a batch of actions.
        envs: A vector env with same-step autoreset; it is not closed.
        config: Names the target stiffness.
        episodes: Number of episodes.
        seed: Seed of the start states.
    """
    if episodes < 1:
        raise ValueError(f"episodes: expected at least 1, got {episodes}.")
    pinned = ActuatorCurriculumVectorWrapper(envs, config, training=False)
    count = envs.num_envs
    quota = np.full(count, episodes // count) + (np.arange(count) < episodes % count)
    length, reward_sum = np.zeros(count, dtype=np.int64), np.zeros(count)
    rows: list[list[tuple[int, float, bool]]] = [[] for _ in range(count)]
    observation, _ = pinned.reset(seed=seed)
    while (quota > 0).any():
        observation, reward, terminated, truncated, infos = pinned.step(policy(observation))
        length += 1
        reward_sum += reward
        for i in np.flatnonzero(terminated | truncated):
            if quota[i] > 0:
                rows[i].append((int(length[i]), float(reward_sum[i]), bool(infos["final_info"]["is_success"][i])))
                quota[i] -= 1
            length[i], reward_sum[i] = 0, 0.0
    pinned.adc.verify()
    flat = [row for env_rows in rows for row in env_rows]
    return EvaluationResult(
        tuple(pinned.adc.stiffness[0].tolist()),
        np.array([row[0] for row in flat]),
        np.array([row[1] for row in flat]),
        np.array([row[2] for row in flat]),
    )
