"""A robot that is never unguarded: every state is looked at, safety comes first, listeners wait their turn."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("bosdyn.client")
pytest.importorskip("cryptography")

from spot_driver_helpers import HOLD, fake_driver
from spot_helpers import make_state
from spot_robot_helpers import Notes, own_threads, spot_env, still_action
from spot_sim_helpers import LocalRobot
from spot_stream_helpers import Commands

from adc_wrappers.backends.base import RobotStart
from adc_wrappers.backends.guard import PRACTICE_LIMITS
from adc_wrappers.backends.spot.listening import Audience
from adc_wrappers.backends.spot.takeover import height_over_feet
from adc_wrappers.backends.spot_model import NOMINAL_POSE, standing_height
from adc_wrappers.core.errors import BackendError
from adc_wrappers.spot_sim import robot as practice


def rolled(degrees):
    """A quaternion turned about the body's long axis."""
    half = np.deg2rad(degrees) / 2.0
    return np.array([np.cos(half), np.sin(half), 0.0, 0.0])


def tilted_state(degrees):
    return make_state(base_quaternion=rolled(degrees), base_position=(0.0, 0.0, 0.5))


def placed(degrees, height=0.5):
    """The start of a robot that is turned about its long axis, at rest."""
    still = np.zeros((1, 3))
    pose = np.array(NOMINAL_POSE)[None]
    return RobotStart(np.array([[0.0, 0.0, height]]), rolled(degrees)[None], still, still, pose, np.zeros((1, 12)))


@pytest.fixture
def robot(tmp_path):
    robot = LocalRobot(tmp_path)
    yield robot
    robot.close()


# Every state, in every phase


def test_the_watchdog_stops_a_robot_that_tilts_while_it_is_held():
    """Nobody steps and no clock has run out: only the states say it."""
    with fake_driver(Commands()) as (driver, session, states):
        driver.hold()
        assert driver._watch() is True and driver.incident is None
        states.state = tilted_state(50.0)
        states.say(10.003)
        driver._receiver.wait(lambda sample: sample.stamp > 10.001, 30.0)
        assert driver._watch() is False
        assert driver.incident["check"] == "side" and driver.incident["phase"] == "takeover"
        assert driver.incident["fallback"] == "motors off"  # not upright, so it is not told to stand
        assert session.asked[0] == "order power off"


def test_in_real_time_the_watchdog_looks_by_itself_from_the_first_command_on():
    """While a robot is held nobody calls anything, and no clock runs out here: only its own thread can see it."""
    patient = replace(PRACTICE_LIMITS, state_age=1000.0, echo_lag=1000.0, policy_age=1000.0)
    with fake_driver(Commands(), clock="realtime", limits=patient, patience=30.0) as (driver, session, states):
        session.activate = lambda: states.say(10.003, echo=8)  # the robot shows that it has heard the first command
        driver.begin(HOLD)
        driver.hold()
        assert driver.incident is None
        states.state = tilted_state(50.0)
        states.say(10.006, echo=8)
        assert driver._safe.wait(60.0)
        assert driver.incident["check"] == "side" and driver.incident["phase"] == "takeover"
        assert session.asked.index("order power off") < session.asked.index("told guard")


def test_looking_between_policy_steps_moves_neither_the_phase_nor_the_ground():
    with fake_driver(Commands()) as (driver, _, states):
        driver._guard.phases.hand_to_policy()
        driver._estimator.state(driver.sample)
        ground = driver._estimator._ground
        for i in range(1, 20):  # in the stance for longer than the phase needs, on ground that is higher
            states.state = make_state(base_quaternion=(np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0), base_position=(0, 0, 0.9))
            states.say(10.0 + 0.003 * i)
            driver._receiver.wait(lambda sample, i=i: sample.stamp > 10.0 + 0.003 * i - 0.001, 30.0)
            driver._look()
        assert driver._guard.phases.phase == "transition" and driver._estimator._ground == ground


def test_no_take_over_begins_from_a_state_that_the_guard_forbids():
    with fake_driver(Commands()) as (driver, session, states):
        states.state = tilted_state(50.0)
        states.say(10.003)
        driver._receiver.wait(lambda sample: sample.stamp > 10.001, 30.0)
        driver.begin(HOLD)
        assert driver.incident["check"] == "side" and "activate" not in session.asked
        assert session.commands.messages.empty()


def test_in_lockstep_nothing_is_sent_to_a_robot_that_was_turned_while_it_was_held():
    with fake_driver(Commands()) as (driver, session, states):
        states.state = tilted_state(50.0)
        states.say(10.02)
        driver._receiver.wait(lambda sample: sample.stamp > 10.01, 30.0)
        assert driver.step(HOLD) is None
        assert driver.incident["check"] == "side" and session.asked[0] == "order power off"
        assert driver._command is None


def test_a_robot_is_being_taken_over_until_its_policy_acts(robot):
    """The wider limits of a policy's motion do not hold for a robot that is held."""
    env = spot_env(robot)
    try:
        env.reset(seed=0)
        assert env.task.backend.guard.phases.phase == "takeover"
        env.step(still_action())
        assert env.task.backend.guard.phases.phase == "transition"
    finally:
        env.close()


# Act first, ask and tell afterwards


class Closing(Commands):
    """A robot that closes the command stream after the first message."""

    def __init__(self):
        super().__init__()
        self.closing.set()


def test_the_robot_is_told_to_be_safe_before_anybody_is_asked_or_told():
    with fake_driver(Closing(), patience=30.0) as (driver, session, _):
        session.problem_now = ("battery", "battery at 3 %, at least 10 %")
        driver.begin(HOLD)
        heard = [word for word in session.asked if word != "activate"]
        assert heard == ["order stand", "told guard", "health", "power off", "told fallback"]
        assert driver.incident["check"] == "battery" and driver.incident["fallback"] == "motors off"
        assert driver.incident["first"]["check"] == "stream" and "INACTIVE" in driver.incident["first"]["reason"]
        assert driver.incident["reason"].startswith("battery at 3 %")


def test_an_episode_that_is_ended_in_its_middle_ends_in_a_stand_at_once():
    with fake_driver(Commands()) as (driver, session, _):
        driver.end()
        assert session.asked == ["order stand"]
        driver.end()
        assert session.asked == ["order stand"]


@pytest.mark.parametrize("way", ["reset", "close"])
def test_reset_and_close_in_mid_episode_tell_the_robot_to_stand_before_they_ask_anything(robot, monkeypatch, way):
    env = spot_env(robot)
    try:
        env.reset(seed=0)
        env.step(still_action())
        asked, session = [], env.task.backend.session

        def spied(name, plain):
            return lambda *arguments, **options: (asked.append(name), plain(*arguments, **options))[1]

        for name in ("order_stand", "stand", "health", "check", "confirm_lease", "power_off"):
            monkeypatch.setattr(session, name, spied(name, getattr(session, name)))
        env.reset(seed=0) if way == "reset" else env.close()
        assert asked[0] == "order_stand" and {"reset": "check", "close": "power_off"}[way] in asked
    finally:
        env.close()


# Listeners


class Slow(Notes):
    """A listener that hangs until it is let go."""

    def __init__(self):
        super().__init__()
        self.go, self.hangs = threading.Event(), threading.Event()

    def event(self, name, details):
        self.hangs.set()
        self.go.wait()
        super().event(name, details)


def test_a_listener_that_hangs_delays_nobody(robot):
    """It hangs from the first event on, and the robot is taken over, driven and stopped all the same."""
    slow = Slow()
    env = spot_env(robot, listeners=(slow,))
    try:
        env.reset(seed=0)
        assert not env.step(still_action())[2]
        assert slow.events == [] and robot.status()["mode"] == "joint"
        env.task.backend._driver.halt(env.task.backend.guard.breach("stopped", "for the test"))
        assert robot.status()["mode"] == "stand" and slow.events == []
    finally:
        slow.go.set()
        env.close()
    assert "spot listeners" not in {thread.name for thread in own_threads()}
    assert [name for name in slow.names() if name != "dropped"] == [
        "armed", "joint control", "policy", "stopped", "fallback", "closed",
    ]  # fmt: skip
    assert slow.states > 10


def test_what_listeners_miss_is_counted_and_told_and_events_are_never_missed():
    slow = Slow()
    audience = Audience((slow,), capacity=3)
    audience.tell("event", "begin", {})
    assert slow.hangs.wait(30.0)
    for _ in range(1000):
        audience.tell("state", None, None)
    audience.tell("event", "end", {})
    assert audience.dropped == 997
    assert audience.flush(0.05) is False
    slow.go.set()
    assert audience.flush(30.0) is True
    assert slow.names() == ["begin", "dropped", "end"]
    assert slow.events[1][1] == {"states": audience.dropped, "commands": 0}
    assert slow.states + audience.dropped == 1000
    audience.close()
    audience.close()
    audience.tell("event", "after", {})
    assert "after" not in slow.names()


# Upright, and on its legs


def test_a_robot_on_its_back_is_not_powered(robot):
    robot.place(placed(180.0, height=0.3))
    env = spot_env(robot)
    try:
        with pytest.raises(BackendError, match=r"upright: the body is tilted by 1[678]\d°, at most 30°. Nothing was"):
            env.reset(seed=0)
        assert robot.status()["motors"] == "off" and robot.status()["leases"] == {}
    finally:
        env.close()


def test_preflight_says_that_a_robot_lies_on_its_back(robot, brief_preflight):
    from spot_robot_helpers import POLICY

    from adc_wrappers.deploy.preflight import preflight
    from adc_wrappers.policy import load

    env = spot_env(robot)
    try:
        lines = {item.name: item for item in preflight(env, load(POLICY)).items}
        assert lines["upright"].ok is True
        robot.place(placed(180.0, height=0.3))
        env.task.backend.receiver.wait(lambda sample: sample.gravity[2] > 0.8, 30.0)
        report = preflight(env, load(POLICY))
        lines = {item.name: item for item in report.items}
        assert lines["upright"].ok is False and not report.ok
    finally:
        env.close()


def test_a_stand_that_stays_low_is_not_taken_over(robot, monkeypatch):
    """It says that it stands, at 0.37 m instead of 0.50 m."""
    low = np.tile([0.0, 1.12, -2.15], 4)
    assert standing_height(low) == pytest.approx(0.37, abs=0.02)
    monkeypatch.setattr(practice, "STAND_POSE", low)
    env = spot_env(robot, patience=2.0)  # it is waited for until patience ends
    try:
        with pytest.raises(
            BackendError, match=r"has not settled, the body is 0\.3\d m over its feet, expected 0\.[45]"
        ):
            env.reset(seed=0)
        assert robot.status()["mode"] == "stand"
    finally:
        env.close()
    assert robot.status()["motors"] == "off"


def test_the_height_over_the_feet_needs_no_ground():
    with fake_driver(Commands()) as (driver, _, _):
        assert height_over_feet(driver.sample) == pytest.approx(standing_height(np.array(NOMINAL_POSE)), abs=1e-5)
        hung = driver.sample._replace(base_position=np.array([0.0, 0.0, 3.0]), contacts=np.zeros(4, dtype=bool))
        assert height_over_feet(hung) == height_over_feet(driver.sample)
