"""The take-over of a robot when threads, streams and states are late, each on purpose."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("bosdyn.client")
pytest.importorskip("cryptography")

from spot_driver_helpers import HOLD, Late, fake_driver
from spot_robot_helpers import spot_env, still_action
from spot_sim_helpers import EXPIRED, Client, LocalRobot
from spot_stream_helpers import Commands, command, sender

from adc_wrappers.backends.guard import PRACTICE_LIMITS, ROBOT_LIMITS
from adc_wrappers.backends.spot.driving import JointDriver
from adc_wrappers.backends.spot.messages import seconds
from adc_wrappers.spot_sim import PracticeRobot
from adc_wrappers.spot_sim.readings import Subscription


def opened(sending, first, patience=30.0):
    """Start a sender in a thread; returns the thread and the list that will hold what start() said."""
    said: list[bool] = []
    thread = threading.Thread(target=lambda: said.append(sending.start(first, patience)))
    thread.start()
    return thread, said


@pytest.mark.parametrize("period", [None, 0.002], ids=["lockstep", "real time"])
def test_a_hold_that_is_sent_late_is_dated_when_it_is_sent(period):
    """Seconds of states come in between: the command would have been too old by far."""
    clock = [100.0]
    robot = Late()
    sending = sender(robot, lambda: clock[0], period=period)
    thread, said = opened(sending, command(key=1, source=100.0))
    clock[0] = 101.7
    robot.go.set()
    assert seconds(robot.messages.get(timeout=30).end_time) == pytest.approx(101.75)
    thread.join()
    assert said == [True] and sending.missed is None
    sending.stop()


@pytest.mark.parametrize("period", [None, 0.002], ids=["lockstep", "real time"])
def test_an_action_that_is_too_old_to_be_sent_is_said_so(period):
    robot = Commands()
    sending = sender(robot, lambda: 100.0, period=period)
    assert sending.start(command(key=1, source=100.0), 30.0)
    sending.put(command(key=2, source=99.9))
    with sending._changed:
        assert sending._changed.wait_for(lambda: sending.missed is not None, 30.0)
    assert sending.missed == "command 2 was not sent: the state it came from is 100 ms old, at most 80 ms"
    sending.stop()


def test_a_first_command_that_cannot_be_sent_ends_the_take_over_at_once():
    with fake_driver(Late()) as (made, session, _):
        made.begin(HOLD)
        session.commands.go.set()
    assert made.incident["check"] == "stream"
    assert made.incident["reason"] == "the first command was not sent within 0.2 s"
    assert session.asked == ["order stand", "told guard", "stand", "told fallback"]  # joint control was not switched on
    assert made.step(HOLD) is None


@pytest.mark.parametrize(("limits", "life"), [(ROBOT_LIMITS, 0.05), (PRACTICE_LIMITS, 0.27)], ids=["robot", "practice"])
def test_in_real_time_a_command_lives_as_long_as_its_state_may(limits, life):
    """A practice robot's limits allow for a busy computer: commands of 50 ms would not."""
    with fake_driver(Commands(), clock="realtime", limits=limits) as (made, session, _):
        made._sender.start(made._make(HOLD), 30.0)
        assert seconds(session.commands.messages.get(timeout=30).end_time) == pytest.approx(10.0 + life, abs=1e-6)


def test_an_activation_that_overtakes_the_first_command_does_no_harm(tmp_path):
    """The command is dated by a state from before; the next one must be dated well."""
    robot = LocalRobot(tmp_path)
    client = Client(robot)
    try:
        client.drive()
        assert client.step(ttl=-1.5) is not None
        assert robot.status()["mode"] == "joint"
        client.send(client.message(ttl=-0.5))
        assert client.ending() == EXPIRED
    finally:
        client.close()
        robot.close()


def test_a_robot_settles_before_it_is_taken_over_however_late_its_states_are(tmp_path, monkeypatch):
    """States of the way to the stand are held back until after it: the time to settle must not count from them."""
    flowing = threading.Event()
    flowing.set()
    get = Subscription.get
    monkeypatch.setattr(Subscription, "get", lambda self: (get(self), flowing.wait())[0])
    robot = LocalRobot(tmp_path)
    env = spot_env(robot, settle_seconds=1.0)
    backend = env.task.backend
    stood, begun = [], []
    stand, begin = backend.session.stand, JointDriver.begin

    def stand_with_states_held_back():
        flowing.clear()
        stand()
        stood.append(robot.status()["clock"])
        threading.Timer(0.3, flowing.set).start()

    def look(driver, setpoint):
        begun.append(driver._newest().stamp)
        begin(driver, setpoint)

    monkeypatch.setattr(backend.session, "stand", stand_with_states_held_back)
    monkeypatch.setattr(JointDriver, "begin", look)
    try:
        env.reset(seed=0)
        assert begun[0] >= stood[0] + 1.0 - 1e-3
    finally:
        flowing.set()
        env.close()
        robot.close()


@pytest.mark.slow
def test_many_take_overs_on_a_busy_computer():
    """Eight in a row beside two processes that never rest: before, one in ten failed."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        with PracticeRobot(clock="lockstep") as robot:
            env = spot_env(robot, settle_seconds=0.2, takeover_seconds=0.1)
            try:
                for _ in range(8):
                    env.reset(seed=0)
                    assert not env.step(still_action())[2], env.task.incident()
            finally:
                env.close()
            assert robot.status()["motors"] == "off"
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.parametrize("direction", [-1.0, 1.0])
def test_a_limited_policy_begins_where_the_guard_thinks_the_targets_are_at_rest(direction):
    """Targets move fastest at the end of a softening: a first action to the other side was stopped as a jolt."""
    with PracticeRobot(clock="lockstep") as robot, closing(spot_env(robot, preset="robot", limits="robot")) as env:
        env.reset(seed=0)
        guard = env.unwrapped.task.backend.guard
        assert guard._last is not None and not guard._last[1].any()
        _, _, _, _, info = env.step(np.full(12, direction, dtype=np.float32))
        assert info.get("guard") is None or info["guard"]["check"] not in ("slew", "slew_change")
