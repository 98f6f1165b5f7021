"""The two streams without a network: when commands end, what is never sent, which states are never used."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("bosdyn.client")

from spot_stream_helpers import Commands, States, command, sender

from adc_wrappers.backends.spot.listening import Repeater
from adc_wrappers.backends.spot.messages import JointOrder, seconds
from adc_wrappers.backends.spot.signals import uninterrupted
from adc_wrappers.backends.spot.streams import StateReceiver


class Clock:
    """The robot's clock, which stands where it is put and counts how often the sender has looked at it."""

    def __init__(self, now):
        self.now = now
        self.looks = 0

    def __call__(self):
        self.looks += 1
        return self.now

    def wait_for(self, looks):
        """Wait until the sender has looked so many times more: all that it made of earlier looks but one is sent."""
        until, deadline = self.looks + looks, time.monotonic() + 30.0
        while self.looks < until:
            assert time.monotonic() < deadline, "the sender has stopped"
            time.sleep(0.001)


def test_sending_again_cannot_make_old_data_young():
    clock = Clock(100.0)
    robot = Commands()
    sending = sender(robot, clock)
    sending.start(command(key=2, source=100.0), 30.0)
    sending.put(command(source=100.0))  # an action; what opens the stream is a hold, see below
    while (first := robot.messages.get(timeout=30)).user_command_key == 2:
        pass
    assert seconds(first.end_time) == pytest.approx(100.05)
    clock.now = 100.06
    deadline = time.monotonic() + 30
    while (end := seconds(robot.messages.get(timeout=30).end_time)) < 100.079 and time.monotonic() < deadline:
        assert end <= 100.11
    assert end == pytest.approx(100.08)  # not 100.11: the state is too old by then
    clock.now = 100.09
    clock.wait_for(looks=2)
    while not robot.messages.empty():
        robot.messages.get()
    clock.wait_for(looks=20)
    assert robot.messages.empty()  # too old: nothing is sent any more
    sending.put(command(key=4, source=100.09))
    assert robot.messages.get(timeout=30).user_command_key == 4
    sending.stop()
    assert sending.ended is not None and "INACTIVE" in sending.ended


def test_in_lockstep_every_command_is_sent_once():
    robot = Commands()
    sending = sender(robot, lambda: 100.0, period=None)
    assert sending.start(command(key=1), 30.0)
    assert robot.messages.get(timeout=30).user_command_key == 1
    sending.put(command(key=2))
    assert robot.messages.get(timeout=30).user_command_key == 2
    time.sleep(0.02)  # ten turns of a sender that repeats: what was sent twice would be there
    assert robot.messages.empty()
    sending.stop()


def test_a_stream_that_the_robot_closes_says_why():
    robot = Commands()
    sending = sender(robot, lambda: 100.0)
    robot.closing.set()
    sending.start(command(), 30.0)
    deadline = time.monotonic() + 30
    while sending.ended is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "STATUS_INACTIVE not in joint control" in sending.ended
    sending.stop()


def test_the_echo_lag_counts_from_the_oldest_that_is_not_acknowledged():
    robot = Commands()
    sending = sender(robot, lambda: 100.0)
    assert sending.start(command(key=5), 30.0)
    robot.messages.get(timeout=30)
    assert sending.echo_lag() == 0.0  # not yet known to acknowledge
    sending.heard = True
    time.sleep(0.03)  # the lag itself
    assert sending.echo_lag() >= 0.03
    sending.acknowledge(5, time.monotonic())
    assert sending.echo_lag() == 0.0 and len(sending.echo_times) == 1
    sending.stop()


@pytest.fixture
def states():
    stream = States()
    seen = []
    receiver = StateReceiver(stream, JointOrder(), seen.append)
    yield stream, receiver, seen
    receiver.stop()


def settle(receiver, stream, stamp):
    stream.say(stamp)
    receiver.wait(lambda sample: sample.stamp >= stamp, 30.0)


def test_the_newest_state_is_kept(states):
    stream, receiver, seen = states
    for stamp in (10.0, 10.003, 10.006):
        settle(receiver, stream, stamp)
    assert receiver.latest.stamp == pytest.approx(10.006) and receiver.count == len(seen) == 3
    assert receiver.problem is None and receiver.age() >= 0.0
    assert receiver.robot_now >= 10.006


def test_a_state_twice_is_used_once(states):
    stream, receiver, seen = states
    for stamp in (10.0, 10.0, 10.003):
        settle(receiver, stream, stamp)
    assert receiver.count == len(seen) == 2 and receiver.problem is None


@pytest.mark.parametrize(("stamp", "check"), [(9.99, "order"), (5.0, "clock"), (19.9, "clock")])
def test_a_state_from_another_time_is_a_problem(states, stamp, check):
    stream, receiver, _ = states
    settle(receiver, stream, 10.0)
    stream.say(stamp)
    assert receiver.wait(lambda sample: False, 30.0) is None  # a problem ends the wait
    assert receiver.problem[0] == check
    assert receiver.latest.stamp == pytest.approx(max(10.0, stamp))  # an older one is never used


def test_a_late_state_is_old_even_when_it_has_just_come(states):
    stream, receiver, _ = states
    settle(receiver, stream, 10.0)
    time.sleep(0.2)  # the lateness itself
    settle(receiver, stream, 10.003)  # 200 ms after the first, made 3 ms after it
    assert receiver.age() > 0.15


def test_a_stream_that_ends_is_a_problem(states):
    stream, receiver, _ = states
    settle(receiver, stream, 10.0)
    stream.feed.put(None)
    receiver.wait(lambda sample: False, 30.0)
    assert receiver.problem == ("stream", "the robot closed the state stream")


def test_a_repeater_ends_when_told_and_by_itself():
    calls = []
    repeater = Repeater("test", 0.001, lambda: calls.append(1) or len(calls) < 3)
    deadline = time.monotonic() + 30
    while len(calls) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    repeater.stop()
    assert len(calls) == 3


def test_ctrl_c_waits_for_the_block():
    import os
    import signal

    done = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)  # a signal that did not wait would end the block here
            done.append(np.pi)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done
