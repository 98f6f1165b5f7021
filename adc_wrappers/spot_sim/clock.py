"""The robot's clock: the wall's with a skew, or simulated time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

__all__ = ["SECOND", "RobotClock", "SimulatedClock", "WallClock"]

SECOND = 1_000_000_000
_EPOCH = 1_700_000_000 * SECOND  # where simulated time begins


class RobotClock(ABC):
    """A clock that makes stamps of the physics' own time. All times are whole nanoseconds.

    Args:
        origin: Stamp of the beginning of the simulation.
    """

    def __init__(self, origin: int) -> None:
        self._origin = origin

    def stamp(self, elapsed: int) -> int:
        """Return the stamp of a moment of the simulation."""
        return self._origin + elapsed

    def jump(self, amount: int) -> None:
        """Set the clock forward or back."""
        self._origin += amount

    @abstractmethod
    def now(self) -> int:
        """Return the present time."""


class SimulatedClock(RobotClock):
    """A clock of what has been simulated; it stands still in between."""

    def __init__(self) -> None:
        super().__init__(_EPOCH)
        self.elapsed = 0
        """What has been simulated."""

    def now(self) -> int:
        """Return the stamp of the last physics step."""
        return self.stamp(self.elapsed)


class WallClock(RobotClock):
    """This computer's clock with a skew; steady even if that is set.

    Args:
        skew: Seconds by which it is ahead.
    """

    def __init__(self, skew: float) -> None:
        super().__init__(time.time_ns() + round(skew * SECOND))
        self._begin = time.monotonic_ns()

    def elapsed(self) -> int:
        """Return how much should have been simulated by now."""
        return time.monotonic_ns() - self._begin

    def now(self) -> int:
        """Return the present time."""
        return self.stamp(self.elapsed())

    def slip(self, lost: int) -> None:
        """Take out of the simulation's time what the computer was too slow for; stamps go on with the wall's."""
        self._begin += lost
        self._origin += lost
