"""A practice robot and an env on it, for tests of the hardware backend."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers import make_env
from adc_wrappers.policy import load

POLICY = Path(__file__).parents[2] / "examples" / "policies" / "spot_handstand.onnx"


class Notes:
    """A listener that remembers events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.states = 0

    def state(self, sample: Any, targets: Any) -> None:
        self.states += 1

    def command(self, command: Any) -> None:
        pass

    def event(self, name: str, details: dict[str, Any]) -> None:
        self.events.append((name, details))

    def names(self) -> list[str]:
        return [name for name, _ in self.events]


def connection(robot: Any, **settings: Any) -> dict[str, Any]:
    """Settings that reach a practice robot, patient enough for a busy computer.

    In lockstep a robot comes to rest before it says that it stands, however busy the computer is, and a robot at rest
    takes as long to settle by the wall's time as by its own.
    """
    values: dict[str, Any] = {
        "hostname": robot.hostname,
        "port": robot.port,
        "certificate": robot.certificate,
        "credentials": lambda: (robot.username, robot.password),
        "clock": robot.settings.clock,
        "settle_seconds": 0.5 if robot.settings.clock == "lockstep" else 1.5,
        "takeover_seconds": 0.6,
        "patience": 30.0,
        "power_off_seconds": 60.0,
    }
    return {**values, **settings}


def spot_env(robot: Any, **settings: Any) -> Any:
    """The handstand on a practice robot, at the gains of the shipped policy."""
    metadata = load(POLICY).metadata
    gains = {"stiffness": metadata.simulated_stiffness, "damping": metadata.simulated_damping}
    return make_env("spot-handstand", backend="spot", **{"preset": "cpu", **gains, **connection(robot, **settings)})


def own_threads() -> set[threading.Thread]:
    """Python threads that this library or the SDK started; gRPC's own show as dummies."""
    return {
        thread
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and not thread.name.startswith("Dummy")
    }


@contextmanager
def nothing_left(patience: float = 30.0):
    """Fail if threads go on that were not there before.

    gRPC serves each channel by a thread that sees only a moment after the last call that its work is done: a thread
    counts as left if it has not ended within ``patience`` seconds.
    """
    before = own_threads()
    yield
    deadline = time.monotonic() + patience
    for thread in own_threads() - before:
        thread.join(max(0.0, deadline - time.monotonic()))
    left = {thread.name for thread in own_threads() - before}
    assert not left, f"threads left running: {left}"


def still_action() -> np.ndarray:
    """The action whose targets are the nominal pose."""
    return np.zeros(12, np.float32)


def streams_closed(robot: Any) -> bool:
    """Whether the robot has seen our streams end; it may take a moment to notice."""
    deadline = time.monotonic() + 30.0
    while robot.status()["streams"] != {"state": 0, "command": 0}:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
