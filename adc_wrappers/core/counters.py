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
    """Episodes of one env, by the clock of its wrapper."""

    def __init__(self) -> None:
        self._start = 0
        self._totals = EpisodeTotals()

    def restart(self, clock: int) -> None:
        """Begin a new episode; what ran before is not counted."""
        self._start = clock

    def complete(self, clock: int, success: bool | None) -> None:
        """Close the running episode."""
        judged = success is not None
        self._totals += EpisodeTotals(1, clock - self._start, int(judged), int(bool(success)))
        self._start = clock

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

    A step only writes which episodes ended into the next row of a buffer on the device: one operation. Lengths are
    worked out when the buffer is full or collected: an env's episodes follow each other without a gap, so the sum of
    their lengths is the time of the last end minus the start of the first.
    """

    _ROWS = 32

    def __init__(self, like: Any) -> None:
        """Create the counters beside the tensor ``like``, as normal tensors even under ``torch.inference_mode()``."""
        self._torch = torch = sys.modules["torch"]
        count, device = len(like), like.device
        with torch.inference_mode(False):
            self._ended = torch.zeros(self._ROWS, count, dtype=torch.bool, device=device)
            self._won = torch.zeros_like(self._ended)
            self._rows = (list(self._ended.unbind(0)), list(self._won.unbind(0)))
            self._times = torch.arange(1, self._ROWS + 1, dtype=torch.uint8, device=device).unsqueeze(1)
            self._start = torch.zeros(count, dtype=torch.int64, device=device)
            self._sums = torch.zeros(4, dtype=torch.int64, device=device)
        self._base = 0
        self._row = 0
        self._judged = [False] * self._ROWS

    def restart(self) -> None:
        """Begin new episodes in all envs; running ones are not counted."""
        self._fold()
        self._start.fill_(self._base)

    def step(self, terminated: Any, truncated: Any) -> Any:
        """Count one step of every env and return the mask of those whose episode is complete."""
        if self._row == self._ROWS:
            self._fold()
        done = self._torch.logical_or(terminated, truncated, out=self._rows[0][self._row])
        self._judged[self._row] = False
        self._row += 1
        return done

    def judge(self, success: Any) -> None:
        """Say which of the episodes that ended in the last step were successes."""
        self._judged[self._row - 1] = True
        self._torch.logical_and(self._rows[0][self._row - 1], success, out=self._rows[1][self._row - 1])

    def collect(self) -> EpisodeTotals:
        """Return the totals since the last call: the one read from the device."""
        return self.collect_with([])[0]

    def collect_with(self, numbers: list[Any]) -> tuple[EpisodeTotals, list[float]]:
        """Return the totals since the last call, and further numbers on the device, in one read from it."""
        self._fold()
        parts = [self._sums.double(), *(number.double().reshape(1) for number in numbers)]
        episodes, length_sum, judged, successes, *values = self._torch.cat(parts).tolist()
        self._sums.zero_()
        return EpisodeTotals(round(episodes), length_sum, round(judged), round(successes)), values

    def _fold(self) -> None:
        """Add the rows of the buffer to the sums and begin with an empty one."""
        rows = self._row
        if rows == 0:
            return
        ended = self._ended[:rows]
        last = (ended.view(self._torch.uint8) * self._times[:rows]).amax(0)
        any_end = last > 0
        episodes = self._torch.count_nonzero(ended)
        lengths = ((self._base + last.long() - self._start) * any_end).sum()
        self._start.copy_(self._torch.where(any_end, self._base + last.long(), self._start))
        self._sums[0].add_(episodes)
        self._sums[1].add_(lengths)
        judged = [row for row in range(rows) if self._judged[row]]
        if len(judged) == rows:
            self._sums[2].add_(episodes)
            self._sums[3].add_(self._torch.count_nonzero(self._won[:rows]))
        elif judged:  # an env that gives its verdicts in some steps only
            self._sums[2].add_(self._torch.count_nonzero(self._ended[judged]))
            self._sums[3].add_(self._torch.count_nonzero(self._won[judged]))
        self._base += rows
        self._row = 0
