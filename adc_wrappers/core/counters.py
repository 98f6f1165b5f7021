"""Counting completed episodes, by the wrapper's own clock and never from an env's buffers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from .totals import EpisodeTotals

__all__ = ["ArrayCounter", "ScalarCounter", "TensorCounter"]


class ScalarCounter:
    """Episodes of one env."""

    def __init__(self) -> None:
        self._clock = 0
        self._totals = EpisodeTotals()

    def restart(self) -> None:
        """Begin a new episode; what ran before is not counted."""
        self._clock = 0

    def step(self) -> None:
        """Count one policy step."""
        self._clock += 1

    def complete(self, success: bool | None) -> None:
        """Close the running episode."""
        judged = success is not None
        self._totals += EpisodeTotals(1, self._clock, int(judged), int(bool(success)))
        self._clock = 0

    def collect(self) -> EpisodeTotals:
        """Return the totals since the last call."""
        totals, self._totals = self._totals, EpisodeTotals()
        return totals


class ArrayCounter:
    """Episodes of a batch of numpy envs, under any Gymnasium autoreset mode.

    Only a clock and each env's start time are kept, so a step in which nothing ends costs two small array operations.
    """

    def __init__(self, num_envs: int, autoreset_mode: AutoresetMode) -> None:
        self._clock = 0
        self._start = np.zeros(num_envs, dtype=np.int64)
        # Under NEXT_STEP the step after an episode's end is its reset and belongs to no episode.
        self._gap = 1 if autoreset_mode == AutoresetMode.NEXT_STEP else 0
        self._totals = EpisodeTotals()

    def restart(self, mask: NDArray[np.bool_] | None = None) -> None:
        """Begin new episodes in all envs, or where ``mask`` is true."""
        self._start[slice(None) if mask is None else mask] = self._clock

    def step(self, done: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """Count one step of every env and return the indices of those whose episode is complete, if any."""
        self._clock += 1
        if not np.count_nonzero(done):
            return None
        ended: NDArray[np.int64] = np.flatnonzero(done)
        lengths = self._clock - self._start[ended]
        self._start[ended] = self._clock + self._gap
        self._totals += EpisodeTotals(len(ended), float(lengths.sum()))
        return ended

    def judge(self, successes: NDArray[np.bool_]) -> None:
        """Add the verdicts on completed episodes."""
        self._totals += EpisodeTotals(judged=len(successes), successes=int(np.count_nonzero(successes)))

    def collect(self) -> EpisodeTotals:
        """Return the totals since the last call."""
        totals, self._totals = self._totals, EpisodeTotals()
        return totals


class TensorCounter:
    """Episodes of a batch of torch envs that reset in the step that ends them, such as Isaac Lab's.

    Nothing leaves the device until :meth:`collect`. An env's episodes follow each other without a gap, so the sum of
    their lengths is the time of the last end minus the start of the first: three in-place operations per step.
    """

    def __init__(self, like: Any) -> None:
        """Create the counters beside the tensor ``like``, as normal tensors even under ``torch.inference_mode()``."""
        torch = sys.modules["torch"]
        self._clock = 0
        with torch.inference_mode(False):
            self._first = torch.zeros(like.shape, dtype=torch.int64, device=like.device)
            self._last = torch.zeros_like(self._first)
            self._episodes = torch.zeros_like(self._first)
            self._judged = torch.zeros_like(self._first)
            self._successes = torch.zeros_like(self._first)
        self._banked = EpisodeTotals()

    def restart(self) -> None:
        """Begin new episodes in all envs; running ones are not counted."""
        self._banked += self._read()
        self._first.fill_(self._clock)
        self._last.fill_(self._clock)

    def step(self, done: Any) -> None:
        """Count one step of every env, in which the episodes of those in the mask ``done`` are complete."""
        self._clock += 1
        self._last.masked_fill_(done, self._clock)
        self._episodes.add_(done)

    def judge(self, done: Any, success: Any) -> None:
        """Add the verdicts ``success`` of the envs in ``done``."""
        self._judged.add_(done)
        self._successes.add_(done & success.bool())

    def collect(self) -> EpisodeTotals:
        """Return the totals since the last call: the one read from the device."""
        totals, self._banked = self._banked + self._read(), EpisodeTotals()
        return totals

    def _read(self) -> EpisodeTotals:
        sums = [(self._last - self._first).sum(), self._episodes.sum(), self._judged.sum(), self._successes.sum()]
        length_sum, episodes, judged, successes = sys.modules["torch"].stack(sums).tolist()
        self._first.copy_(self._last)
        for buffer in (self._episodes, self._judged, self._successes):
            buffer.zero_()
        return EpisodeTotals(episodes, float(length_sum), judged, successes)
