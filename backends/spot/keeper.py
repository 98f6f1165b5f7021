"""The keeper's process: it owns the lease, hears from the program that drives, and makes the robot safe without it.

It obeys lines of JSON on its standard input. Silence, the end of that input, or SIGTERM mean that nobody drives any
more: the robot stands if it is upright and sound, is powered off, its motors are confirmed off, the lease is returned.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import Any, Final

from adc_wrappers.core.errors import BackendError

from . import sdk
from .connection import SpotConnection
from .health import read_health
from .session import SpotSession

__all__ = ["STAND_SECONDS", "Keeping", "main", "make_safe"]

STAND_SECONDS: Final = 5.0
"""How long a robot without a driver may take to stand before it is powered off from where it is."""

UPRIGHT: Final = 0.87
"""Cosine of the tilt (30°) up to which it is told to stand at all."""

_TICK: Final = 0.05
_RETRY: Final = 0.2


class Keeping:
    """The keeper's watch on the driver, until that is done, dead or silent.

    Args:
        incoming: File descriptor on which the driver speaks.
        outgoing: File descriptor on which it listens.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._rest = b""
        self._asked_to_end = False

    def ask_to_end(self, number: int, frame: FrameType | None) -> None:
        """Take SIGTERM as the end of the driver: whoever ends us ends it too."""
        self._asked_to_end = True

    def order(self) -> dict[str, Any]:
        """Return the first line: where the robot is, and for how long the driver may be silent."""
        while True:
            lines = self._read()
            if lines is None:
                return {}
            if lines:
                return lines[0]

    def say(self, **words: Any) -> None:
        """Tell the driver; it may be gone."""
        with suppress(OSError):
            os.write(self._outgoing, (json.dumps(words) + "\n").encode())

    def watch(self, silence: float) -> str | None:
        """Return why nobody drives any more; None if the driver says that it is done.

        Lines that are waiting are read before silence is judged: a keeper that was stopped itself blames nobody.
        """
        heard = time.monotonic()
        while True:
            if select.select([self._incoming], [], [], _TICK)[0]:
                lines = self._read()
                if lines is None:
                    return "the program that drove the robot has ended"
                heard = time.monotonic()
                if any("done" in line for line in lines):
                    return None
                if lines:
                    self.say(beat=True)
            elif time.monotonic() - heard > silence:
                return f"the program that drives the robot gave no sign of life for {silence:g} s"
            if self._asked_to_end:
                return "the keeper was asked to end"

    def _read(self) -> list[dict[str, Any]] | None:
        """Return the lines that have come; None at the end."""
        data = os.read(self._incoming, 65536)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def make_safe(session: SpotSession) -> str:
    """Make a robot without a driver stand, then power it off; returns what became of it, in words.

    Everything is tried again until it is done or ``power_off_seconds`` are over: a network may come back.
    """
    deadline = time.monotonic() + STAND_SECONDS + session.settings.power_off_seconds
    with suppress(BackendError):
        if session.lease.confirm() is None and _may_stand(session):
            session.stand(STAND_SECONDS)
    while True:
        try:
            return _power_off(session)
        except BackendError as error:
            if time.monotonic() > deadline:
                return f"NOT CONFIRMED, press the E-stop: {error}"
            with suppress(BackendError):  # the token may be void
                session.log_in_again()
            time.sleep(_RETRY)


def _may_stand(session: SpotSession) -> bool:
    state = session.state()
    health = read_health(state)
    tree = state.kinematic_state.transforms_snapshot
    turn = sdk.get_a_tform_b(tree, sdk.ODOM_FRAME_NAME, sdk.BODY_FRAME_NAME)
    upright = turn is not None and bool(turn.rot.to_matrix()[2][2] > UPRIGHT)
    return upright and health.motor_power == "ON" and not health.faults and not health.estopped


def _power_off(session: SpotSession) -> str:
    if session.health().motors_off:
        return "motors off"
    if session.lease.confirm() is not None:
        owner = session.lease.take_back()
        if owner is not None:
            return f"left to the owner of the lease, {owner}"
    session.power_off()
    return "motors off"


def main() -> int:
    """Keep a robot until its driver is done, or make it safe."""
    keeping = Keeping(os.dup(0), os.dup(1))
    os.dup2(2, 1)  # whatever prints must not disturb what the driver hears
    signal.signal(signal.SIGTERM, keeping.ask_to_end)
    for number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):
        signal.signal(number, signal.SIG_IGN)
    order = keeping.order()
    if not order:
        return 1
    credentials, silence = tuple(order.pop("credentials")), order.pop("silence")
    try:
        session = SpotSession(SpotConnection(**order, credentials=lambda: credentials), role="keeper")
    except BackendError as error:
        keeping.say(error=str(error))
        return 1
    try:
        session.lease.take()
        keeping.say(lease=base64.b64encode(session.lease.hand_over()).decode())
        reason = keeping.watch(silence)
        if reason is not None:
            keeping.say(**{"took over": reason})
        outcome = make_safe(session)
        session.lease.give_back()
        keeping.say(ended=outcome)
    except BackendError as error:
        keeping.say(error=str(error))
        return 1
    finally:
        session.close()
    if reason is not None or outcome != "motors off":
        with suppress(OSError):  # the terminal may be gone
            os.write(2, f"adc: the robot's keeper: {reason or 'done'}; then: {outcome}\n".encode())
    return 0 if outcome == "motors off" else 1


if __name__ == "__main__":
    sys.exit(main())
