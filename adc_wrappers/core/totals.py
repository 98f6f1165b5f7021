"""What one iteration's completed episodes add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .errors import CurriculumError

__all__ = ["EpisodeTotals"]


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
        return cls(len(array), float(array.sum()), len(won), sum(won))

    def __add__(self, other: EpisodeTotals) -> EpisodeTotals:
        return EpisodeTotals(
            self.episodes + other.episodes,
            self.length_sum + other.length_sum,
            self.judged + other.judged,
            self.successes + other.successes,
        )

    @property
    def mean_length(self) -> float:
        """Mean length of the completed episodes; NaN if there was none."""
        return self.length_sum / self.episodes if self.episodes else float("nan")

    @property
    def success_rate(self) -> float:
        """Share of the judged episodes that succeeded; NaN if none was judged."""
        return self.successes / self.judged if self.judged else float("nan")
