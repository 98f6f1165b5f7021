"""Parts of the practice robot that need no server: leases, E-stop, clocks, the link, motions, settings."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("bosdyn.client")
pytest.importorskip("cryptography")

from hypothesis import given, settings
from hypothesis import strategies as st

from adc_wrappers.backends.spot_model import NOMINAL_POSE
from adc_wrappers.spot_sim import PracticeRobotError, PracticeSettings
from adc_wrappers.spot_sim.authority import (
    BODY,
    Accounts,
    EstopBoard,
    EstopEndpoint,
    LeaseBook,
    LeaseVerdict,
    StopLevel,
)
from adc_wrappers.spot_sim.clock import SECOND, SimulatedClock, WallClock
from adc_wrappers.spot_sim.condition import Mode, Motors
from adc_wrappers.spot_sim.messages import streamed_state
from adc_wrappers.spot_sim.motion import SIT_POSE, STAND_POSE, Limp, Move, PdTargets
from adc_wrappers.spot_sim.physics import SpotPhysics
from adc_wrappers.spot_sim.readings import StateLink, between, rotation
from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.wire import nanoseconds, set_time, timestamp, timestamp_pb2

ZERO = np.zeros(12)

# --- leases ----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=8))
def test_uses_of_a_lease_never_go_back(tails):
    book = LeaseBook(timeout=60.0)
    book.take("me")
    last = (1,)
    for tail in tails:
        sequence = (1, *tail)
        verdict = book.use(BODY, book.epoch, sequence)
        assert (verdict is LeaseVerdict.STATUS_OK) == (sequence >= last)
        last = max(last, sequence)
    assert book.used == last


@settings(deadline=None)
@given(st.lists(st.sampled_from(["take", "acquire", "return"]), max_size=12))
def test_at_most_one_holder_and_old_leases_stay_void(actions):
    book, issued = LeaseBook(timeout=60.0), []
    for number, action in enumerate(actions):
        name = f"client {number}"
        if action == "take":
            book.take(name)
            issued.append(book.root)
        elif action == "acquire":
            free = book.owner is None
            assert book.acquire(name) == free
            issued += [book.root] if free else []
        else:
            book.give_back(book.epoch, [book.root])
    for root in issued:
        valid = book.judge(BODY, book.epoch, [root]) is LeaseVerdict.STATUS_OK
        assert valid == (root == book.root and book.owner is not None)


def test_a_part_of_a_lease_that_was_handed_on_is_void_once_its_owner_acts():
    book = LeaseBook(timeout=60.0)
    book.take("keeper")
    assert book.use(BODY, book.epoch, [1, 1, 0]) is LeaseVerdict.STATUS_OK  # the driver, below the keeper's 1.1
    assert book.use(BODY, book.epoch, [1, 1, 1]) is LeaseVerdict.STATUS_OK
    assert book.use(BODY, book.epoch, [1, 1]) is LeaseVerdict.STATUS_OLDER  # what lies above is no newer
    assert book.retain(BODY, book.epoch, [1, 1]) is LeaseVerdict.STATUS_OK  # but keeps it alive
    assert book.retain(BODY, book.epoch, [1, 1, 0]) is LeaseVerdict.STATUS_OLDER
    assert book.use(BODY, book.epoch, [1, 2]) is LeaseVerdict.STATUS_OK  # the keeper acts
    for judge in (book.use, book.retain):
        assert judge(BODY, book.epoch, [1, 1, 2]) is LeaseVerdict.STATUS_OLDER
    assert not book.give_back(book.epoch, [1, 1, 2])
    assert book.give_back(book.epoch, [1])


@settings(deadline=None)
@given(*[st.lists(st.integers(0, 3), min_size=1, max_size=3)] * 2)
def test_leases_are_compared_as_the_sdk_compares_them(used, asked):
    pytest.importorskip("bosdyn.client")
    from bosdyn.api.lease_pb2 import Lease as Message
    from bosdyn.client.lease import Lease

    book = LeaseBook(timeout=60.0)
    book.take("me")
    book.use(BODY, book.epoch, [1, *used])
    first, second = (Lease(Message(resource=BODY, epoch="e", sequence=[1, *tail])) for tail in (used, asked))
    result = second.compare(first)
    for judge, above in ((book.retain, True), (book.use, False)):
        expected = Lease.compare_result_to_lease_use_result_status(result, allow_super_leases=above)
        assert judge(BODY, book.epoch, [1, *asked]).value == expected


def test_what_is_no_lease_of_this_robot():
    book = LeaseBook(timeout=60.0)
    book.take("me")
    assert book.use(BODY, book.epoch, []) is LeaseVerdict.STATUS_INVALID_LEASE
    assert book.use("arm", book.epoch, [1]) is LeaseVerdict.STATUS_UNMANAGED
    assert book.use(BODY, "another boot", [1]) is LeaseVerdict.STATUS_WRONG_EPOCH
    assert book.use(BODY, book.epoch, [2]) is LeaseVerdict.STATUS_INVALID_LEASE
    book.take("other")
    assert book.use(BODY, book.epoch, [1, 7]) is LeaseVerdict.STATUS_OLDER
    book.give_back(book.epoch, [2])
    assert book.use(BODY, book.epoch, [2]) is LeaseVerdict.STATUS_REVOKED


# --- E-stop, login ---------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.sampled_from(list(StopLevel)), max_size=4), st.sampled_from(list(StopLevel)))
def test_the_hardest_stop_counts(levels, pressed):
    board = EstopBoard()
    board.configure([EstopEndpoint(role="r", name=str(i), timeout=60.0) for i in range(len(levels))])
    for endpoint, level in zip(board.endpoints, levels, strict=True):
        answer = endpoint.challenge ^ (2**64 - 1)
        assert board.check_in(endpoint, endpoint.challenge, answer, level)
    board.pressed = pressed
    assert board.level == min([*levels, pressed])


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_only_the_right_answer_to_the_present_challenge_counts(challenge, response):
    board = EstopBoard()
    board.configure([EstopEndpoint(role="r", name="n", timeout=60.0)])
    (endpoint,) = board.endpoints
    right = challenge == endpoint.challenge and response == endpoint.challenge ^ (2**64 - 1)
    assert board.check_in(endpoint, challenge, response, StopLevel.NONE) == right
    assert board.level is (StopLevel.NONE if right else StopLevel.CUT)


def test_silence_stops_harder_and_harder():
    endpoint = EstopEndpoint(role="r", name="n", timeout=2.0, cut_timeout=3.0, level=StopLevel.NONE, heard=0.0)
    assert [endpoint.effective_level(t) for t in (1.0, 2.5, 3.5)] == [4, 2, 1]
    endpoint.cut_timeout = 0.0
    assert [endpoint.effective_level(t) for t in (2.5, 5.0, 6.0)] == [2, 2, 1]


def test_tokens():
    accounts = Accounts("me", "secret")
    assert accounts.log_in("me", "wrong") is None and accounts.log_in("you", "secret") is None
    token = accounts.log_in("me", "secret")
    assert token is not None and accounts.valid(token) and not accounts.valid("")
    accounts.expire()
    assert not accounts.valid(token) and accounts.renew(token) is None


# --- time and states -------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(-(10**19), 10**19))
def test_times_survive_the_wire(value):
    message = timestamp_pb2.Timestamp()
    set_time(message, value)
    assert nanoseconds(message) == value
    assert nanoseconds(timestamp(abs(value))) == abs(value)


def test_clocks_jump_and_slip():
    clock = SimulatedClock()
    clock.elapsed = 5
    before = clock.now()
    clock.jump(-7)
    assert clock.now() == before - 7
    wall = WallClock(-199.0)
    first, begun = wall.now(), wall.elapsed()
    wall.slip(SECOND)
    assert wall.now() - first < SECOND and wall.elapsed() < begun


@settings(deadline=None)
@given(
    st.integers(0, 30), st.integers(0, 10), st.booleans(),
    st.lists(st.sampled_from(["lose", "delay", "reorder", "nothing"]), max_size=30),
)  # fmt: skip
def test_a_link_shows_no_state_before_its_time(length, delay, resend, faults):
    link = StateLink(resend, seed=0)
    subscription = link.open()
    seen = []
    subscription.put = seen.append
    for now in range(len(faults)):
        kind = faults[now]
        if kind == "lose":
            link.lose(now + length, 0.5)
        elif kind == "delay":
            link.delay(now + length, delay)
        elif kind == "reorder":
            link.reorder(now + length)
        link.publish(now, now)
        assert all(frame <= now for frame in seen)
    if set(faults) <= {"nothing"}:
        assert seen == list(range(len(faults)))


def test_between_two_readings():
    physics = SpotPhysics(PracticeSettings())
    first = physics.reading
    physics.step(Limp(0).order(0))
    second = physics.reading
    middle = between(first, second, 1_000_000)
    assert middle.elapsed == 1_000_000
    np.testing.assert_allclose(middle.positions, (first.positions + second.positions) / 2)
    assert np.linalg.norm(middle.base_quaternion) == pytest.approx(1.0)
    assert between(first, second, second.elapsed) is second


@settings(deadline=None)
@given(st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 0.1))
def test_rotations_are_rotations(quaternion):
    q = np.array(quaternion) / np.linalg.norm(quaternion)
    np.testing.assert_allclose(rotation(q) @ rotation(q).T, np.eye(3), atol=1e-12)


# --- motions and the hidden truth ------------------------------------------------------------------------------------


def stand_up(**options):
    physics = SpotPhysics(PracticeSettings(**options))
    move = Move(STAND_POSE, physics.reading)
    while not move.finished(physics.elapsed):
        physics.step(move.order(physics.elapsed))
    return physics


def test_a_move_begins_with_the_torque_the_joints_have():
    physics = stand_up()
    held = physics.reading.torques
    physics.step(Move(SIT_POSE, physics.reading).order(physics.elapsed))
    np.testing.assert_allclose(physics.reading.torques, held, atol=1.0)
    assert np.abs(held).max() > 5.0  # a hold at the measured pose would have begun with none


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(-20.0, 20.0), min_size=12, max_size=12), st.floats(0.5, 80.0))
def test_a_load_is_a_torque_whatever_the_stiffness(load, stiffness):
    """τ = K (q_d − q) + B (v − q̇) + load, with q_d = q and v = q̇ at first: the load alone, within the limits."""
    physics = SpotPhysics(PracticeSettings())
    reading = physics.reading
    for gain in (stiffness, 0.0):
        order = PdTargets(reading.positions, ZERO, np.array(load), np.full(12, gain), ZERO)
        twin = SpotPhysics(PracticeSettings())
        twin.step(order)
        np.testing.assert_allclose(twin.reading.torques, load, atol=1e-4)


def torque(**options):
    """Torque at the first step after a target 0.1 rad away."""
    physics = SpotPhysics(PracticeSettings(**options))
    gains = np.full(12, 60.0), np.full(12, 2.0)
    physics.step(PdTargets(physics.reading.positions + 0.1, ZERO, ZERO, *gains))
    return physics.reading.torques


def test_the_hidden_gain_scale_acts():
    np.testing.assert_allclose(torque(gain_scale=2 / 3), 2 / 3 * torque(), rtol=1e-9)


def test_the_hidden_delay_acts():
    np.testing.assert_allclose(torque(command_delay=2), 0.0, atol=1e-9)


def test_the_hidden_friction_acts():
    def angle(**options):
        physics = SpotPhysics(PracticeSettings(**options))
        order = PdTargets(np.array(NOMINAL_POSE), ZERO, ZERO, np.full(12, 40.0), np.full(12, 1.0))
        for _ in range(25):
            physics.step(order)
        return np.abs(physics.reading.positions - SIT_POSE).max()

    free = angle()
    assert angle(joint_friction=5.0) < 0.9 * free
    assert angle(viscous_friction=10.0) < 0.9 * free


def test_noise_is_seeded_and_only_in_the_message():
    seen = []
    for seed in (5, 5, 6):
        options = PracticeSettings(position_noise=0.01, velocity_noise=0.1, seed=seed)
        robot = SimulatedSpot(options, "password", streamed_state)
        message = streamed_state(robot, robot.physics.reading)
        seen.append(np.array(message.joint_states.position))
        assert 0.0 < np.abs(seen[-1] - robot.physics.reading.positions).max() < 0.06
        assert 0.0 < np.abs(np.array(message.joint_states.velocity) - robot.physics.reading.velocities).max() < 0.6
    np.testing.assert_array_equal(seen[0], seen[1])
    assert (seen[0] != seen[2]).any()


def test_targets_are_saturated_only_if_asked():
    far = np.full(12, 3.0)
    gains = np.full(12, 5.0), ZERO
    torques = []
    for saturate in (False, True):
        physics = SpotPhysics(PracticeSettings(saturate_targets=saturate))
        physics.step(PdTargets(far, ZERO, ZERO, *gains))
        torques.append(physics.reading.torques.copy())
    assert (np.abs(torques[1]) < np.abs(torques[0])).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clock": "lock"}, "Did you mean 'lockstep'"),
        ({"step": 0.003}, "multiple of 0.002"),
        ({"command_delay": 5}, "0 to 4"),
        ({"gain_scale": float("nan")}, "gain_scale"),
        ({"battery": 101.0}, "0 to 100"),
        ({"gain_scal": 1.0}, "Did you mean 'gain_scale'"),
        ({"username": ""}, "username"),
    ],
)
def test_settings_that_are_off(options, message):
    with pytest.raises(PracticeRobotError, match=message):
        PracticeSettings.make(options)


# --- the robot as a whole --------------------------------------------------------------------------------------------

ACTIONS = ("power_on", "stand", "sit", "freeze", "enter_joint_mode", "self_right", "power_off_safely", "cut_power")
EVENTS = ("fault", "clear", "estop", "settle_then_cut", "release", "lose_lease", "time")


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from(ACTIONS + EVENTS), max_size=8))
def test_whatever_happens_the_robot_can_be_switched_off(words):
    robot = SimulatedSpot(PracticeSettings(), "password", streamed_state)
    robot.power_on()
    robot.settle()
    for word in words:
        _act(robot, word)
        robot.watch()
        assert (robot.mode is Mode.OFF) == (robot.motors is not Motors.ON)
        if robot.estops.level is StopLevel.CUT:
            assert robot.motors is Motors.OFF
        if robot.mode is Mode.JOINT:
            assert not robot.faults
    robot.power_off_safely()
    robot.settle(20.0)
    assert robot.motors is Motors.OFF and robot.mode is Mode.OFF and not robot.busy


def _act(robot, word):
    """Do what a service would do, or refuse it as it would."""
    if word == "fault":
        robot.raise_fault("unknown")
    elif word == "clear" and robot.faults:
        robot.clear_fault(robot.faults[0].number)
    elif word in ("estop", "settle_then_cut"):
        robot.estops.pressed = StopLevel.CUT if word == "estop" else StopLevel.SETTLE_THEN_CUT
    elif word == "release":
        robot.estops.pressed = StopLevel.NONE
    elif word == "time":
        robot.settle()
    elif word == "power_on":
        if robot.estops.level is StopLevel.NONE:
            robot.power_on()
    elif word in ("cut_power", "power_off_safely", "lose_lease") or (word in ACTIONS and _obeys(robot)):
        getattr(robot, word)()


def _obeys(robot):
    return robot.motors is Motors.ON and not robot.faults and robot.estops.level is StopLevel.NONE
