"""Totals of an iteration's episodes and steps, and averages after a resume that began every env anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .env_states import EnvState, part_of, put_array
from .errors import CurriculumError

__all__ = ["EpisodeTotals", "LatestEpisodes"]


_SUMS = 6


@dataclass(frozen=True)
class EpisodeTotals:
    """Sums over completed episodes: cheap to collect anywhere, added up once per iteration.

    Workers, ranks and machines each keep their own and add them (``+``); the curriculum sees only the sum.
    """

    episodes: int = 0
    """Number of completed (terminated or truncated) episodes."""

    length_sum: float = 0.0
    """Sum of their lengths in policy steps."""

    judged: int = 0
    """Number of completed episodes whose success was reported."""

    successes: int = 0
    """Number of those that succeeded."""

    batches: tuple[float, ...] = field(default=(), compare=False)
    """Mean length of the episodes that ended in the same step, step by step; kept for ``average="resets"`` only."""

    measured: int = 0
    """How often a task's progress was reported: once per step and env, or once per episode."""

    progress_sum: float = 0.0
    """Sum of the reported task progress, each in [0, 1]."""

    failures: int = field(default=0, compare=False)
    """Ranks of a distributed run whose live gains are not what was written; they stop, and all others with them."""

    @classmethod
    def from_lengths(cls, lengths: Iterable[float], successes: Iterable[bool] | None = None) -> EpisodeTotals:
        """Build totals from single episodes.

        >>> EpisodeTotals.from_lengths([10, 30]).mean_length
        20.0
        """
        array = np.asarray(list(lengths), dtype=np.float64)
        if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any():
            raise CurriculumError(f"expected episode lengths that are finite and not negative, got {array.tolist()}.")
        won = [bool(value) for value in successes] if successes is not None else []
        batches = (float(array.mean()),) if len(array) else ()
        return cls(len(array), float(array.sum()), len(won), sum(won), batches)

    @property
    def sums(self) -> tuple[float, ...]:
        """The six sums, which workers and ranks may add up one by one."""
        return (self.episodes, self.length_sum, self.judged, self.successes, self.measured, self.progress_sum)

    @classmethod
    def from_sums(cls, sums: Sequence[float], batches: tuple[float, ...] = ()) -> EpisodeTotals:
        """Build totals from :attr:`sums`."""
        episodes, length_sum, judged, successes, measured, progress_sum = sums
        return cls(round(episodes), length_sum, round(judged), round(successes), batches, round(measured), progress_sum)

    def to_list(self) -> list[float]:
        """Return the six sums, and the batches if they are kept, for a checkpoint."""
        return [*self.sums, *self.batches]

    @classmethod
    def from_list(cls, numbers: list[float]) -> EpisodeTotals:
        """Build the totals that :meth:`to_list` wrote."""
        good = len(numbers) >= _SUMS and all(isinstance(n, (int, float)) and 0 <= n < np.inf for n in numbers)
        if not good:
            raise CurriculumError(f"episode totals: expected {_SUMS} numbers that are not negative, got {numbers}.")
        return cls.from_sums([float(n) for n in numbers[:_SUMS]], tuple(float(mean) for mean in numbers[_SUMS:]))

    def as_one_batch(self) -> EpisodeTotals:
        """Return the same totals as if all episodes had ended together."""
        return replace(self, batches=(self.mean_length,) if self.episodes else ())

    def __add__(self, other: EpisodeTotals) -> EpisodeTotals:
        return EpisodeTotals(
            self.episodes + other.episodes,
            self.length_sum + other.length_sum,
            self.judged + other.judged,
            self.successes + other.successes,
            self.batches + other.batches,
            self.measured + other.measured,
            self.progress_sum + other.progress_sum,
            self.failures + other.failures,
        )

    @property
    def mean_length(self) -> float:
        """Mean length of the completed episodes; NaN if there was none."""
        return self.length_sum / self.episodes if self.episodes else float("nan")

    @property
    def success_rate(self) -> float:
        """Share of the judged episodes that succeeded; NaN if none was judged."""
        return self.successes / self.judged if self.judged else float("nan")

    @property
    def mean_progress(self) -> float:
        """Mean of the reported task progress; NaN if none was."""
        return self.progress_sum / self.measured if self.measured else float("nan")


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
