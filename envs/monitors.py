"""Monitors of episodes, from outside: what happened in them, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["EpisodeMonitor", "EpisodeWatcher", "StepOutcome"]


class StepOutcome(Protocol):
    """The outcome of a step as a watcher is told it, each of shape ``(num_envs,)``."""

    @property
    def reward(self) -> NDArray[np.float64]:
        """Reward of the step."""

    @property
    def reward_terms(self) -> Mapping[str, NDArray[np.float64]]:
        """Its weighted terms by name."""

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Which episodes have failed."""

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Which episodes have run out of time."""

    @property
    def success(self) -> NDArray[np.bool_]:
        """Which of the episodes that end here are a success."""

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Whose physics gave a number that is not finite."""


class EpisodeWatcher(Protocol):
    """A watcher that is shown every step of a batch before finished envs are reset; see ``TaskVectorEnv.watchers``."""

    def begin(self, env_ids: NDArray[np.int64]) -> None:
        """Take note that new episodes have begun."""

    def step(self, outcome: StepOutcome) -> None:
        """Take note of a step of all envs; those that end here have not been reset yet."""


class EpisodeMonitor:
    """A monitor of a batch of episodes, which says how a failed one failed.

    This one knows only whether an episode was terminated; a task with more to say has its own
    (``Task.episode_monitor``). Successes and broken physics are told apart before it is asked.
    """

    failures: ClassVar[tuple[str, ...]] = ("terminated", "timed out")
    """Every answer of :meth:`failure`, in the order of reports."""

    def begin(self, env_ids: NDArray[np.int64]) -> None:
        """Forget the envs' last episodes."""

    def step(self) -> None:
        """Look at the state of every env after a step, before anything is reset."""

    def failure(self, env_id: int, *, terminated: bool) -> str:
        """Return how the episode failed that just ended in this env without success."""
        return self.failures[0] if terminated else self.failures[1]

    def numbers(self, env_id: int) -> dict[str, float]:
        """Return what is worth knowing about the episode that just ended in this env; the same names always."""
        return {}
