"""What the practice robot has been doing, change by change, for those who time it."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from .clock import SECOND

if TYPE_CHECKING:
    from .robot import SimulatedSpot

__all__ = ["History"]

_KEPT = 400


class History:
    """Remembers when mode, motors, rest or the owner of the lease changed; the oldest changes are forgotten."""

    def __init__(self) -> None:
        self._changes: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._last: tuple[Any, ...] = ()

    def note(self, robot: SimulatedSpot) -> None:
        """Look at the robot; only what has changed is remembered."""
        now = (robot.mode, robot.motors, robot.settled, robot.leases.owner)
        if now == self._last:
            return
        self._last = now
        self._changes.append(
            {
                "time": robot.elapsed / SECOND,
                "wall": time.monotonic(),
                "mode": robot.mode.value,
                "motors": robot.motors.value.lower(),
                "settled": robot.settled,
                "lease": robot.leases.owner,
            }
        )

    def changes(self) -> list[dict[str, Any]]:
        """Return them, oldest first: seconds of simulation (``time``) and of this computer's clock (``wall``)."""
        return list(self._changes)
