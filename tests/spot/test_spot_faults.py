"""Every fault of the practice robot, in the middle of an episode: each ends in the defined safe state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("bosdyn.client")

from helpers import heeding_signals
from spot_robot_helpers import nothing_left, spot_env, still_action, streams_closed

from adc_wrappers.core.errors import BackendError
from adc_wrappers.spot_sim import PracticeRobot

ROOT = Path(__file__).parents[2]

# fault, its parameters, the checks that may find it, what the robot is found doing then
DRIVING = [
    ("state_loss", {"duration": 60.0}, {"state_age", "echo_lag"}, "standing"),
    ("state_delay", {"duration": 600.0, "delay": 300.0}, {"state_age", "echo_lag"}, "standing"),
    ("state_reorder", {"duration": 60.0}, {"order"}, "standing"),
    ("command_loss", {"duration": 60.0}, {"echo_lag", "stream"}, "standing"),
    ("stream_cut", {"which": "command"}, {"stream"}, "standing"),
    ("stream_cut", {"which": "state"}, {"stream"}, "standing"),
    ("lease_theft", {}, {"lease"}, "left to the new owner of the lease"),
    ("estop", {"level": "cut"}, {"estop", "power"}, "motors off"),
    ("estop", {"level": "settle_then_cut"}, {"estop", "power"}, "motors off"),
    ("behavior_fault", {}, {"fault"}, "motors off"),
    ("fall", {}, {"fault", "fall", "lean", "side", "height", "speed", "turn_rate"}, "motors off"),
    ("low_battery", {"charge": 3.0}, {"battery"}, "motors off"),
    ("hot_motor", {"joint": "hl_hy"}, {"temperature"}, "motors off"),
    ("hot_battery", {}, {"temperature"}, "motors off"),
    ("missing_charge", {}, {"reading"}, "standing"),
    ("unknown_estop", {}, {"reading"}, "standing"),
    ("missing_licence", {}, {"stream", "state"}, "standing"),
    ("clock_jump", {"seconds": 1.0}, {"clock", "stream"}, "standing"),
    ("clock_jump", {"seconds": -5.0}, {"clock", "order"}, "standing"),
    ("expired_token", {}, {"login"}, "standing"),
]


# Found by nothing but the end of patience with an answer. It is long, since a busy computer must not use it up before
# the fault, and of no use afterwards.
SILENT = {"state_loss", "state_delay", "command_loss"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "parameters", "checks", "outcome"), DRIVING, ids=[f"{d[0]}-{i}" for i, d in enumerate(DRIVING)]
)
def test_a_fault_while_driving_ends_safely(fault, parameters, checks, outcome):
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        env = spot_env(robot, patience=15.0)
        try:
            env.reset(seed=0)
            for _ in range(3):
                assert not env.step(still_action())[2]
            robot.inject(fault, **parameters)
            if fault in SILENT:
                driver = env.actuator_backend._driver
                driver._settings = replace(driver._settings, patience=1.0)
            info = _until_stopped(env)
            guard = info["guard"]
            assert guard["check"] in checks, guard
            assert guard["fallback"] == outcome, guard
            assert robot.status()["mode"] in {"standing": ("stand",), "motors off": ("off",)}.get(
                outcome, ("stand", "off")
            )
        finally:
            env.close()
        status = robot.status()
        if fault == "lease_theft":
            assert list(status["leases"].values()) != [] and status["mode"] != "joint"
        else:
            assert status["motors"] == "off" and status["leases"] == {}
        assert streams_closed(robot)


def _until_stopped(env):
    for _ in range(400):
        _, _, terminated, truncated, info = env.step(still_action())
        if terminated:
            assert not truncated and not info["is_success"]
            return info
    raise AssertionError("nothing stopped the policy")


# fault before the session, or between login and reset: nothing may be powered
REFUSED = [
    ("missing_licence", {}, "no licence"),
    ("arm_fitted", {}, "has an arm"),
    ("estop", {"level": "cut"}, "E-stop is pressed"),
    ("behavior_fault", {}, "behaviour fault"),
    ("low_battery", {"charge": 3.0}, "battery at 3 %"),
    ("hot_motor", {}, "motor fl_kn at 95 °C"),
    ("hot_battery", {}, "battery at 70 °C"),
    ("missing_charge", {}, "charge of a battery is not reported"),
    ("missing_temperatures", {}, "temperatures of motors are not reported"),
    ("unknown_estop", {}, "E-stop is unknown"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "parameters", "reason"), REFUSED, ids=[r[0] for r in REFUSED])
def test_a_fault_before_the_session_is_refused_before_anything_moves(fault, parameters, reason):
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        robot.inject(fault, **parameters)
        with pytest.raises(BackendError, match=reason):
            env = spot_env(robot)
            try:
                env.reset(seed=0)
            finally:
                env.close()
        assert robot.status()["motors"] == "off" and robot.status()["leases"] == {}


@pytest.mark.slow
def test_a_tilted_odometry_frame_is_refused():
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        env = spot_env(robot)
        robot.inject("odom_tilt", degrees=8.0)
        try:
            with pytest.raises(BackendError, match="disagree"):
                env.reset(seed=0)
        finally:
            env.close()
        assert robot.status()["motors"] == "off"


@pytest.mark.slow
def test_motors_that_are_not_confirmed_off_are_said_so():
    with PracticeRobot(clock="realtime") as robot, nothing_left():
        env = spot_env(robot, power_off_seconds=1.0)
        env.actuator_backend.session.arm()
        env.actuator_backend.session.stand()
        robot.inject("slow_power_off", seconds=3.0)
        with pytest.raises(BackendError, match=r"not confirmed off after 1 s .*press the E-stop"):
            env.close()
        assert robot.status()["leases"] != {}  # whoever tries again needs it
        _close_again(env)
        assert robot.status()["motors"] == "off" and robot.status()["leases"] == {}


def _close_again(env):
    deadline = time.monotonic() + 180.0
    while True:
        try:
            return env.actuator_backend.close()
        except BackendError:
            assert time.monotonic() < deadline


@pytest.mark.slow
def test_a_robot_that_vanishes_is_said_to_be_unconfirmed():
    """Its process dies: nobody can know what its motors do, and close() says so."""
    with nothing_left():
        robot = PracticeRobot(clock="lockstep")
        env = spot_env(robot, patience=10.0)
        try:
            env.reset(seed=0)
            robot.close()
            info = _until_stopped(env)
            assert info["guard"]["check"] in ("stream", "contact")
            assert "press the E-stop" in info["guard"]["fallback"]
        finally:
            for _ in range(2):
                with pytest.raises(BackendError, match="not confirmed off, press the E-stop"):
                    env.actuator_backend.close()
            env.actuator_backend.session.close()  # give it up
            env.actuator_backend.close()


SCRIPT = """
import sys, numpy as np
sys.path[:0] = [{root!r}, {tests!r}]
from spot_robot_helpers import spot_env
class Settings: clock = "lockstep"
class Robot:
    hostname, port, certificate = "127.0.0.1", {port}, {certificate!r}
    username, password, settings = {user!r}, {word!r}, Settings
class Says:
    def state(self, sample, targets): pass
    def command(self, command): pass
    def event(self, name, details): print(name, flush=True)
env = spot_env(Robot, listeners=(Says(),))
print("made", flush=True)
while True:  # a robot that is held still falls after a while: it goes on until the signal comes
    env.reset(seed=0)
    while not env.step(np.zeros(12, np.float32))[2]:
        print("step", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("line", ["made", "armed", "joint control", "step"])
def test_ctrl_c_at_any_moment_ends_with_motors_off(line):
    """The script has no ``finally``: the backend looks after itself."""
    with PracticeRobot(clock="lockstep") as robot:
        text = SCRIPT.format(
            root=str(ROOT), tests=str(Path(__file__).parent), port=robot.port, certificate=str(robot.certificate),
            user=robot.username, word=robot.password,
        )  # fmt: skip
        process = subprocess.Popen(
            heeding_signals([sys.executable, "-c", text]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while (said := process.stdout.readline()).strip() != line:
            assert said, process.communicate()[1]  # it has ended by itself: why?
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert "KeyboardInterrupt" in errors
        assert robot.password not in errors
        status = robot.status()
        assert status["motors"] == "off" and status["leases"] == {}, errors
        assert streams_closed(robot)


@pytest.mark.slow
def test_a_policy_that_hangs_is_stopped_in_real_time():
    """Nobody calls step(): the watchdog hands the robot to its own controller."""
    from adc_wrappers.backends.guard import PRACTICE_LIMITS

    limits = replace(PRACTICE_LIMITS, state_age=20.0, echo_lag=20.0, policy_age=2.0)
    with PracticeRobot(clock="realtime") as robot, nothing_left():
        # joints that hold the stand without a policy: soft ones give way, and the guard would stop that first
        env = spot_env(robot, limits=limits, time_to_live=5.0, stiffness=200.0, damping=5.0)
        try:
            env.reset(seed=0)
            _, _, terminated, _, info = env.step(still_action())
            if not terminated:  # on a busy computer it may be too late for the first step
                waiting = threading.Event()
                for _ in range(600):
                    if env.task.incident() is not None:
                        break
                    waiting.wait(0.1)
                _, _, terminated, _, info = env.step(still_action())
            assert terminated and info["guard"]["check"] in ("policy_age", "stream"), info
            assert robot.status()["mode"] in ("stand", "off", "fault")
        finally:
            env.close()
        assert robot.status()["motors"] == "off"
