"""The two streams: the newest state in a single slot, and the newest targets sent until they are too old."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

from adc_wrappers.core.errors import BackendError

from .messages import JointCommand, JointOrder, StateSample, build_request, read_sample
from .sdk import grpc, robot_command_pb2

__all__ = ["CommandSender", "StateReceiver"]


CLOCK_STEP = 0.5
"""Seconds by which the robot's clock may part from ours between two states before it counts as having jumped."""


class StateReceiver:
    """The receiver of the state stream: a state not newer than the last is never used, and an older one is a problem.

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


_KEPT = 20_000
_BACKLOG = 0.02
"""Seconds of waiting for an echo beyond which nothing is sent again: what a busy robot or network has not taken yet
would queue up in front of the next command."""


class CommandSender:
    """The sender of the robot's joint command stream, in a thread of its own.

    A command's end time is ``min(now + time_to_live, source + life)`` on the robot's clock, where ``source`` is the
    acquisition of the state that it came from: sending it again cannot make old data young. When that has passed,
    nothing is sent, and the robot stops following by itself. A pose that is held is dated by the newest state whenever
    it is sent: that state's age still binds.

    Args:
        client: The SDK's streaming client.
        order: The robot's joint order.
        robot_now: Returns the robot's clock, s.
        newest: Returns the acquisition of the newest state, robot's clock, s.
        period: Seconds between two messages; None sends every command once (lockstep).
        time_to_live: Seconds.
        life: Seconds from a state's acquisition to the end of any command that came from it.
        client_name: Who we are.
        velocity_limit: Sent with every command, rad/s.
    """

    def __init__(
        self,
        client: Any,
        order: JointOrder,
        robot_now: Callable[[], float],
        newest: Callable[[], float],
        *,
        period: float | None,
        time_to_live: float,
        life: float,
        client_name: str,
        velocity_limit: float,
    ) -> None:
        self._client, self._order, self._robot_now, self._newest = client, order, robot_now, newest
        self._period, self._time_to_live, self._life = period, time_to_live, life
        self._client_name, self._velocity_limit = client_name, velocity_limit
        self._changed = threading.Condition()
        self._command: JointCommand | None = None
        self._fresh = False
        self._held_until = 0.0
        self._stopping = False
        self._unacknowledged: OrderedDict[int, float] = OrderedDict()
        self.ended: str | None = None
        """Why the stream has ended; None while it runs."""
        self.missed: str | None = None
        """Why a new command was not sent; None if every one was."""
        self.heard = False
        """Whether the robot is known to acknowledge; before joint control it need not."""
        self.messages = 0
        """Messages handed over."""
        self.latencies: deque[float] = deque(maxlen=_KEPT)
        """Seconds from the receipt of a state to the first sending of the command that came from it."""
        self.echo_times: deque[float] = deque(maxlen=_KEPT)
        """Seconds from the first sending of a command to the state that acknowledges it."""
        self._thread = threading.Thread(target=self._run, name="spot commands", daemon=True)

    def start(self, command: JointCommand, patience: float) -> bool:
        """Open the stream with a command that holds the present pose; returns whether it was handed over.

        Args:
            command: The hold. It is dated when it is sent, so that a thread or a stream that is slow to start does no
                harm.
            patience: Seconds to wait for that; the hold may last twice as long, for the robot's answer.
        """
        self.put(command)
        self.hold(2.0 * patience)
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self.messages or self._stopping or self.missed is not None, patience)
            return self.messages > 0

    def put(self, command: JointCommand) -> None:
        """Replace the command that is being sent."""
        with self._changed:
            self._command, self._fresh, self._held_until = command, True, 0.0
            self._changed.notify_all()

    def hold(self, seconds: float) -> None:
        """Let the present command live on from newer states for some time; not for a policy's action."""
        with self._changed:
            self._held_until = time.monotonic() + seconds

    def acknowledge(self, echo: int, now: float) -> None:
        """Take note that a state has shown a command's key."""
        with self._changed:
            while self._unacknowledged and next(iter(self._unacknowledged)) <= echo:
                _, sent = self._unacknowledged.popitem(last=False)
                self.echo_times.append(now - sent)

    def echo_lag(self) -> float:
        """Return for how long the oldest command has waited to be acknowledged, s."""
        with self._changed:
            if not self._unacknowledged or self._period is None or not self.heard:
                return 0.0
            return time.monotonic() - next(iter(self._unacknowledged.values()))

    def stop(self, patience: float = 5.0) -> None:
        """Stop sending and close the stream; the robot stops following at the last end time or before.

        Args:
            patience: Seconds to wait for the robot's answer; without it the stream ends with the session.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=patience)

    def _run(self) -> None:
        names = robot_command_pb2.JointControlStreamResponse.Status
        try:
            answer = self._client.send_joint_control_commands(self._requests())
            ended = f"the robot closed the command stream: {names.Name(answer.status)} {answer.message}".rstrip()
        except grpc.RpcError as error:
            ended = f"the command stream broke: {error.code().name} {error.details()}"
        with self._changed:
            self.ended = ended
            self._stopping = True
            self._changed.notify_all()

    def _requests(self) -> Iterator[Any]:
        """Yield messages; runs in a thread of gRPC's."""
        while True:
            with self._changed:
                due = None if self._period is None else time.monotonic() + self._period
                while not self._stopping and not self._fresh:
                    left = None if due is None else due - time.monotonic()
                    if left is not None and left <= 0.0:
                        break
                    self._changed.wait(left)
                if self._stopping:
                    return
                command, fresh = self._command, self._fresh
                self._fresh = False
                held = time.monotonic() < self._held_until
            if command is None:
                continue
            source = self._newest() if held else command.source
            now = self._robot_now()
            end_time = min(now + self._time_to_live, source + self._life)
            if end_time <= now:
                if fresh:
                    self._miss(command.key, now - source)
                continue
            if not fresh and self.echo_lag() > _BACKLOG:
                continue
            if fresh:
                self._note_sending(command, held)
            yield build_request(
                command, self._order, end_time=end_time, client_name=self._client_name,
                velocity_limit=self._velocity_limit,
            )  # fmt: skip
            with self._changed:
                self.messages += 1
                self._changed.notify_all()

    def _miss(self, key: int, age: float) -> None:
        """Take note of a new command that came too late to be sent."""
        with self._changed:
            self.missed = (
                f"command {key} was not sent: the state it came from is {age * 1e3:.0f} ms old, at most "
                f"{self._life * 1e3:.0f} ms"
            )
            self._changed.notify_all()

    def _note_sending(self, command: JointCommand, held: bool) -> None:
        with self._changed:
            self._unacknowledged[command.key] = sending = time.monotonic()
            if not held:  # a hold did not come from one state
                self.latencies.append(sending - command.received)
