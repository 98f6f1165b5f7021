"""What others may be told while a robot is driven."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Listener"]


class Listener(Protocol):
    """Is told of states, commands and events, from the threads in which they happen: it must be quick."""

    def state(self, sample: Any, targets: NDArray[np.float64] | None) -> None:
        """Take note of a state message (:class:`~.messages.StateSample`) and of the targets in force, if any."""

    def command(self, command: Any) -> None:
        """Take note of new targets (:class:`~.messages.JointCommand`), before they are sent."""

    def event(self, name: str, details: dict[str, Any]) -> None:
        """Take note of an event of the session or of the guard."""
