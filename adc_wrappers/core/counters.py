"""Counters of completed episodes, by the wrapper's own clock and never from an env's buffers."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from .env_states import EnvState, part_of, put_array
from .episode_totals import EpisodeTotals, LatestEpisodes

__all__ = ["ArrayCounter", "ScalarCounter", "TensorCounter"]


_TRUE = b"\x01"


class _PlainSums:
    """Totals as plain numbers, which are added up at every step: made into totals when somebody asks."""

    def __init__(self) -> None:
        self._keep(EpisodeTotals())

    def _keep(self, totals: EpisodeTotals) -> None:
        self._sums: list[float] = [*totals.sums]
        self._lengths: list[float] = [*totals.batches]

    def _hand_over(self) -> EpisodeTotals:
        totals = EpisodeTotals.from_sums(self._sums, tuple(self._lengths))
        self._keep(EpisodeTotals())
        return totals


class ScalarCounter(_PlainSums):
    """Episodes of one env, by the clock of its wrapper.

    Args:
        batches: Keep the mean length of every step's completed episodes.
    """

    def __init__(self, *, batches: bool = False) -> None:
        super().__init__()
        self._batches = batches
        self._start = 0

    def restart(self, clock: int) -> None:
        """Begin a new episode; what ran before is not counted."""
        self._start = clock

    def complete(self, clock: int, success: bool | None) -> None:
        """Close the running episode."""
        length = clock - self._start
        sums = self._sums
        sums[0] += 1
        sums[1] += length
        if success is not None:
            sums[2] += 1
            sums[3] += bool(success)
        if self._batches:
            self._lengths.append(float(length))
        self._start = clock

    def measure(self, progress: float) -> None:
        """Take note of the task's own progress, in [0, 1]."""
        self._sums[4] += 1
        self._sums[5] += float(progress)

    def collect(self) -> EpisodeTotals:
        """Return the totals since the last call."""
        return self._hand_over()

    @property
    def protected(self) -> bool:
        """Never: the episodes of one env follow each other, whenever they began."""
        return False

    def protect(self, patience: float) -> None:
        """Nothing to do for one env."""

    def state_dict(self) -> EnvState:
        """Return what a checkpoint needs."""
        return {"start": self._start, "totals": [*self._sums, *self._lengths]}

    def load_state_dict(self, state: EnvState) -> None:
        """Restore it."""
        totals = _totals(state)
        self._start = part_of(state, "start", int)
        self._keep(totals)


class ArrayCounter(_PlainSums):
    """Episodes of a batch of numpy envs, under any Gymnasium autoreset mode.

    Only a clock and each env's start time are kept, so a step in which nothing ends costs two small array operations.

    Args:
        num_envs: Number of envs.
        autoreset_mode: How they are reset.
        batches: Keep the mean length of every step's completed episodes.
    """

    def __init__(self, num_envs: int, autoreset_mode: AutoresetMode, *, batches: bool = False) -> None:
        super().__init__()
        self._batches = batches
        self._clock = 0
        self._start = np.zeros(num_envs, dtype=np.int64)
        # Under NEXT_STEP the step after an episode's end is its reset and belongs to no episode.
        self._gap = 1 if autoreset_mode == AutoresetMode.NEXT_STEP else 0
        self._latest: LatestEpisodes | None = None

    def restart(self, mask: NDArray[np.bool_] | None = None) -> None:
        """Begin new episodes in all envs, or where ``mask`` is true."""
        self._start[slice(None) if mask is None else mask] = self._clock

    def step(self, done: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """Count one step of every env and return the indices of those whose episode is complete, if any."""
        self._clock += 1
        if _TRUE not in done.tobytes():  # numpy's own ways to ask take five to ten times as long
            return None
        ended: NDArray[np.int64] = done.nonzero()[0]
        lengths = self._clock - self._start[ended]
        self._start[ended] = self._clock + self._gap
        count, total = len(ended), sum(lengths.tolist())
        self._sums[0] += count
        self._sums[1] += total
        if self._batches:
            self._lengths.append(total / count)
        if self._latest is not None:
            self._latest.note(ended, lengths)
        return ended

    def judge(self, env_ids: NDArray[np.int64], successes: NDArray[np.bool_]) -> None:
        """Add the verdicts on episodes that have just been completed."""
        self._sums[2] += len(successes)
        self._sums[3] += int(np.count_nonzero(successes))
        if self._latest is not None:
            self._latest.judge(env_ids, successes)

    def measure(self, progress: Any) -> None:
        """Take note of the task's own progress in chosen envs, each in [0, 1]."""
        values = np.asarray(progress, dtype=np.float64)
        self._sums[4] += values.size
        self._sums[5] += float(values.sum())

    def collect(self) -> EpisodeTotals:
        """Return the totals since the last call, or while :attr:`protected` those of each env's latest episode.

        While the latest episodes are waited for, there is no progress either: all envs have begun anew.
        """
        totals = self._hand_over()
        if self._latest is None or not totals.episodes:
            return totals if self._latest is None or self._latest.ready else EpisodeTotals()
        latest = self._latest.totals(self._clock - self._start).as_one_batch()
        if not self._latest.ready:
            return latest
        return replace(latest, measured=totals.measured, progress_sum=totals.progress_sum)

    @property
    def protected(self) -> bool:
        """Whether totals are those of each env's latest episode."""
        return self._latest is not None

    def protect(self, patience: float) -> None:
        """Count each env's latest episode from now on, because all envs begin anew; see :class:`LatestEpisodes`."""
        self._latest = LatestEpisodes(len(self._start), patience)

    def state_dict(self) -> EnvState:
        """Return what a checkpoint needs."""
        latest = None if self._latest is None else self._latest.state_dict()
        return {
            "clock": self._clock,
            "start": self._start.copy(),
            "totals": [*self._sums, *self._lengths],
            "latest": latest,
        }

    def load_state_dict(self, state: EnvState) -> None:
        """Restore it."""
        self._clock = part_of(state, "clock", int)
        self._keep(_totals(state))
        put_array(self._start, state, "start")
        self._latest = None
        if state.get("latest") is not None:
            self._latest = LatestEpisodes(len(self._start), 0.0)
            self._latest.load_state_dict(state["latest"])


class TensorCounter:
    """Episodes of a batch of torch envs that reset in the step that ends them, such as Isaac Lab's.

    A step only writes which episodes ended into the next row of a buffer on the device: one operation. Lengths are
    worked out when the buffer is full or collected: an env's episodes follow each other without a gap, so the sum of
    their lengths is the time of the last end minus the start of the first.
    """

    _ROWS = 32

    def __init__(self, like: Any, *, batches: bool = False) -> None:
        """Create the counters beside the tensor ``like``, as normal tensors even under ``torch.inference_mode()``.

        Args:
            like: A tensor with one number per env.
            batches: Keep the mean length of every step's completed episodes, which costs some operations per step.
        """
        self._torch = torch = sys.modules["torch"]
        self._batches: list[Any] | None = [] if batches else None
        count, device = len(like), like.device
        with torch.inference_mode(False):
            self._ended = torch.zeros(self._ROWS, count, dtype=torch.bool, device=device)
            self._won = torch.zeros_like(self._ended)
            self._rows = (list(self._ended.unbind(0)), list(self._won.unbind(0)))
            self._times = torch.arange(1, self._ROWS + 1, dtype=torch.uint8, device=device).unsqueeze(1)
            self._start = torch.zeros(count, dtype=torch.int64, device=device)
            self._sums = torch.zeros(4, dtype=torch.int64, device=device)
            self._progress = torch.zeros((), dtype=torch.float64, device=device)
        self._measured = 0
        self._base = 0
        self._row = 0
        self._judged = [False] * self._ROWS
        self._patience: float | None = None
        self._latest: Any = None
        self._verdicts: Any = None
        self._left_out: Any = None

    def restart(self) -> None:
        """Begin new episodes in all envs; running ones are not counted."""
        self._fold()
        self._start.fill_(self._base)
        self._left_out = None

    def leave_out(self, envs: Any) -> None:
        """Do not count the running episodes of some envs; those that follow them count.

        Args:
            envs: Mask of the envs.
        """
        self._fold()
        self._left_out = envs if self._left_out is None else self._left_out | envs

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

    def measure(self, progress: Any) -> None:
        """Take note of the task's own progress in every env, each in [0, 1]: a sum on the device."""
        self._progress.add_(progress.sum())
        self._measured += len(progress)

    def collect(self) -> EpisodeTotals:
        """Return the totals since the last call: the one read from the device."""
        return self.collect_with([])[0]

    def collect_with(self, numbers: list[Any]) -> tuple[EpisodeTotals, list[float]]:
        """Return the totals since the last call, and further numbers on the device, in one read from it."""
        self._fold()
        sums = self._sums.double() if self._patience is None else self._latest_sums(self._patience)
        means = self._batches or []
        parts = [sums, self._progress.reshape(1), *(number.double().reshape(1) for number in (*means, *numbers))]
        episodes, length_sum, judged, successes, progress, *values = self._torch.cat(parts).tolist()
        measured = 0 if self.protected and not episodes else self._measured  # all envs have begun anew
        self._sums.zero_()
        self._progress.zero_()
        self._measured = 0
        kept = tuple(mean for mean in values[: len(means)] if mean == mean)  # NaN: nothing ended in that step
        if self._batches is not None:
            self._batches = []
        sums = (episodes, length_sum, judged, successes, measured, progress if measured else 0.0)
        totals = EpisodeTotals.from_sums(sums, kept)
        return totals.as_one_batch() if self.protected else totals, values[len(means) :]

    @property
    def protected(self) -> bool:
        """Whether totals are those of each env's latest episode."""
        return self._patience is not None

    def protect(self, patience: float) -> None:
        """Count each env's latest episode from now on, because all envs begin anew; see :class:`LatestEpisodes`."""
        self._fold()
        with self._torch.inference_mode(False):
            self._latest = self._torch.full_like(self._start, self._torch.nan, dtype=self._torch.float64)
            self._verdicts = self._latest.clone()
        self._patience = patience

    def _latest_sums(self, patience: float) -> Any:
        """What :meth:`LatestEpisodes.totals` returns, on the device; zero without a completed episode."""
        torch = self._torch
        ages = (self._base - self._start).double()
        lengths = torch.where(torch.isnan(self._latest) & (ages >= patience), ages, self._latest)
        ready = (self._sums[0] > 0) & ~torch.isnan(lengths).any()
        judged = ~torch.isnan(self._verdicts)
        count = torch.full_like(ages[0], len(ages))
        parts = (count, lengths.nansum(), judged.sum().double(), self._verdicts.nansum())
        return torch.stack(parts) * ready

    def _note_latest(self, rows: int, marks: Any, last: Any) -> None:
        """Take note of the last of the episodes that each env has completed in the buffer's rows."""
        torch = self._torch
        newest = marks == last
        before = torch.where(newest, 0, marks).amax(0).long()
        begin = torch.where(before > 0, self._base + before, self._start)
        self._latest.copy_(torch.where(last > 0, (self._base + last.long() - begin).double(), self._latest))
        judged = torch.tensor(self._judged[:rows], device=marks.device).unsqueeze(1)
        known = (newest & judged).any(0)
        verdict = torch.where(known, (newest & self._won[:rows]).any(0).double(), torch.nan)
        self._verdicts.copy_(torch.where(last > 0, verdict, self._verdicts))

    def _fold(self) -> None:
        """Add the rows of the buffer to the sums and begin with an empty one."""
        rows = self._row
        if rows == 0:
            return
        ended = self._ended[:rows] if self._left_out is None else self._counted(rows)
        if self._batches is not None:
            self._batches += self._means(ended)
        marks = ended.view(self._torch.uint8) * self._times[:rows]
        last = marks.amax(0)
        if self._patience is not None:
            self._note_latest(rows, marks, last)
        any_end = last > 0
        episodes = self._torch.count_nonzero(ended)
        lengths = ((self._base + last.long() - self._start) * any_end).sum()
        self._start.copy_(self._torch.where(any_end, self._base + last.long(), self._start))
        self._sums[0].add_(episodes)
        self._sums[1].add_(lengths)
        judged = [row for row in range(rows) if self._judged[row]]
        if len(judged) == rows:
            self._sums[2].add_(episodes)
            self._sums[3].add_(self._torch.count_nonzero(self._won[:rows] & ended))
        elif judged:  # an env that gives its verdicts in some steps only
            self._sums[2].add_(self._torch.count_nonzero(ended[judged]))
            self._sums[3].add_(self._torch.count_nonzero(self._won[judged] & ended[judged]))
        self._base += rows
        self._row = 0

    def _counted(self, rows: int) -> Any:
        """Return the buffer's rows without the ends of episodes that are left out."""
        torch = self._torch
        ended = self._ended[:rows]
        dropped = ended & (ended.cumsum(0) == 1) & self._left_out
        gone = (dropped * self._times[:rows]).amax(0).long()
        self._start.copy_(torch.where(gone > 0, self._base + gone, self._start))
        self._left_out = self._left_out & (gone == 0)
        return ended & ~dropped

    def _means(self, ended: Any) -> list[Any]:
        """Return the mean length of the episodes that ended in each row, on the device; NaN where none did."""
        start, means = self._start, []
        for row, done in enumerate(ended.unbind(0)):
            now = self._base + row + 1
            means.append(((now - start) * done).sum() / done.sum())
            start = self._torch.where(done, now, start)
        return means


def _totals(state: EnvState) -> EpisodeTotals:
    return EpisodeTotals.from_list(part_of(state, "totals", list))
