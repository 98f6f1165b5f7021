"""The way of the states to the clients, with what can happen to them on it."""

from __future__ import annotations

import queue
from collections import deque
from typing import Any

import numpy as np

__all__ = ["StateLink", "Subscription"]


class Subscription:
    """One open state stream."""

    def __init__(self) -> None:
        self._frames: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.cut = False
        """Whether it was broken off, not ended."""

    def put(self, frame: Any) -> None:
        """Send a state; None ends the stream."""
        self._frames.put(frame)

    def get(self) -> Any:
        """Wait for the next state; None says that there will be no more."""
        return self._frames.get()


class StateLink:
    """Hands every state to every subscriber; loses, delays or reorders them on demand.

    Args:
        resend: Send the last state again when a delay leaves nothing to send, as lockstep needs: a client that waits
            for a state before it sends the next command would wait for ever.
        seed: Seed of random losses.
    """

    def __init__(self, resend: bool, seed: int) -> None:
        self.subscribers: list[Subscription] = []
        self._resend = resend
        self._rng = np.random.default_rng(seed)
        self._loss = (0, 0.0)
        self._delay = (0, 0)
        self._reorder = 0
        self._held: deque[tuple[int, Any]] = deque()
        self._last: Any = None

    def lose(self, until: int, probability: float) -> None:
        """Lose states until a time of the simulation, ns."""
        self._loss = (until, probability)

    def delay(self, until: int, amount: int) -> None:
        """Hold states back until a time, by an amount, ns."""
        self._delay = (until, amount)

    def reorder(self, until: int) -> None:
        """Let every state be followed by the one before it, until a time."""
        self._reorder = until

    def publish(self, elapsed: int, frame: Any) -> None:
        """Send a state that was measured now."""
        until, probability = self._loss
        if elapsed <= until and self._rng.random() < probability:
            return
        until, amount = self._delay
        self._held.append((elapsed + amount if elapsed <= until else elapsed, frame))
        ready = []
        while self._held and self._held[0][0] <= elapsed:
            ready.append(self._held.popleft()[1])
        if not ready and self._resend and self._last is not None:
            ready.append(self._last)
        for item in ready:
            last, self._last = self._last, item
            self._send(item)
            if elapsed <= self._reorder and last is not None:
                self._send(last)

    def _send(self, frame: Any) -> None:
        for subscriber in self.subscribers:
            subscriber.put(frame)

    def open(self) -> Subscription:
        """Add a subscriber."""
        subscription = Subscription()
        self.subscribers.append(subscription)
        return subscription

    def close(self, subscription: Subscription) -> None:
        """Remove a subscriber; nothing happens if it is gone."""
        if subscription in self.subscribers:
            self.subscribers.remove(subscription)

    def cut(self) -> None:
        """Break off every stream."""
        for subscription in self.subscribers:
            subscription.cut = True
            subscription.put(None)
        self.subscribers.clear()
