"""Evaluation at pinned gains."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from adc_wrappers.core import ActuatorCurriculumVectorWrapper, CurriculumConfig
from adc_wrappers.core.files import write_atomically
from adc_wrappers.envs.task_env import TaskVectorEnv
from adc_wrappers.envs.tensor_env import TensorTaskEnv

from .episode_log import Clip, EpisodeLog, EpisodeRow

__all__ = ["EvaluationResult", "evaluate", "wilson_interval"]


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluationResult:
    """Episodes under pinned gains."""

    stiffness: tuple[float, ...]
    """K per joint that was live, read back from the backend."""

    num_envs: int
    """Envs that were stepped together; each played its fixed share."""

    rows: tuple[EpisodeRow, ...]
    """The episodes, env by env."""

    modes: tuple[str, ...]
    """Every way in which an episode may end, ``"success"`` first."""

    clips: dict[str, Clip] = field(default_factory=dict)
    """The end of one episode of each failure mode that occurred."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of each episode."""
        return np.array([row.length for row in self.rows], dtype=np.int64)

    @property
    def returns(self) -> NDArray[np.float64]:
        """Sum of rewards of each episode."""
        return np.array([row.reward for row in self.rows])

    @property
    def successes(self) -> NDArray[np.bool_]:
        """Whether the task's success predicate held."""
        return np.array([row.success for row in self.rows], dtype=bool)

    def mode_counts(self) -> dict[str, int]:
        """Return how many episodes ended in each way, all ways named."""
        counts = Counter(row.mode for row in self.rows)
        return {mode: counts[mode] for mode in self.modes}

    def episode_number(self, clip: Clip) -> int:
        """Return which row a clip belongs to."""
        return next(i for i, row in enumerate(self.rows) if row.env == clip.env_id) + clip.number

    def summary(self) -> dict[str, Any]:
        """Return the numbers that a report shows."""
        low, high = wilson_interval(int(self.successes.sum()), len(self.rows))
        return {
            "episodes": len(self.rows),
            "num_envs": self.num_envs,
            "stiffness": list(self.stiffness),
            "success_rate": float(self.successes.mean()),
            "success_95": [low, high],
            "length_mean": float(self.lengths.mean()),
            "length_std": float(self.lengths.std()),
            "return_mean": float(self.returns.mean()),
            "return_std": float(self.returns.std()),
            "modes": self.mode_counts(),
            "reward_terms": _means([row.reward_terms for row in self.rows]),
            "means": _means([row.numbers for row in self.rows]),
        }

    def write_csv(self, path: Path) -> None:
        """Write one row per episode."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        first = self.rows[0]
        parts = ("reward_terms", "numbers", "randomization")
        names = [*(f"reward_{name}" for name in first.reward_terms), *first.numbers, *first.randomization]
        writer.writerow(["episode", "env", "length", "return", "success", "terminated", "mode", *names])
        for i, row in enumerate(self.rows):
            values = [value for part in parts for value in getattr(row, part).values()]
            writer.writerow(
                [i, row.env, row.length, row.reward, int(row.success), int(row.terminated), row.mode, *values]
            )
        write_atomically(path, text.getvalue().encode())


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


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


class _Outcome(NamedTuple):
    """A step of a vector env that is not of this library, as far as it can be known."""

    reward: NDArray[np.float64]
    reward_terms: dict[str, NDArray[np.float64]]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    success: NDArray[np.bool_]
    broken: NDArray[np.bool_]


def evaluate(
    policy: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    envs: VectorEnv[Any, Any, Any],
    config: CurriculumConfig,
    *,
    episodes: int,
    seed: int,
    on_step: Callable[[int, int], None] | None = None,
) -> EvaluationResult:
    """Run ``policy`` on ``envs`` with the target gains of ``config`` pinned and read back.

    Every env plays its fixed share of the episodes, so that short ones are not favoured. The same seed and number of
    envs give the same episodes.

    Args:
        policy: From a batch of observations to a batch of actions.
        envs: A vector env with same-step autoreset; it is not closed.
        config: Names the target stiffness.
        episodes: Number of episodes.
        seed: Seed of the start states.
        on_step: Called after every step with the episodes and the env steps done so far.
    """
    if episodes < 1:
        raise ValueError(f"episodes: expected at least 1, got {episodes}.")
    own = envs.unwrapped if isinstance(envs.unwrapped, (TaskVectorEnv, TensorTaskEnv)) else None
    learning = own is not None and own.task.training
    task: Any = None if own is None else own.task
    log = EpisodeLog(envs.num_envs, episodes, task)
    pinned = ActuatorCurriculumVectorWrapper(envs, config, training=False)  # the task rests, too
    if own is not None:
        own.watchers.append(log)
    try:
        observation, _ = pinned.reset(seed=seed)
        steps = 0
        while log.missing:
            observation, reward, terminated, truncated, infos = pinned.step(policy(observation))
            if own is None:
                log.step(_outcome(reward, terminated, truncated, infos))
                log.begin(np.flatnonzero(terminated | truncated))
            steps += envs.num_envs
            if on_step is not None:
                on_step(episodes - log.missing, steps)
    finally:
        if own is not None:
            own.task.training = learning
            own.watchers.remove(log)
    pinned.adc.verify()
    return EvaluationResult(
        stiffness=tuple(pinned.adc.stiffness[0].tolist()),
        num_envs=envs.num_envs,
        rows=log.rows,
        modes=log.modes,
        clips=log.clips,
    )


def _outcome(reward: Any, terminated: Any, truncated: Any, infos: dict[str, Any]) -> _Outcome:
    never = np.zeros(len(terminated), dtype=bool)
    success = infos["final_info"]["is_success"] if (terminated | truncated).any() else never
    return _Outcome(reward, infos.get("reward_terms", {}), terminated, truncated, np.asarray(success, bool), never)
