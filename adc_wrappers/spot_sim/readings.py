"""Readings of the sensors, and the way of the states to the clients with what can happen to them on it."""

from __future__ import annotations

import queue
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reading", "StateLink", "Subscription", "between", "rotation"]


_Array = NDArray[np.float64]


class Reading(NamedTuple):
    """The robot at one moment of the simulation."""

    elapsed: int
    """Nanoseconds of simulation."""

    values: _Array
    """All that is measured in numbers, in the order of the properties below, ``(52,)``."""

    feet: NDArray[np.bool_]
    """Which feet touch the ground: fl fr hl hr."""

    body_touches: bool
    """Whether the body, a hip or an upper leg touches the ground."""

    @property
    def positions(self) -> _Array:
        """Joints, rad."""
        return self.values[:12]

    @property
    def velocities(self) -> _Array:
        """Joints, rad/s."""
        return self.values[12:24]

    @property
    def torques(self) -> _Array:
        """Joints, N·m, at the physics step before."""
        return self.values[24:36]

    @property
    def base_position(self) -> _Array:
        """m, world."""
        return self.values[36:39]

    @property
    def base_quaternion(self) -> _Array:
        """Orientation, w x y z."""
        return self.values[39:43]

    @property
    def base_velocity(self) -> _Array:
        """m/s, world."""
        return self.values[43:46]

    @property
    def base_turning(self) -> _Array:
        """rad/s, in the base's frame."""
        return self.values[46:49]

    @property
    def base_acceleration(self) -> _Array:
        """m/s², world."""
        return self.values[49:52]


def rotation(quaternion: _Array) -> _Array:
    """Return the matrix of a unit quaternion; its columns are the base's axes in the world."""
    w, x, y, z = quaternion.tolist()
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def between(first: Reading, second: Reading, elapsed: int) -> Reading:
    """Return the reading at a moment between two others: numbers in proportion, yes and no as in the first."""
    span = second.elapsed - first.elapsed
    share = (elapsed - first.elapsed) / span if span else 1.0
    if share >= 1.0:
        return second
    if share <= 0.0:
        return first
    values = (1.0 - share) * first.values + share * second.values
    values[39:43] /= np.linalg.norm(values[39:43])
    return Reading(elapsed, values, first.feet, first.body_touches)


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
    """The way of every state to every subscriber, on which states are lost, delayed or reordered on demand.

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
