"""Loops that make time pass: by the wall clock, or whatever has to be done."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any

from .clock import SECOND, WallClock
from .condition import Mode
from .faults import FaultInjector
from .readings import Reading, between
from .robot import SimulatedSpot

__all__ = ["FRAME", "LockstepLoop", "RealTimeLoop", "make_loop"]

FRAME = 3_000_000
"""Nanoseconds between two states of the stream in real time."""

_BREATH = 0.0005  # seconds in which requests get their turn
_LOOK = 0.02  # seconds between two looks at watchdogs while time stands still
_TOO_LATE = SECOND // 20
_MOST_STEPS = 5  # in one go, so that requests get their turn on a slow computer


class _Loop(ABC):
    """A thread that runs until it is closed."""

    def __init__(self, robot: SimulatedSpot, faults: FaultInjector) -> None:
        self._robot = robot
        self._faults = faults
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="practice robot", daemon=True)

    def start(self) -> None:
        """Let time pass."""
        self._thread.start()

    def close(self) -> None:
        """Stop it, and wait for it."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while not self._closing.wait(pause):
            with self._robot.lock:
                self._robot.watch()
                self._faults.inject_due()
                pause = self._pass_time()

    @abstractmethod
    def _pass_time(self) -> float:
        """Simulate what is due and return how long to wait, s."""


class LockstepLoop(_Loop):
    """Simulated time: as fast as possible while something is under way, never while joint commands decide.

    A robot that has come to rest simulates one step per step of the wall's time as long as somebody reads its states,
    and nothing otherwise.
    """

    def _pass_time(self) -> float:
        robot = self._robot
        if robot.mode is Mode.JOINT:
            return _LOOK
        if robot.busy:
            robot.advance()
            return _BREATH
        if robot.joint_mode.streaming or not (robot.link.subscribers or self._faults.waiting):
            return _LOOK
        robot.advance()
        return robot.settings.step


class RealTimeLoop(_Loop):
    """The wall's time. The physics is one step ahead of it, and states are interpolated between physics steps.

    A computer that is too slow shows slow motion; the stamps keep to the wall's time.
    """

    def __init__(self, robot: SimulatedSpot, faults: FaultInjector, clock: WallClock) -> None:
        super().__init__(robot, faults)
        self._clock = clock
        self._before: Reading = robot.physics.reading
        self._frame = 0

    def _pass_time(self) -> float:
        robot, now = self._robot, self._clock.elapsed()
        if now - robot.elapsed > _TOO_LATE:
            self._clock.slip(now - robot.elapsed)
            now = self._clock.elapsed()
        self._send_up_to(min(now, robot.elapsed))
        for _ in range(_MOST_STEPS):
            if robot.elapsed > now:
                break
            self._before = robot.physics.reading
            robot.step()
            robot.look_for_fall()
            self._send_up_to(min(now, robot.elapsed))
        coming = min(self._frame, robot.elapsed)
        return max(_BREATH, (coming - self._clock.elapsed()) / SECOND)

    def _send_up_to(self, now: int) -> None:
        robot = self._robot
        if self._frame < self._before.elapsed - FRAME:  # after a slip
            self._frame = -(-self._before.elapsed // FRAME) * FRAME
        while self._frame <= now:
            if robot.link.subscribers and self._frame >= self._before.elapsed:
                robot.publish(between(self._before, robot.physics.reading, self._frame))
            self._frame += FRAME


def make_loop(robot: SimulatedSpot, faults: FaultInjector) -> Any:
    """Return what drives a robot's time."""
    if isinstance(robot.clock, WallClock):
        return RealTimeLoop(robot, faults, robot.clock)
    return LockstepLoop(robot, faults)
