"""The state stream: a thread that keeps the newest state in a single slot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from adc_wrappers.core.errors import BackendError

from .joints import JointOrder
from .messages import StateSample, read_sample
from .sdk import grpc

__all__ = ["StateReceiver"]

CLOCK_STEP = 0.5
"""Seconds by which the robot's clock may part from ours between two states before it counts as having jumped."""


class StateReceiver:
    """Drains the state stream; a state that is not newer than the last is never used, and an older one is a problem.

    Args:
        client: The SDK's streaming client.
        order: The robot's joint order.
        on_sample: Called with every state, in the receiving thread.
        timed: Whether the robot's clock runs like ours; not in lockstep.
    """

    def __init__(
        self, client: Any, order: JointOrder, on_sample: Callable[[StateSample], None], *, timed: bool = True
    ) -> None:
        self._order, self._on_sample, self._timed = order, on_sample, timed
        self._changed = threading.Condition()
        self._latest: StateSample | None = None
        self._least_offset = float("inf")
        self.problem: tuple[str, str] | None = None
        """Why the states cannot be trusted any more, as a check of the guard and a reason; None while they can."""
        self.count = 0
        """States received."""
        self._stopping = False
        self._call = client.get_robot_state_stream()
        self._thread = threading.Thread(target=self._run, name="spot states", daemon=True)
        self._thread.start()

    @property
    def latest(self) -> StateSample | None:
        """The newest state."""
        return self._latest

    @property
    def robot_now(self) -> float:
        """The robot's clock now, by its newest state, s."""
        latest = self._latest
        if latest is None:
            raise BackendError("no state has come yet, so the robot's clock is not known.")
        return latest.stamp + (time.monotonic() - latest.received if self._timed else 0.0)

    def age(self) -> float:
        """Return the age of the newest state, s: since its receipt, and by how much it came later than the quickest."""
        latest = self._latest
        if latest is None or not self._timed:
            return 0.0
        late = latest.received - latest.stamp - self._least_offset
        return time.monotonic() - latest.received + late

    def wait(self, wanted: Callable[[StateSample], bool], timeout: float) -> StateSample | None:
        """Return the first state that is as wanted; None after the timeout, or if the stream is in trouble."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                if self.problem is not None:
                    return None
                if self._latest is not None and wanted(self._latest):
                    return self._latest
                left = deadline - time.monotonic()
                if left <= 0.0:
                    return None
                self._changed.wait(min(left, 0.05))

    def forgive(self) -> None:
        """Trust the states again, from the next on; the stream must still be open."""
        with self._changed:
            if self._thread.is_alive():
                self.problem = None
            self._least_offset = float("inf")

    def stop(self) -> None:
        """Close the stream and end the thread."""
        self._stopping = True
        self._call.cancel()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        try:
            for message in self._call:
                self._take(read_sample(message, self._order, time.monotonic()))
            self._fail("stream", "the robot closed the state stream")
        except grpc.RpcError as error:
            self._fail("stream", f"the state stream broke: {error.code().name} {error.details()}")
        except BackendError as error:
            self._fail("state", str(error))

    def _take(self, sample: StateSample) -> None:
        with self._changed:
            last = self._latest
            if last is not None:
                self._check_clock(last, sample)
                if sample.stamp <= last.stamp:
                    self._changed.notify_all()
                    return
            self._latest = sample
            self._least_offset = min(self._least_offset, sample.received - sample.stamp)
            self.count += 1
            self._changed.notify_all()
        self._on_sample(sample)

    def _check_clock(self, last: StateSample, sample: StateSample) -> None:
        gap, waited = sample.stamp - last.stamp, sample.received - last.received
        if gap < -CLOCK_STEP or (self._timed and gap > waited + CLOCK_STEP) or gap > 10.0:
            self._note("clock", f"the robot's clock jumped by {gap - waited:+.3f} s between two states")
        elif gap < 0.0:
            self._note("order", f"a state came {-gap * 1e3:.1f} ms older than the one before; stamps must increase")

    def _note(self, check: str, reason: str) -> None:
        if self.problem is None:
            self.problem = (check, reason)

    def _fail(self, check: str, reason: str) -> None:
        with self._changed:
            if not self._stopping:
                self._note(check, reason)
            self._changed.notify_all()
