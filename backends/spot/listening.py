"""What others may be told while a robot is driven."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Audience", "Listener"]

_LOG = logging.getLogger(__name__)


class Listener(Protocol):
    """Is told of states, commands and events, from the threads in which they happen: it must be quick."""

    def state(self, sample: Any, targets: NDArray[np.float64] | None) -> None:
        """Take note of a state message (:class:`~.messages.StateSample`) and of the targets in force, if any.

        The base's height counts from the ground as soon as the policy drives; before, from where odometry has its zero.
        """

    def command(self, command: Any) -> None:
        """Take note of new targets (:class:`~.messages.JointCommand`), before they are sent."""

    def event(self, name: str, details: dict[str, Any]) -> None:
        """Take note of an event of the session or of the guard."""


class Audience:
    """All listeners; one that fails is reported once and disturbs neither the others nor the robot.

    Args:
        listeners: Who listens; may change.
    """

    def __init__(self, listeners: Sequence[Any]) -> None:
        self._listeners = listeners
        self._failed: set[tuple[int, str]] = set()

    def tell(self, name: str, *what: Any) -> None:
        """Call a method of every listener."""
        for listener in self._listeners:
            try:
                getattr(listener, name)(*what)
            except Exception:  # whoever only listens must not stop what brings a robot into safety
                if (id(listener), name) not in self._failed:
                    self._failed.add((id(listener), name))
                    _LOG.exception("a listener failed in %s(); the robot is driven on", name)
