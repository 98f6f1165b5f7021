"""One open stream of joint commands: what came, and how it ended."""

from __future__ import annotations

import threading
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from .motion import JointCommand

__all__ = ["CommandStream", "StreamStatus"]


class StreamStatus(Enum):
    """How a stream ends; the names are those of ``JointControlStreamResponse``."""

    STATUS_OK = 1
    STATUS_INVALID_REQUEST = 2
    STATUS_INACTIVE = 3
    STATUS_EXPIRED = 4
    STATUS_TOO_DISTANT = 5


class CommandStream:
    """A stream from its opening to its end. Everything but waiting is done under the robot's lock."""

    def __init__(self) -> None:
        self.gains: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        """K and B of the last message that had them, one per joint of the robot."""
        self.latest: JointCommand | None = None
        """The last command that arrived."""
        self.received = 0
        """Messages that arrived."""
        self.waiting = 0
        """Messages that arrived outside joint mode."""
        self.opened = 0
        """When it was opened, in simulation, ns."""
        self.status = StreamStatus.STATUS_OK
        self.message = ""
        self.cut = False
        """Whether it was broken off, not answered."""
        self._over = threading.Event()

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._over.is_set()

    def end(self, status: StreamStatus, message: str = "") -> None:
        """End it; the first reason counts."""
        if not self.ended:
            self.status, self.message = status, message
            self._over.set()

    def break_off(self) -> None:
        """End it without an answer."""
        if not self.ended:
            self.cut = True
            self._over.set()

    def wait(self) -> None:
        """Wait for its end."""
        self._over.wait()
