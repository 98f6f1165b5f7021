"""A robot whose program or keeper ends, dies or stalls: each ends with motors off and the lease returned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("bosdyn.client")

from helpers import heeding_signals
from spot_robot_helpers import POLICY, Notes, nothing_left, spot_env

from adc_wrappers.backends.spot.keeper import Keeping
from adc_wrappers.backends.spot.keeping import Keeper
from adc_wrappers.backends.spot.settings import SpotRobotSettings
from adc_wrappers.core.errors import BackendError
from adc_wrappers.spot_sim import PracticeRobot

ROOT = Path(__file__).parents[2]
LONG = 180.0  # seconds; far more than anything takes, on a computer that does much else
SILENCE = 5.0

SCRIPT = """
import json, os, sys, time
sys.path[:0] = [{root!r}, {tests!r}]
from spot_robot_helpers import spot_env, still_action
class Settings: clock = {clock!r}
class Robot:
    hostname, port, certificate = "127.0.0.1", {port}, {certificate!r}
    username, password, settings = {user!r}, {word!r}, Settings
# joints that hold the stand without a policy: with soft ones it falls after a second, maybe before the signal comes
env = spot_env(Robot, keeper={keeper!r}, keeper_silence={silence!r}, stiffness=200.0, damping=5.0)
session = env.actuator_backend.session
if Settings.clock == "lockstep":
    env.reset(seed=0)
    for _ in range(3):
        env.step(still_action())
else:  # a busy computer may be too slow to drive in real time
    session.arm()
    session.stand()
keeper = session.lease.keeper
print(json.dumps({{"driving": os.getpid(), "keeper": keeper and keeper.process_id}}), flush=True)
"""
WAIT = """
while True:
    time.sleep(0.05)
"""
DRIVE = """
guard = None
while guard is None:
    guard = env.step(still_action())[4].get("guard")
    time.sleep(0.1)  # the keeper is asked about in every twelfth step
print(json.dumps(guard), flush=True)
env.close()
"""


class Driver:
    """A program in a process of its own that drives a practice robot, and whom its keeper keeps."""

    def __init__(self, robot, then, keeper=True):
        text = SCRIPT.format(
            root=str(ROOT), tests=str(Path(__file__).parent), port=robot.port, certificate=str(robot.certificate),
            user=robot.username, word=robot.password, clock=robot.settings.clock, silence=SILENCE, keeper=keeper,
        )  # fmt: skip
        self.process = subprocess.Popen(
            heeding_signals([sys.executable, "-c", text + textwrap.dedent(then)]), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.keeper = json.loads(line)["keeper"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for number in (self.process.pid, self.keeper):
            if number is not None and lives(number):
                os.kill(number, signal.SIGKILL)
        self.process.communicate()

    def end(self):
        """Wait for the end of the program; returns what it wrote."""
        return self.process.communicate(timeout=LONG)


def lives(number: int) -> bool:
    """Whether a process is there and not only waits to be buried."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition) -> bool:
    deadline = time.monotonic() + LONG
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_safe(robot) -> bool:
    status = robot.status()
    return status["motors"] == "off" and status["leases"] == {}


pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code", "keeper"),
    [("SIGINT", -2, True), ("SIGTERM", 128 + 15, True), ("SIGHUP", 128 + 1, True), ("SIGTERM", 128 + 15, False)],
)
def test_a_signal_that_asks_to_end_brings_the_robot_into_safety_first(name, code, keeper):
    with PracticeRobot(clock="lockstep") as robot, Driver(robot, WAIT, keeper) as driver:
        driver.process.send_signal(getattr(signal, name))
        _, errors = driver.end()
        assert driver.process.returncode == code, errors
        assert is_safe(robot), errors
        assert driver.keeper is None or not lives(driver.keeper)


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["lockstep", "realtime"])
def test_a_program_that_is_killed_leaves_no_robot_with_motors_on(clock):
    with PracticeRobot(clock=clock) as robot, Driver(robot, WAIT) as driver:
        driver.process.kill()
        assert wait_for(lambda: is_safe(robot))
        assert wait_for(lambda: not lives(driver.keeper))
        assert "has ended; then: motors off" in driver.end()[1]


@pytest.mark.slow
def test_deploy_has_a_keeper_and_ends_as_asked(tmp_path):
    with PracticeRobot(clock="lockstep") as robot:
        where = ["--hostname", robot.hostname, "--port", str(robot.port), "--certificate", str(robot.certificate)]
        command = ["deploy", str(POLICY), *where, "--clock", "lockstep", "--yes", "--out", str(tmp_path)]
        login = {"BOSDYN_CLIENT_USERNAME": robot.username, "BOSDYN_CLIENT_PASSWORD": robot.password}
        process = subprocess.Popen(
            heeding_signals([sys.executable, "-m", "adc_wrappers.cli", *command]), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, **login},
        )  # fmt: skip
        try:
            assert wait_for(lambda: robot.status()["mode"] == "joint" or process.poll() is not None)
            assert "keeper" in robot.status()["leases"].get("body", ""), process.communicate()
            process.terminate()
            words, errors = process.communicate(timeout=LONG)
        finally:
            process.kill()
        assert process.returncode == 143, (words, errors)
        assert is_safe(robot) and robot.password not in words + errors


@pytest.mark.slow
def test_a_program_that_stalls_loses_the_robot_and_finds_that_out():
    with PracticeRobot(clock="lockstep") as robot, Driver(robot, DRIVE) as driver:
        driver.process.send_signal(signal.SIGSTOP)
        assert wait_for(lambda: is_safe(robot))
        assert lives(driver.process.pid)
        driver.process.send_signal(signal.SIGCONT)
        words, errors = driver.end()
        guard = json.loads(words.splitlines()[-1])
        assert guard["check"] == "keeper" and "gave no sign of life" in guard["reason"], guard
        assert guard["fallback"] == "motors off"
        assert driver.process.returncode == 0, errors
        assert is_safe(robot) and not lives(driver.keeper)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP", "SIGTERM"])
def test_a_program_whose_keeper_is_lost_stops(name):
    with PracticeRobot(clock="lockstep") as robot, Driver(robot, DRIVE) as driver:
        os.kill(driver.keeper, getattr(signal, name))
        words, errors = driver.end()
        guard = json.loads(words.splitlines()[-1])
        assert guard["check"] == "keeper", guard
        assert guard["fallback"] == ("motors off" if name == "SIGTERM" else "standing")
        assert driver.process.returncode == 0, errors
        assert is_safe(robot)
        assert not lives(driver.keeper)


@pytest.mark.slow
def test_a_keeper_in_process_of_a_normal_end_and_of_a_second_life():
    """The keeper ends with the lease; arming again starts another; credentials are nowhere to be seen."""
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        env = spot_env(robot, keeper=True, keeper_silence=LONG)
        session = env.actuator_backend.session
        try:
            session.arm()
            first = session.lease.keeper.process_id
            for place in ("cmdline", "environ"):
                assert robot.password.encode() not in Path(f"/proc/{first}/{place}").read_bytes()
            assert os.getsid(first) == first != os.getsid(0)
            os.kill(first, signal.SIGKILL)
            assert wait_for(lambda: session.lease.keeper_problem() is not None)
            assert session.confirm_lease() is None  # ours nevertheless
            session.arm()
            second = session.lease.keeper.process_id
            assert second != first and lives(second) and "keeper" in robot.status()["leases"]["body"]
        finally:
            env.close()
        assert is_safe(robot) and not lives(second)


@pytest.mark.slow
def test_what_a_keeper_has_said_counts_however_late_our_thread_hears_it(monkeypatch):
    """As in a program that was stopped and goes on: it finds the motors off, and must know who did that."""
    listen, go = Keeper._listen, threading.Event()

    def listen_late(self):
        while "lease" not in self._told:
            with self._changed:
                self._take_in()
            time.sleep(0.01)
        go.wait()
        listen(self)

    monkeypatch.setattr(Keeper, "_listen", listen_late)
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        env = spot_env(robot, keeper=True, keeper_silence=LONG)
        session = env.actuator_backend.session
        try:
            session.arm()
            os.kill(session.lease.keeper.process_id, signal.SIGTERM)
            assert wait_for(lambda: robot.status()["motors"] == "off")
            assert "has taken the robot from us: the keeper was asked to end" in session.lease.keeper_problem()
        finally:
            go.set()
            env.close()
        assert is_safe(robot)


@pytest.mark.slow
def test_a_keeper_outlives_a_voided_login_and_leaves_others_their_lease():
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        notes = Notes()
        env = spot_env(robot, keeper=True, keeper_silence=LONG, listeners=(notes,))
        session = env.actuator_backend.session
        try:
            session.arm()
            robot.inject("expired_token")
            session.log_in_again()
            robot.inject("lease_theft")
        finally:
            env.close()
        assert robot.status()["leases"] == {"body": "tablet"} and robot.status()["motors"] == "on"
        assert notes.events[-1][1]["motors"].startswith("left to the owner of the lease, tablet")


@pytest.mark.slow
def test_a_keeper_does_not_take_a_lease_from_others():
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        robot.inject("lease_theft")
        env = spot_env(robot, keeper=True)
        try:
            with pytest.raises(BackendError, match="somebody else has the robot's lease"):
                env.reset(seed=0)
        finally:
            env.close()
        assert robot.status()["leases"] == {"body": "tablet"} and robot.status()["motors"] == "off"


def test_who_has_a_keeper():
    real = {"hostname": "10.9.8.7", "stiffness": 60.0, "damping": 2.0}
    assert SpotRobotSettings(**real).has_keeper
    assert not SpotRobotSettings(**real, keeper=False).has_keeper
    assert not SpotRobotSettings(**real, shadow=True).has_keeper


# --- the keeper's ear ------------------------------------------------------------------------------------------------


@pytest.fixture
def ear():
    """A keeper that listens, the end on which its driver speaks, and the one on which it hears."""
    theirs, ours = os.pipe(), os.pipe()
    yield Keeping(theirs[0], ours[1]), theirs[1], ours[0]
    for number in (theirs[0], *ours):
        os.close(number)


def write(number, *words):
    os.write(number, "".join(json.dumps(word) + "\n" for word in words).encode())


def test_the_keeper_hears_the_end_and_that_all_is_done(ear):
    keeping, speak, _ = ear
    write(speak, {"hostname": "somewhere"}, {"beat": True})
    assert keeping.order() == {"hostname": "somewhere"}
    write(speak, {"beat": True})
    write(speak, {"done": True})
    assert keeping.watch(LONG) is None
    os.close(speak)
    assert keeping.watch(LONG) == "the program that drove the robot has ended"
    assert keeping.order() == {}


def test_the_keeper_hears_silence_but_first_what_was_said(ear):
    keeping, speak, hear = ear
    write(speak, {"beat": True}, {"beat": True})
    begin = time.monotonic()
    assert "no sign of life for 0.3 s" in keeping.watch(0.3)
    assert time.monotonic() - begin >= 0.3
    assert json.loads(os.read(hear, 1000).splitlines()[0]) == {"beat": True}
    write(speak, {"done": True})
    assert keeping.watch(0.0) is None  # it lay there all the time
    os.close(speak)


def test_a_keeper_that_is_asked_to_end_takes_over(ear):
    keeping, speak, _ = ear
    threading.Timer(0.1, lambda: keeping.ask_to_end(signal.SIGTERM, None)).start()
    assert keeping.watch(LONG) == "the keeper was asked to end"
    os.close(speak)
