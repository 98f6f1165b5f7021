"""A thread that does one thing again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Repeater"]


class Repeater:
    """Calls a function every so often until it is stopped.

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
