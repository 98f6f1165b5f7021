"""Joint mode: streams of commands, which of them are taken, when they lose their force, what they cost in time."""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .clock import SECOND
from .motion import DatedCommand, JointControl
from .readings import Reading

if TYPE_CHECKING:
    from .robot import SimulatedSpot

__all__ = ["FARTHEST_END", "CommandStream", "JointMode", "StreamStatus"]


class StreamStatus(Enum):
    """The end of a stream; the names are those of ``JointControlStreamResponse``."""

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
        self.latest: DatedCommand | None = None
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


FARTHEST_END = 10 * SECOND
"""How far ahead the end of a command may be."""

_GRACE = SECOND  # joint mode without commands, or commands without joint mode
_GRACE_MESSAGES = 200  # the same in lockstep, where time stands still
_UNDATED = 5 * SECOND  # how late the first command may be in lockstep, see accept


class JointMode:
    """The commands of one stream at a time.

    Args:
        robot: Whose joints.
    """

    def __init__(self, robot: SimulatedSpot) -> None:
        self._robot = robot
        self.stream: CommandStream | None = None
        """The open stream."""
        self.last_key = 0
        """Key of the last command that was received, as the state stream shows it."""
        self.last_received = 0
        """Its stamp."""
        self.failed = False
        """Whether joint mode ended by itself, for the feedback."""
        self._entered = 0
        self._slack = round(robot.settings.expiry_slack * SECOND)
        self._loss = (0, 0.0)
        self._rng = np.random.default_rng(robot.settings.seed + 1)

    @property
    def active(self) -> bool:
        """Whether the robot is in joint mode."""
        return isinstance(self._robot.motion, JointControl)

    @property
    def streaming(self) -> bool:
        """Whether a stream is open."""
        return self.stream is not None and not self.stream.ended

    def lose(self, until: int, probability: float) -> None:
        """Lose commands until a time of the simulation, ns."""
        self._loss = (until, probability)

    def open(self, stream: CommandStream) -> bool:
        """Take a stream if there is no other; return whether it was taken."""
        if self.streaming:
            return False
        stream.opened = self._robot.elapsed
        self.stream = stream
        return True

    def close(self, stream: CommandStream) -> None:
        """A stream is over, whoever ended it: without commands joint mode ends in the stock stand."""
        stream.end(StreamStatus.STATUS_OK)
        if self.stream is stream:
            self.stream = None
            if self.active and stream.received:
                self._fall_back()

    def break_off(self) -> None:
        """End the stream without an answer."""
        if self.stream is not None:
            self.stream.break_off()

    def enter(self) -> None:
        """Joint mode has begun; a command that is already there acts at once."""
        self.failed = False
        self._entered = self._robot.elapsed
        if self.stream is not None and self.stream.latest is not None:
            self._apply(self._lasting(self.stream.latest), new=True)

    def leave(self) -> None:
        """Joint mode is over because something else begins."""
        self.failed = True
        if self.stream is not None:
            self.stream.end(StreamStatus.STATUS_INACTIVE, "joint control was ended by the robot or another command")

    def forget(self, reading: Reading) -> None:
        """The robot was put elsewhere: hold there until the next command."""
        self._robot.motion = JointControl(reading)
        self._entered = self._robot.elapsed

    def accept(self, stream: CommandStream, command: DatedCommand) -> None:
        """Take a command, or end its stream.

        In lockstep time runs by itself outside joint mode, so nobody can date a first command well, whether it comes
        before joint mode or is overtaken by the activation: it may be late by some seconds. It acts for two steps at
        least once joint mode begins.
        """
        robot = self._robot
        now = robot.clock.now()
        late = now - command.end
        undated = robot.settings.lockstep and not self._commanded
        if late >= (_UNDATED if undated else self._slack):
            self.refuse(stream, StreamStatus.STATUS_EXPIRED, f"end_time passed {late / SECOND:.3f} s ago")
            return
        if -late > FARTHEST_END:
            self.refuse(
                stream, StreamStatus.STATUS_TOO_DISTANT, f"end_time is {-late / SECOND:.3f} s ahead, at most 10"
            )
            return
        new = stream.latest is None or command.key == 0 or command.key != stream.latest.key
        if self._is_lost():
            if new and self.active and robot.settings.lockstep:
                robot.advance()
            return
        stream.latest = command
        stream.received += 1
        self.last_key, self.last_received = command.key, now
        if self.active:
            self._apply(self._lasting(command) if undated else command, new)
        else:
            self._wait(stream)

    @property
    def _commanded(self) -> bool:
        """Whether a command has acted since joint mode began."""
        motion = self._robot.motion
        return isinstance(motion, JointControl) and motion.command is not None

    def _lasting(self, command: DatedCommand) -> DatedCommand:
        """Return a first command with an end that lets it act for two steps, in lockstep."""
        if not self._robot.settings.lockstep:
            return command
        least = self._robot.clock.now() + 2 * round(self._robot.settings.step * SECOND)
        return command._replace(end=max(command.end, least))

    def _is_lost(self) -> bool:
        until, probability = self._loss
        return self._robot.elapsed < until and bool(self._rng.random() < probability)

    def _apply(self, command: DatedCommand, new: bool) -> None:
        motion = self._robot.motion
        if isinstance(motion, JointControl):
            motion.command = command
        if new and self._robot.settings.lockstep:
            self._robot.advance()

    def _wait(self, stream: CommandStream) -> None:
        """A command outside joint mode: it may come a little before."""
        stream.waiting += 1
        waited = self._robot.elapsed - stream.opened
        lockstep = self._robot.settings.lockstep
        if stream.waiting > _GRACE_MESSAGES if lockstep else waited > _GRACE:
            stream.end(StreamStatus.STATUS_INACTIVE, "the robot is not in joint control; send a joint_command first")

    def refuse(self, stream: CommandStream, status: StreamStatus, message: str) -> None:
        """End a stream because of what came in it; joint mode ends with it."""
        stream.end(status, message)
        if self.active:
            self._fall_back()

    def check(self) -> None:
        """After a physics step: has the command lost its force, does a joint move too fast?"""
        motion = self._robot.motion
        if not isinstance(motion, JointControl):
            return
        command, elapsed = motion.command, self._robot.elapsed
        if command is None:
            if not self._robot.settings.lockstep and elapsed - self._entered > _GRACE:
                self._fall_back()
        elif self._robot.clock.stamp(elapsed) >= command.end + self._slack:
            if self.stream is not None:
                self.stream.end(StreamStatus.STATUS_EXPIRED, "no newer command came before end_time")
            self._fall_back()
        elif command.speed_limit is not None and self._robot.physics.fastest_joint > command.speed_limit:
            self._robot.raise_fault("hardware")

    def _fall_back(self) -> None:
        """The stock controller takes over, from whatever posture."""
        self._robot.stand()
