"""The keeper as its driver sees it: a process that holds the lease and wants to hear from us."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from adc_wrappers.core.errors import BackendError

from .connection import PASSWORD_VARIABLE, USERNAME_VARIABLE
from .listening import Repeater
from .settings import SpotRobotSettings

__all__ = ["BEAT_PERIOD", "Keeper"]

BEAT_PERIOD: Final = 0.1
"""Seconds between two signs of life, in both directions."""

START_SECONDS: Final = 30.0
"""Seconds that the keeper may take to start, beyond the patience with the robot."""

MODULE: Final = "adc_wrappers.backends.spot.keeper"


class Keeper:
    """A keeper as its driver has it: started, asked for a lease, shown signs of life, and watched for its own.

    The keeper is a process in a session of its own, which signals from a terminal do not reach. Credentials go to it
    over a pipe: they are in no argument and not in its environment.

    Args:
        settings: How the robot is reached.
        credentials: User name and password.

    Raises:
        BackendError: It does not start, or does not get the lease.
    """

    def __init__(self, settings: SpotRobotSettings, credentials: tuple[str, str]) -> None:
        self._silence_limit = settings.keeper_silence
        self._end_limit = settings.power_off_seconds + 2.0 * settings.patience + START_SECONDS
        self._changed = threading.Condition()
        self._told: dict[str, Any] = {}
        self._rest = b""
        self._ended = False
        self._silence = 0.0
        self._last_beat = time.monotonic()
        self._process = _start()
        self._listener = threading.Thread(target=self._listen, name="spot keeper's word", daemon=True)
        self._listener.start()
        self._send(_order(settings, credentials))
        self._wait("lease", settings.patience + START_SECONDS)
        if "lease" not in self._told:
            error = self._told.get("error", "it did not start in time; its last words are above")
            self.kill()
            raise BackendError(f"the keeper of the lease: {error}")
        self._beats = Repeater("spot keeper's beat", BEAT_PERIOD, self._beat)

    @property
    def process_id(self) -> int:
        """Number of the keeper's process."""
        return self._process.pid

    @property
    def lease(self) -> bytes:
        """The lease that it hands to us, a message of the SDK: a part of its own, which it can outdate."""
        return base64.b64decode(self._told["lease"])

    @property
    def took_over(self) -> str | None:
        """Why the keeper has taken the robot from us; None if it has not."""
        with self._changed:
            self._take_in()
            return self._told.get("took over")

    def problem(self) -> str | None:
        """Return why there is nobody any more who would look after the robot if we died."""
        with self._changed:
            self._take_in()
            if "took over" in self._told:
                return f"the keeper has taken the robot from us: {self._told['took over']}"
            if self._ended:
                return "the keeper's process has ended"
            if self._silence > self._silence_limit:
                return f"the keeper has been silent for more than {self._silence_limit:g} s"
        return None

    def await_end(self) -> str | None:
        """Wait until a keeper that has taken over is done; returns what became of the robot, None if it did not say."""
        self._wait("ended", self._end_limit)
        with self._changed:
            return self._told.get("ended")

    def finish(self) -> str | None:
        """Tell the keeper that all is done, and wait until it has returned the lease and ended.

        Returns:
            What it says about the motors; None if it says nothing: then the lease is not returned.
        """
        lost = self.problem() is not None and self.took_over is None
        if not lost:
            self._send({"done": True})
            self.await_end()
        self.kill()
        with self._changed:
            return self._told.get("ended")

    def kill(self) -> None:
        """End the keeper, one that has said its last word by itself and any other by force; ends our threads too."""
        if hasattr(self, "_beats"):
            self._beats.stop()
        try:
            self._process.wait(START_SECONDS if "ended" in self._told else 0.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(START_SECONDS)
        with self._changed:
            self._ended = True
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def let_go(self) -> None:
        """Close our ends of its pipes in a forked child: else it would not hear that the process it keeps has ended."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                os.close(pipe.fileno())

    def _beat(self) -> bool:
        """Give a sign of life, and count silence only as far as we were awake ourselves."""
        now = time.monotonic()
        with self._changed:
            self._silence += min(now - self._last_beat, 2.0 * BEAT_PERIOD)
            self._last_beat = now
        return self._send({"beat": True})

    def _send(self, message: dict[str, Any]) -> bool:
        """Send a line; returns whether somebody takes it."""
        if self._process.stdin is None or self._process.stdin.closed:
            return False
        try:
            os.write(self._process.stdin.fileno(), (json.dumps(message) + "\n").encode())
        except OSError:
            return False
        return True

    def _listen(self) -> None:
        """Take in lines as they come, until the keeper ends; runs in a thread of its own."""
        while not self._ended and self._process.stdout is not None:
            select.select([self._process.stdout], [], [])
            with self._changed:
                self._take_in()

    def _take_in(self) -> None:
        """Take in all that the keeper has said so far, with the lock held.

        Whoever asks about the keeper does it too: its word must be known before what it did to the robot is, however
        late our thread is, for instance in a program that was stopped and goes on.
        """
        words = self._process.stdout
        while words is not None and not self._ended and select.select([words], [], [], 0.0)[0]:
            data = os.read(words.fileno(), 65536)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._silence = 0.0
                self._told.update(json.loads(line))
            self._ended = not data
            self._changed.notify_all()

    def _wait(self, word: str, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: word in self._told or self._ended, seconds)


def _start() -> subprocess.Popen[bytes]:
    root = str(Path(__file__).absolute().parents[3])  # the keeper imports this library from where we did
    secret = (USERNAME_VARIABLE, PASSWORD_VARIABLE)
    environment = {name: value for name, value in os.environ.items() if name not in secret}
    environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
        start_new_session=True,
    )  # fmt: skip


def _order(settings: SpotRobotSettings, credentials: tuple[str, str]) -> dict[str, Any]:
    certificate = settings.certificate
    return {
        "hostname": settings.hostname,
        "port": settings.port,
        "certificate": None if certificate is None else str(Path(certificate).resolve()),
        "patience": settings.patience,
        "power_off_seconds": settings.power_off_seconds,
        "credentials": list(credentials),
        "silence": settings.keeper_silence,
    }
