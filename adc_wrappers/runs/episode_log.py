"""Episodes of an evaluation, every counted one written down, and its last seconds kept as poses to be drawn later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.envs.task import EpisodeMonitor, StepOutcome, Task

__all__ = ["BROKEN", "SUCCESS", "Clip", "ClipRecorder", "EpisodeLog", "EpisodeRow"]


SECONDS = 3.0


@dataclass(frozen=True, eq=False)
class Clip:
    """The end of one episode."""

    env_id: int
    """Where it was played."""

    number: int
    """Which of the env's counted episodes it was, from 0."""

    length: int
    """Its policy steps."""

    poses: NDArray[np.float64]
    """The last of them, one row each (``Task.poses``)."""

    policy_step: float
    """Seconds between two of them."""


class ClipRecorder:
    """The last seconds of every env, and for each failure mode the clip of its first episode.

    First is the one in the env with the smallest number, and not the one that ended first, which would be a short one.

    Args:
        task: The task that is played.
        seconds: Length of a clip.
    """

    def __init__(self, task: Task, seconds: float = SECONDS) -> None:
        self._task = task
        self._steps = max(1, round(seconds / task.policy_step))
        self._ring: NDArray[np.float64] | None = None
        self._clock = 0
        self.clips: dict[str, Clip] = {}

    def record(self) -> None:
        """Remember the poses of this moment."""
        poses = self._task.poses()
        if poses is None:
            return
        if self._ring is None:
            self._ring = np.zeros((self._steps, *poses.shape))
        self._ring[self._clock % self._steps] = poses
        self._clock += 1

    def keep(self, mode: str, env_id: int, number: int, length: int) -> None:
        """Keep the clip of an episode that has just ended, if it is the first of its mode."""
        before = self.clips.get(mode)
        if self._ring is None or (before is not None and before.env_id <= env_id):
            return
        steps = np.arange(self._clock - min(length, self._steps), self._clock) % self._steps
        poses = self._ring[steps, env_id]
        if np.isfinite(poses).all():
            self.clips[mode] = Clip(env_id, number, length, poses, self._task.policy_step)


SUCCESS = "success"
BROKEN = "broken physics"


@dataclass(frozen=True, kw_only=True)
class EpisodeRow:
    """One episode."""

    env: int
    """Where it was played."""

    length: int
    """Its policy steps."""

    reward: float
    """Its return."""

    success: bool
    """Whether the task's success predicate held."""

    terminated: bool
    """Whether it ended before its time."""

    mode: str
    """How it ended: ``"success"``, or one of the task's failure modes."""

    reward_terms: dict[str, float]
    """Each term of the reward, summed."""

    numbers: dict[str, float]
    """What the task's monitor has to say about it."""

    randomization: dict[str, float]
    """What was randomized in it."""


class EpisodeLog:
    """A fixed share of counted episodes in every env, so that short ones are not favoured.

    Args:
        num_envs: Envs in the batch.
        episodes: Episodes to count in all.
        task: The task, if it is one of this library's; else only flags and rewards are known.
    """

    def __init__(self, num_envs: int, episodes: int, task: Task | None) -> None:
        self._quota = np.full(num_envs, episodes // num_envs) + (np.arange(num_envs) < episodes % num_envs)
        self._task = task
        self._monitor = EpisodeMonitor() if task is None else task.episode_monitor()
        self._recorder = None if task is None else ClipRecorder(task)
        self._lengths: NDArray[np.int64] = np.zeros(num_envs, dtype=np.int64)
        self._returns: NDArray[np.float64] = np.zeros(num_envs)
        self._terms: dict[str, NDArray[np.float64]] = {}
        self._rows: list[list[EpisodeRow]] = [[] for _ in range(num_envs)]
        self.missing = episodes
        """Episodes still to be counted."""

    @property
    def modes(self) -> tuple[str, ...]:
        """Every way in which an episode may end, in the order of reports."""
        return (SUCCESS, *self._monitor.failures, BROKEN)

    @property
    def rows(self) -> tuple[EpisodeRow, ...]:
        """The counted episodes, env by env."""
        return tuple(row for rows in self._rows for row in rows)

    @property
    def clips(self) -> dict[str, Clip]:
        """The end of one episode of each failure mode that occurred."""
        return {} if self._recorder is None else self._recorder.clips

    def begin(self, env_ids: NDArray[np.int64]) -> None:
        """Take note that new episodes have begun."""
        self._monitor.begin(env_ids)
        self._lengths[env_ids] = 0
        self._returns[env_ids] = 0.0
        for total in self._terms.values():
            total[env_ids] = 0.0

    def step(self, outcome: StepOutcome) -> None:
        """Take note of a step, before anything is reset."""
        self._monitor.step()
        if self._recorder is not None:
            self._recorder.record()
        self._lengths += 1
        self._returns += outcome.reward
        for name, values in outcome.reward_terms.items():
            self._terms[name] = self._terms.get(name, 0.0) + np.asarray(values)
        for env_id in np.flatnonzero((outcome.terminated | outcome.truncated) & (self._quota > 0)):
            self._end(int(env_id), outcome)

    def _end(self, env_id: int, outcome: StepOutcome) -> None:
        mode = self._mode(env_id, outcome)
        if mode != SUCCESS and self._recorder is not None:
            self._recorder.keep(mode, env_id, len(self._rows[env_id]), int(self._lengths[env_id]))
        described = {} if self._task is None else self._task.describe()
        self._rows[env_id].append(
            EpisodeRow(
                env=env_id,
                length=int(self._lengths[env_id]),
                reward=float(self._returns[env_id]),
                success=mode == SUCCESS,
                terminated=bool(outcome.terminated[env_id]),
                mode=mode,
                reward_terms={name: float(total[env_id]) for name, total in self._terms.items()},
                numbers=self._monitor.numbers(env_id),
                randomization={name: float(values[env_id]) for name, values in described.items()},
            )
        )
        self._quota[env_id] -= 1
        self.missing -= 1

    def _mode(self, env_id: int, outcome: StepOutcome) -> str:
        if outcome.broken[env_id]:
            return BROKEN
        if outcome.success[env_id]:
            return SUCCESS
        return self._monitor.failure(env_id, terminated=bool(outcome.terminated[env_id]))
