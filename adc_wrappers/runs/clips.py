"""The last seconds of episodes, kept as poses so that they can be drawn later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.envs.task import Task

__all__ = ["Clip", "ClipRecorder"]

SECONDS = 3.0


@dataclass(frozen=True, eq=False)
class Clip:
    """How one episode ended."""

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
    """Keeps the last seconds of every env, and for each failure mode the clip of its first episode.

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
