"""Averages after a resume that began every env anew, over the latest episode of each env."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .states import EnvState, part_of, put_array
from .totals import EpisodeTotals

__all__ = ["LatestEpisodes"]


class LatestEpisodes:
    """The last completed episode of every env since a resume.

    Where all envs begin at once, short episodes end first, and again in every later round: a mean over the episodes
    that an iteration happens to complete dips. The mean over the latest episode of each env does not: it waits for the
    first episode of every env, and each env counts once however often it fails.

    Args:
        num_envs: Number of envs.
        patience: Steps after which a first episode that still runs counts with its length so far.
    """

    def __init__(self, num_envs: int, patience: float) -> None:
        self.patience = patience
        self.ready = False
        """Whether every env has had its first episode."""
        self._lengths: NDArray[np.float64] = np.full(num_envs, np.nan)
        self._verdicts: NDArray[np.float64] = np.full(num_envs, np.nan)

    def note(self, env_ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        """Take note of completed episodes, not judged yet."""
        self._lengths[env_ids] = lengths
        self._verdicts[env_ids] = np.nan

    def judge(self, env_ids: NDArray[np.int64], successes: NDArray[np.bool_]) -> None:
        """Take note of which of them succeeded."""
        self._verdicts[env_ids] = successes

    def totals(self, ages: NDArray[np.int64]) -> EpisodeTotals:
        """Return the sums over the latest episodes; nothing before every env has one.

        Args:
            ages: Steps since each env's running episode began.
        """
        lengths = np.where(np.isnan(self._lengths) & (ages >= self.patience), ages, self._lengths)
        if np.isnan(lengths).any():
            return EpisodeTotals()
        self.ready = True
        judged = self._verdicts[~np.isnan(self._verdicts)]
        return EpisodeTotals(len(lengths), float(lengths.sum()), len(judged), int(judged.sum()))

    def state_dict(self) -> EnvState:
        """Return what a checkpoint needs."""
        return {
            "patience": self.patience,
            "ready": self.ready,
            "lengths": self._lengths.copy(),
            "verdicts": self._verdicts.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.patience = float(part_of(state, "patience", (int, float)))
        self.ready = bool(part_of(state, "ready", bool))
        put_array(self._lengths, state, "lengths")
        put_array(self._verdicts, state, "verdicts")
