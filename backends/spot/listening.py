"""Threads that do one thing again and again, and what others may be told while a robot is driven."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Audience", "Listener", "Repeater"]


class Repeater:
    """A thread that calls a function every so often until it is stopped.

    Args:
        name: Of the thread.
        period: Seconds between two calls.
        function: What is called; returns False to end.
    """

    def __init__(self, name: str, period: float, function: Callable[[], bool]) -> None:
        self._period, self._function = period, function
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, from any thread."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=60.0)

    def _run(self) -> None:
        while not self._stop.wait(self._period):
            if not self._function():
                return


_LOG = logging.getLogger(__name__)

CAPACITY = 20_000
"""Messages that may wait for slow listeners, about 50 s of states and commands; beyond it states and commands are
dropped and counted, events never."""

FLUSH_SECONDS = 10.0
"""How long the end of an episode or session waits for listeners; the robot is safe by then."""


class Listener(Protocol):
    """A listener to states, commands and events in the order in which they happened, in a thread of the listeners' own.

    One that is slow delays nobody but the others. If too much has to wait, states and commands are dropped, and an
    event ``dropped`` says how many, at the place where they are missing.
    """

    def state(self, sample: Any, targets: NDArray[np.float64] | None) -> None:
        """Take note of a state message (:class:`~.messages.StateSample`) and of the targets in force, if any.

        The base's height counts from the ground as soon as the policy drives; before, from where odometry has its zero.
        """

    def command(self, command: Any) -> None:
        """Take note of new targets (:class:`~.messages.JointCommand`)."""

    def event(self, name: str, details: dict[str, Any]) -> None:
        """Take note of an event of the session or of the guard."""


class Audience:
    """All listeners; one that fails is reported once and disturbs neither the others nor the robot.

    Args:
        listeners: Who listens; may change.
        capacity: Messages that may wait for them.
    """

    def __init__(self, listeners: Sequence[Any], capacity: int = CAPACITY) -> None:
        self._listeners, self._capacity = listeners, capacity
        self._failed: set[tuple[int, str]] = set()
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, tuple[Any, ...]]] = deque()
        self._missing: Counter[str] = Counter()
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """States and commands that listeners were never told."""

    def tell(self, name: str, *what: Any) -> None:
        """Let a method of every listener be called; returns at once."""
        if not self._listeners:
            return
        with self._changed:
            if self._closed:
                return
            if name != "event" and len(self._waiting) >= self._capacity:
                self._missing[name] += 1
                self.dropped += 1
                return
            self._mark_gap()
            self._waiting.append((name, what))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="spot listeners", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _mark_gap(self) -> None:
        """Say what is missing where it is missing."""
        if self._missing:
            details = {"states": self._missing["state"], "commands": self._missing["command"]}
            self._waiting.append(("event", ("dropped", details)))
            self._missing.clear()

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until everybody has been told everything, or so long; returns whether they have."""
        if threading.current_thread() is self._thread:  # a listener that ends the session cannot wait for itself
            return False
        with self._changed:
            self._mark_gap()
            self._changed.notify_all()
            return self._changed.wait_for(self._done, seconds)

    def _done(self) -> bool:
        return self._thread is None or not (self._waiting or self._busy)

    def close(self) -> None:
        """Tell what is left and end the thread; may be called twice."""
        whole = self.flush()
        with self._changed:
            if not whole and not self._closed:
                _LOG.warning("%d messages for listeners are lost: they were not taken in time", len(self._waiting))
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                name, what = self._waiting.popleft()
                self._busy = True
            self._pass_on(name, what)

    def _pass_on(self, name: str, what: tuple[Any, ...]) -> None:
        for listener in self._listeners:
            try:
                getattr(listener, name)(*what)
            except Exception:  # whoever only listens must not stop what brings a robot into safety
                if (id(listener), name) not in self._failed:
                    self._failed.add((id(listener), name))
                    _LOG.exception("a listener failed in %s(); the robot is driven on", name)
