"""A driver of joints over streams and a session that are made by hand: no network, no robot."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
from spot_stream_helpers import Commands, States

from adc_wrappers.backends.guard import PRACTICE_LIMITS, Guard
from adc_wrappers.backends.spot.driving import JointDriver
from adc_wrappers.backends.spot.estimation import StateEstimator
from adc_wrappers.backends.spot.messages import JointOrder
from adc_wrappers.backends.spot.proof import make_key, write_key
from adc_wrappers.backends.spot.settings import SpotRobotSettings
from adc_wrappers.backends.spot.streams import StateReceiver
from adc_wrappers.backends.spot.takeover import STIFF_DAMPING, STIFF_STIFFNESS, Setpoint
from adc_wrappers.backends.spot_model import NOMINAL_POSE

HOLD = Setpoint(np.array(NOMINAL_POSE), STIFF_STIFFNESS, STIFF_DAMPING)


class Late(Commands):
    """A stream that takes nothing before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def send_joint_control_commands(self, requests: Any) -> Any:
        self.go.wait()
        return super().send_joint_control_commands(requests)


class Session:
    """A session that remembers, in their order, what its robot was told and asked, and what others were told."""

    client_name = "me"

    def __init__(self, commands: Any) -> None:
        self.commands = commands
        self.asked: list[str] = []
        self.problem_now: tuple[str, str] | None = None
        self.lease = SimpleNamespace(keeper_problem=lambda: None)

    def client(self, kind: Any) -> Any:
        return self.commands

    def health(self) -> Session:
        self.asked.append("health")
        return self

    def problem(self, limits: Any) -> tuple[str, str] | None:
        return self.problem_now

    def confirm_lease(self) -> None:
        self.asked.append("lease")

    def activate(self) -> None:
        self.asked.append("activate")

    def order_stand(self) -> None:
        self.asked.append("order stand")

    def order_power_off(self) -> None:
        self.asked.append("order power off")

    def stand(self) -> None:
        self.asked.append("stand")

    def power_off(self) -> None:
        self.asked.append("power off")

    def confirm_off(self) -> None:
        self.asked.append("confirm off")

    def tell(self, name: str, details: dict[str, Any]) -> None:
        self.asked.append(f"told {name}")


@contextmanager
def fake_driver(commands: Any, *, limits: Any = PRACTICE_LIMITS, clock: str = "lockstep", patience: float = 0.2) -> Any:
    """Yield a driver, its session and its state stream, which has given the state of second 10."""
    states, session = States(), Session(commands)
    receiver = StateReceiver(states, JointOrder(), lambda sample: None, timed=False)
    states.say(10.0)
    receiver.wait(lambda sample: True, 30.0)
    with TemporaryDirectory() as folder:
        write_key(Path(folder), make_key())
        settings = SpotRobotSettings(
            hostname="127.0.0.1", certificate=Path(folder) / "ca.pem", clock=clock, patience=patience, limits=limits
        )
    made = JointDriver(
        session, receiver, Guard(limits, (1.0, 0.0, 0.0)), settings, 0.02, StateEstimator(), session.tell,
        lambda command: None,
    )  # fmt: skip
    try:
        yield made, session, states
    finally:
        commands.closing.set()
        made.end()
        receiver.stop()
