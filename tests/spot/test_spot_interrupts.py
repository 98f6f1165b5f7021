"""Signals that ask to end: they wait for a block, and end as Ctrl-C does while a robot is armed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("bosdyn.client")

from spot_robot_helpers import nothing_left, spot_env

from adc_wrappers.backends.spot.signals import EndingSignals, uninterrupted
from adc_wrappers.spot_sim import PracticeRobot

ROOT = Path(__file__).parents[2]


class AskedError(Exception):
    """The error that a program's own handler raises."""


def own(number, frame):
    raise AskedError(number)


@pytest.fixture(autouse=True)
def defaults():
    """The handlers of a plain program, whatever the tests run under."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_for_the_block_and_then_acts_as_it_would_have(number):
    signal.signal(number, own)
    done = []
    with pytest.raises(AskedError), uninterrupted():
        with uninterrupted():
            os.kill(os.getpid(), number)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"] and signal.getsignal(number) is own


def test_a_signal_that_is_ignored_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    signals = EndingSignals()
    signals.install()
    try:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signals.restore()


def test_while_a_robot_is_armed_sigterm_ends_with_the_shells_code_and_then_acts_as_before():
    one, other = EndingSignals(), EndingSignals()
    one.install()
    one.install()
    other.install()
    one.restore()
    with pytest.raises(SystemExit) as ended:  # the other robot is armed still
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10.0)  # is interrupted
    assert ended.value.code == 143
    other.restore()
    other.restore()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_programs_own_handler_stays_and_one_that_it_installs_later_too():
    signal.signal(signal.SIGTERM, own)
    signals = EndingSignals()
    signals.install()
    signal.signal(signal.SIGHUP, own)
    signals.restore()
    assert signal.getsignal(signal.SIGTERM) is own and signal.getsignal(signal.SIGHUP) is own


def test_another_thread_installs_nothing():
    signals = EndingSignals()
    thread = threading.Thread(target=signals.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


FORK = """
import os, sys, time
sys.path[:0] = [{root!r}, {tests!r}]
from spot_robot_helpers import spot_env
class Settings: clock = "lockstep"
class Robot:
    hostname, port, certificate = "127.0.0.1", {port}, {certificate!r}
    username, password, settings = {user!r}, {word!r}, Settings
env = spot_env(Robot, keeper=True, keeper_silence=60.0)
env.actuator_backend.session.arm()
codes = set()
for _ in range({children}):
    child = os.fork()
    if child == 0:
        sys.exit(7)  # and the exit handlers run
    deadline = time.monotonic() + 60.0
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            sys.exit("the child hangs")
        time.sleep(0.01)
    codes.add(os.waitstatus_to_exitcode(ended[1]))
session = env.actuator_backend.session
print(codes, session.health().motor_power, session.confirm_lease(), session.lease.keeper_problem())
"""


@pytest.mark.slow
def test_forked_children_that_exit_neither_hang_nor_abort_nor_touch_the_robot():
    """Many, because gRPC's own handlers, where they are on, abort only some. The library turns them off by itself."""
    plain = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    with PracticeRobot(clock="lockstep") as robot:
        text = FORK.format(
            root=str(ROOT), tests=str(Path(__file__).parent), port=robot.port, certificate=str(robot.certificate),
            user=robot.username, word=robot.password, children=60,
        )  # fmt: skip
        answer = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=False, env=plain
        )
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.strip() == "{7} ON None None", answer.stderr
        assert robot.status()["motors"] == "off" and robot.status()["leases"] == {}


@pytest.mark.slow
def test_arming_installs_and_closing_restores():
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        env = spot_env(robot)
        try:
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            env.actuator_backend.session.arm()
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        finally:
            env.close()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
