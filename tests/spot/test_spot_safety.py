"""A robot's safety when the code around it fails: leases, questions without an answer, listeners, watchdogs."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("bosdyn.client")

from bosdyn.client.exceptions import LeaseUseError, TimedOutError
from bosdyn.client.lease import LeaseClient, LeaseNotOwnedByWallet, ResourceAlreadyClaimedError
from spot_robot_helpers import Notes, connection, nothing_left, spot_env, still_action
from spot_stream_helpers import Commands, command, sender

from adc_wrappers.backends.guard import PRACTICE_LIMITS, Guard
from adc_wrappers.backends.spot.driving import JointDriver
from adc_wrappers.backends.spot.fallback import Fallback
from adc_wrappers.backends.spot.leasing import BodyLease
from adc_wrappers.backends.spot.session import SpotSession, explained
from adc_wrappers.backends.spot.settings import SpotRobotSettings
from adc_wrappers.core.errors import BackendError
from adc_wrappers.spot_sim import PracticeRobot

UPRIGHT = SimpleNamespace(gravity=np.array([0.0, 0.0, -1.0]))


class Wallet(SpotSession):
    """A session whose lease client answers as it is told; nothing else is there."""

    def __init__(self, answer, owner="tablet"):
        self._settings = SimpleNamespace(patience=1.0)
        self.lease = BodyLease(lambda: self.client(None), 1.0)
        self.lease._alive = object()
        self._answer, self.owner = answer, owner
        self.orders = []

    def client(self, kind):
        def retain_lease(lease, timeout):
            if self._answer is not None:
                raise self._answer

        def acquire(resource, timeout):
            if self.owner is not None:
                response = SimpleNamespace(lease_owner=SimpleNamespace(client_name=self.owner))
                raise ResourceAlreadyClaimedError(response, "claimed")
            self._answer = None

        wallet = SimpleNamespace(get_lease=lambda name: name)
        return SimpleNamespace(retain_lease=retain_lease, acquire=acquire, lease_wallet=wallet)

    def health(self):
        return SimpleNamespace(problem=lambda battery: None, motors_off=False)

    def order_stand(self):
        self.orders.append("order stand")

    def stand(self):
        self.orders.append("stand")


@pytest.mark.parametrize("answer", [LeaseUseError(None, "older"), LeaseNotOwnedByWallet("body", None)])
def test_a_lease_that_is_somebody_elses_is_left_alone(answer):
    session = Wallet(answer)
    fallback = Fallback(session)
    check, reason = fallback.cause(PRACTICE_LIMITS)
    assert check == "lease" and type(answer).__name__ in reason
    told = fallback.act(check, UPRIGHT)
    assert told == "nothing" and fallback.finish(told, check, UPRIGHT) == "left to the new owner of the lease"
    assert session.orders == []


@pytest.mark.parametrize("answer", [LeaseUseError(None, "revoked"), LeaseNotOwnedByWallet("body", None)])
def test_a_lost_lease_that_nobody_has_is_taken_back_and_the_robot_is_told_to_stand(answer):
    session = Wallet(answer, owner=None)
    fallback = Fallback(session)
    check, _ = fallback.cause(10.0)
    assert check == "lease"
    told = fallback.act(check, UPRIGHT)
    assert told == "nothing" and fallback.finish(told, check, UPRIGHT) == "standing"
    assert session.orders == ["order stand", "stand"] and session.confirm_lease() is None


def test_a_lease_that_another_thread_uses_meanwhile_is_not_lost():
    """What was asked about is older then than the last use, and the robot says so."""
    session, leases = Wallet(LeaseUseError(None, "older")), iter([[1, 5], [1, 6], [1, 6]])
    asked = []

    def retain(lease, timeout):
        asked.append(lease)
        if lease == [1, 5]:
            raise LeaseUseError(None, "older")

    wallet = SimpleNamespace(get_lease=lambda name: next(leases))
    session.client = lambda kind: SimpleNamespace(retain_lease=retain, lease_wallet=wallet)
    assert session.confirm_lease() is None and asked == [[1, 5], [1, 6]]


def test_a_lease_that_nobody_answers_for_is_ours_and_the_robot_is_told_to_stand():
    session = Wallet(TimedOutError(None, "too late"))
    with pytest.raises(BackendError, match="asking about the lease failed: TimedOutError"):
        session.confirm_lease()
    fallback = Fallback(session)
    check, _ = fallback.cause(PRACTICE_LIMITS)
    assert check == "contact"
    told = fallback.act(check, UPRIGHT)
    assert told == "stand" and fallback.finish(told, check, UPRIGHT) == "standing"
    assert session.orders == ["order stand", "stand"]


def test_errors_of_the_sdks_wallet_are_explained_too():
    with pytest.raises(BackendError, match="standing failed: LeaseNotOwnedByWallet"), explained("standing"):
        raise LeaseNotOwnedByWallet("body", None)


@pytest.mark.slow
def test_a_stop_right_after_the_lease_was_taken_leaves_the_robot_to_its_new_owner():
    """The first command is refused; after that the SDK itself refuses to send any."""
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        notes = Notes()
        env = spot_env(robot, listeners=(notes,))
        env.reset(seed=0)
        env.step(still_action())
        robot.inject("lease_theft")
        env.task.backend.stop()
        env.close()
        outcomes = dict(notes.events)
        assert outcomes["fallback"] == {"outcome": "left to the new owner of the lease"}
        assert "left to the owner" in outcomes["closed"]["motors"]


@pytest.mark.slow
def test_a_lease_that_was_taken_and_given_back_is_ours_again_at_the_end():
    """Nobody would power the robot off otherwise."""
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        notes = Notes()
        env = spot_env(robot, listeners=(notes,))
        env.reset(seed=0)
        env.step(still_action())
        tablet = SpotSession(SpotRobotSettings(**connection(robot)))
        leases = tablet.client(LeaseClient)
        leases.return_lease(leases.take("body"))
        tablet.close()
        env.close()
        assert notes.events[-1] == ("closed", {"motors": "confirmed off"})
        assert robot.status()["motors"] == "off" and robot.status()["leases"] == {}


class Broken:
    """A listener whose disk is full."""

    def __init__(self):
        self.told = set()

    def __getattr__(self, name):
        def fail(*_):
            self.told.add(name)
            raise OSError("no space left on device")

        return fail


@pytest.mark.slow
def test_a_listener_that_fails_does_not_keep_the_robot_from_safety(caplog):
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        broken, notes = Broken(), Notes()
        env = spot_env(robot, listeners=(broken, notes))
        env.reset(seed=0)
        env.step(still_action())
        env.task.backend.stop()
        env.close()
        assert robot.status()["motors"] == "off"
        assert broken.told == {"state", "command", "event"} and "closed" in notes.names()
        assert ("fallback", {"outcome": "standing"}) in notes.events
        assert caplog.text.count("a listener failed in state()") == 1


def test_a_watchdog_that_breaks_stops_the_policy():
    halted = []
    driver = SimpleNamespace(
        halt=halted.append, _guard=Guard(PRACTICE_LIMITS, (1.0, 0.0, 0.0)), _newest=lambda: SimpleNamespace(stamp=3.0)
    )
    watch = JointDriver._halting(driver, lambda: 1 / 0)
    assert watch() is False
    assert halted[0].check == "watchdog" and "ZeroDivisionError" in halted[0].reason and halted[0].time == 3.0
    assert JointDriver._halting(driver, lambda: True)() is True and len(halted) == 1


class Silent(Commands):
    """A robot that never says that the stream is over."""

    def __init__(self):
        super().__init__()
        self.answer, self.all_taken = threading.Event(), threading.Event()

    def send_joint_control_commands(self, requests):
        response = super().send_joint_control_commands(requests)
        self.all_taken.set()
        self.answer.wait()
        return response


def test_the_fall_back_does_not_wait_for_a_robot_that_does_not_answer():
    robot = Silent()
    sending = sender(robot, lambda: 100.0)
    assert sending.start(command(source=100.0), 30.0)
    robot.messages.get(timeout=30)
    sending.stop(0.01)  # returns although the stream is still open
    assert sending.ended is None
    assert robot.all_taken.wait(30.0)  # and nothing more is sent
    robot.answer.set()
    sending.stop()
    assert "INACTIVE" in sending.ended
