"""Messages, joint order, estimation, take-over and settings of the hardware backend: no network."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("bosdyn.client")

from bosdyn.api import robot_state_pb2
from spot_stream_helpers import POSE, command, message

from adc_wrappers import make_env
from adc_wrappers.backends.guard import ROBOT_LIMITS, ByKind
from adc_wrappers.backends.limiter import LIMITERS, CommandLimiter
from adc_wrappers.backends.spot.connection import ask_credentials
from adc_wrappers.backends.spot.estimation import StateEstimator
from adc_wrappers.backends.spot.health import read_health
from adc_wrappers.backends.spot.messages import (
    STREAM_ORDER,
    JointOrder,
    build_request,
    check_named,
    read_sample,
)
from adc_wrappers.backends.spot.proof import make_key, write_key
from adc_wrappers.backends.spot.settings import SpotRobotSettings
from adc_wrappers.backends.spot.takeover import STIFF_STIFFNESS, gain_setpoints, pose_setpoints
from adc_wrappers.backends.spot_model import FOOT_NAMES, JOINT_NAMES, LINK_NAMES, SPOT
from adc_wrappers.backends.spot_model.mechanics import effective_inertia
from adc_wrappers.core.errors import BackendError


def test_the_45_numbers_of_a_message_are_those_of_the_simulator():
    from adc_wrappers.envs.spot.terms import observation

    env = make_env("spot-handstand", backend="mujoco", randomize=("pose", "velocity", "joints"))
    backend = env.actuator_backend
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(30):
        if env.step(rng.uniform(-1, 1, 12).astype(np.float32))[2]:  # it may fall, on soft joints
            env.reset()
        state = backend.state()
        feet = [LINK_NAMES.index(name) for name in FOOT_NAMES]
        touching = state.contact_forces[0, feet] > 1.0
        contacts = np.where(touching, 1, 2).tolist()
        read = StateEstimator().state(read_sample(message(state, contacts=contacts), JointOrder(), 0.0))
        last = np.zeros((1, 12))
        ours, theirs = (observation(s, backend.nominal_pose, last) for s in (read, state))
        assert np.abs(ours - theirs).max() < 1e-5  # single precision of joint values
        assert ((read.contact_forces[0, feet] > 1.0) == touching).all()
        if touching.any():
            assert abs(read.base_position[0, 2] - state.base_position[0, 2]) < 0.02  # feet sink in a little
    env.close()


def test_links_that_lie_on_the_ground_are_seen_to_touch_it():
    env = make_env("spot-handstand", backend="mujoco", randomize=False)
    backend = env.actuator_backend
    env.reset(seed=0)
    estimator = StateEstimator()
    for _ in range(200):  # it folds its legs and sits down
        backend.advance(np.tile([0.0, 1.35, -2.7], (1, 4)))
        state = backend.state()
        feet = state.contact_forces[0, [LINK_NAMES.index(name) for name in FOOT_NAMES]] > 1.0
        read = estimator.state(read_sample(message(state, contacts=np.where(feet, 1, 2)), JointOrder(), 0.0))
    truth, seen = (
        {name for name, force in zip(LINK_NAMES, s.contact_forces[0], strict=True) if force > 1.0}
        for s in (state, read)
    )
    assert truth - set(FOOT_NAMES), truth  # it lies on more than its feet
    assert truth <= seen and len(seen - truth) <= 4, (truth, seen)  # a hand's breadth of caution
    env.close()


def test_legs_that_stretch_in_the_air_touch_nothing():
    """A robot that hangs says of no foot that it touches; its legs reach below where they were at first."""
    backend = make_env("spot-handstand", backend="mujoco", randomize=False).actuator_backend
    state = backend.state()
    estimator, heights = StateEstimator(), []
    for share in np.linspace(0.0, 1.0, 20):
        pose = (1.0 - share) * np.tile([0.0, 1.35, -2.7], (1, 4)) + share * np.tile([0.0, 0.1, -0.3], (1, 4))
        hung = state._replace(joint_positions=pose)
        read = estimator.state(read_sample(message(hung, contacts=[2] * 4), JointOrder(), 0.0))
        assert not read.contact_forces.any()
        heights.append(read.base_position[0, 2])
    assert heights == sorted(heights) and heights[-1] > 0.5


def test_a_recorded_height_counts_from_the_ground_wherever_odometry_has_its_zero():
    env = make_env("spot-handstand", backend="mujoco", randomize=False)
    env.reset(seed=0)
    state = env.actuator_backend.state()
    shifted = state._replace(base_position=state.base_position - 5.0)
    sample = read_sample(message(shifted, contacts=[1] * 4), JointOrder(), 0.0)
    estimator = StateEstimator()
    np.testing.assert_array_equal(estimator.above_ground(sample).base_position, sample.base_position)  # not known yet
    seen = estimator.state(sample).base_position[0]
    np.testing.assert_array_equal(estimator.above_ground(sample).base_position, seen)
    assert seen[2] == pytest.approx(state.base_position[0, 2], abs=0.02)


def test_a_message_of_another_robot_is_refused():
    state = make_env("spot-handstand", backend="mujoco", randomize=False).actuator_backend.state()
    with pytest.raises(BackendError, match="19; it is not driven"):
        read_sample(message(state, joints=19), JointOrder(), 0.0)
    broken = message(state)
    broken.kinematic_state.odom_tform_body.rotation.w = 0.2
    with pytest.raises(BackendError, match="unit quaternion"):
        read_sample(broken, JointOrder(), 0.0)


@given(st.permutations(list(STREAM_ORDER)))
def test_joint_order_goes_by_name(stream):
    order = JointOrder(JOINT_NAMES, stream)
    numbers = {name: float(i) for i, name in enumerate(STREAM_ORDER)}
    there = order.from_stream([numbers[name] for name in stream])
    assert there.tolist() == [numbers[name.replace("_", ".")] for name in JOINT_NAMES]
    assert order.to_stream(there).tolist() == [numbers[name] for name in stream]


def test_foreign_joints_and_a_stream_in_another_order_are_refused():
    with pytest.raises(BackendError, match="trained for"):
        JointOrder(JOINT_NAMES, [*STREAM_ORDER[:-1], "arm0.sh0"])
    named = dict(zip(STREAM_ORDER, POSE.tolist(), strict=True))
    check_named({**named, "arm0.sh0": 1.0}, POSE, 0.01)
    with pytest.raises(BackendError, match="joint order: fl_hy"):
        check_named(named, POSE[[0, 2, 1, *range(3, 12)]], 0.01)
    with pytest.raises(BackendError, match="lacks the joints fl_hx"):
        check_named({"fr.hx": 0.0}, POSE, 0.01)


def test_every_message_is_complete():
    request = build_request(command(), JointOrder(), end_time=100.07, client_name="me", velocity_limit=20.0)
    update = request.joint_command
    assert request.header.client_name == "me" and request.header.request_timestamp.seconds > 0
    assert update.end_time.ToNanoseconds() == 100_070_000_000
    assert len(update.position) == len(update.velocity) == len(update.load) == 12
    assert len(update.gains.k_q_p) == len(update.gains.k_qd_p) == 12
    assert update.user_command_key == 3 and update.velocity_safety_limit.value == 20.0
    assert np.allclose(update.position, POSE)
    with pytest.raises(BackendError, match="not finite"):
        build_request(
            command(load=np.full(12, np.nan)), JointOrder(), end_time=1.0, client_name="me", velocity_limit=1.0
        )


@given(steps=st.integers(1, 60), seed=st.integers(0, 1000))
def test_the_take_over_has_no_bump(steps, seed):
    """Its first setpoint asks for the torque that the joints bear; every gain step keeps that torque at the pose."""
    rng = np.random.default_rng(seed)
    position, load = POSE + rng.uniform(-0.2, 0.2, 12), rng.uniform(-20.0, 20.0, 12)
    setpoints = list(pose_setpoints(steps, position, load, POSE))
    first, last = setpoints[0], setpoints[-1]
    assert np.allclose(first.stiffness * (first.position - position), load)
    assert np.allclose(last.stiffness * (last.position - POSE), load)
    stiffness, damping = np.full(12, 40.0), np.full(12, 3.0)
    softer = list(gain_setpoints(steps, POSE, load, stiffness, damping))
    assert np.allclose(softer[-1].stiffness, stiffness) and np.allclose(softer[-1].damping, damping)
    for setpoint in softer:
        assert np.allclose(setpoint.stiffness * (setpoint.position - POSE), load)
        assert (setpoint.stiffness <= STIFF_STIFFNESS + 1e-9).all()
    moved = np.diff([last.position, *(setpoint.position for setpoint in softer)], axis=0)
    assert np.allclose(moved, moved[0])  # no step is larger than it must be


@given(load=st.floats(-60.0, 60.0))
def test_the_take_over_ends_inside_the_range_that_a_command_limiter_begins_in(load):
    (last,) = gain_setpoints(1, POSE, np.full(12, load), np.full(12, 40.0), np.full(12, 3.0))
    limiter = CommandLimiter(LIMITERS["robot"], SPOT, 0.02, last.position[None])
    inside = limiter.around(last.position[None], ByKind(hx=0.0, hy=0.0, kn=0.0), 0.0)
    assert np.array_equal(inside[0], last.position)
    borne = 40.0 * (last.position - POSE)
    assert (np.abs(borne) <= abs(load) + 1e-9).all() and (borne * load >= 0.0).all()


def test_effective_inertia_from_the_table_is_the_engines():
    from adc_wrappers.backends.robots import make_robot_backend

    assert np.allclose(effective_inertia(), make_robot_backend("mujoco", 1).effective_inertia(), rtol=1e-12)


def healthy():
    """What a robot says when all is well."""
    state = robot_state_pb2.RobotState()
    state.power_state.motor_power_state = robot_state_pb2.PowerState.MOTOR_POWER_STATE_ON
    state.estop_states.add(name="tablet", state=robot_state_pb2.EStopState.STATE_NOT_ESTOPPED)
    battery = state.battery_states.add()
    battery.charge_percentage.value = 80.0
    battery.temperatures.extend([25.0, 31.0])
    for name in JOINT_NAMES:
        state.system_state.motor_temperatures.add(name=name.replace("_", "."), temperature=40.0)
    return state


def test_health_names_what_is_wrong():
    state = robot_state_pb2.RobotState()
    assert read_health(state).motor_power == "UNKNOWN" and not read_health(state).motors_off
    assert read_health(healthy()).problem(ROBOT_LIMITS) is None
    state = healthy()
    state.power_state.motor_power_state = robot_state_pb2.PowerState.MOTOR_POWER_STATE_OFF
    assert read_health(state).motors_off
    assert read_health(state).problem(ROBOT_LIMITS)[0] == "power"
    assert read_health(state).problem(ROBOT_LIMITS, driving=False) is None
    state.battery_states.add(temperatures=[20.0]).charge_percentage.value = 7.0
    told = ("battery", "battery at 7 %, at least 20 %")
    assert read_health(state).problem(ROBOT_LIMITS, driving=False) == told
    assert read_health(state).problem(None, driving=False) is None
    state.behavior_fault_state.faults.add(cause=robot_state_pb2.BehaviorFault.CAUSE_FALL)
    assert "CAUSE_FALL" in read_health(state).problem(ROBOT_LIMITS)[1]
    state.estop_states[0].state = robot_state_pb2.EStopState.STATE_ESTOPPED
    assert read_health(state).problem(ROBOT_LIMITS) == ("estop", "the E-stop is pressed: tablet")


def without_charge(state):
    state.battery_states.add(temperatures=[20.0])  # a second battery that says nothing of its charge


def without_battery(state):
    state.battery_states[0].status = robot_state_pb2.BatteryState.STATUS_MISSING


def with_silent_estop(state):
    state.estop_states[0].state = robot_state_pb2.EStopState.STATE_UNKNOWN


def without_a_motor(state):
    del state.system_state.motor_temperatures[4]


def with_a_motor_of_no_number(state):
    state.system_state.motor_temperatures[4].temperature = math.nan


def with_a_hot_motor(state):
    state.system_state.motor_temperatures[4].temperature = 71.0


def with_a_hot_battery(state):
    state.battery_states[0].temperatures[1] = 56.0


def with_a_fault_of_no_severity(state):
    state.system_fault_state.faults.add(name="x")


@pytest.mark.parametrize(
    ("change", "check", "reason"),
    [
        (without_charge, "reading", "charge of a battery is not reported"),
        (without_battery, "reading", "charge of a battery is not reported"),
        (lambda state: state.battery_states[0].ClearField("temperatures"), "reading", "temperature of a battery"),
        (with_silent_estop, "reading", r"E-stop is unknown \(tablet\)"),
        (lambda state: state.ClearField("estop_states"), "reading", "E-stop is unknown"),
        (without_a_motor, "reading", "fr_hy"),
        (with_a_motor_of_no_number, "reading", "motors are not reported"),
        (with_a_hot_motor, "temperature", "motor fr_hy at 71 °C, at most 70 °C"),
        (with_a_hot_battery, "temperature", "battery at 56 °C, at most 55 °C"),
        (with_a_fault_of_no_severity, "fault", "system fault x"),
    ],
)
def test_a_robot_that_is_hot_or_does_not_say_is_not_driven(change, check, reason):
    state = healthy()
    change(state)
    found = read_health(state).problem(ROBOT_LIMITS)
    assert found[0] == check and re.search(reason, found[1])


def test_warnings_are_listed_and_stop_nothing():
    state = healthy()
    state.system_fault_state.faults.add(name="dusty", severity=robot_state_pb2.SystemFault.SEVERITY_WARN)
    state.service_fault_state.faults.add(
        severity=robot_state_pb2.SystemFault.SEVERITY_WARN
    ).fault_id.fault_name = "slow"
    health = read_health(state)
    assert [text.split()[2] for text in health.warnings] == ["dusty", "slow"] and not health.faults
    assert health.problem(ROBOT_LIMITS) is None


def test_readings_that_nobody_asks_for_may_be_missing():
    state = healthy()
    state.ClearField("system_state")
    state.battery_states[0].ClearField("temperatures")
    unasked = replace(ROBOT_LIMITS, motor_temperature=None, battery_temperature=None)
    assert read_health(state).problem(unasked) is None


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"hostname": "10.0.0.3"}, "nothing is assumed for a real robot"),
        ({"hostname": "10.0.0.3", "stiffness": 60.0, "damping": 2.0, "clock": "lockstep"}, "needs a practice robot"),
        ({"hostname": "127.0.0.1"}, "nothing is assumed for a real robot"),  # the end of a tunnel, perhaps
        ({"hostname": "127.0.0.1", "stiffness": 60.0, "damping": 2.0, "clock": "lockstep"}, "needs a practice robot"),
        ({"hostname": "127.0.0.1", "certificate": "ca.pem", "settle_seconds": math.nan}, "settle_seconds"),
        ({"hostname": "127.0.0.1", "stiffness": 60.0}, "got one of them"),
        ({"hostname": "127.0.0.1", "stiffness": [60.0] * 11, "damping": 1.0}, "one per joint"),
        ({"hostname": "127.0.0.1", "port": 0}, "port"),
        ({"hostname": ""}, "address"),
        ({"hostname": "127.0.0.1", "time_to_live": 0.0}, "time_to_live"),
    ],
)
def test_settings_that_are_off_are_refused(settings, reason):
    with pytest.raises(BackendError, match=reason):
        SpotRobotSettings(**settings)


def test_a_real_robot_gets_the_robots_limits_and_secrets_are_not_shown(tmp_path):
    real = SpotRobotSettings(hostname="10.0.0.3", stiffness=60.0, damping=2.0, credentials=lambda: ("a", "secret"))
    assert max(real.guard_limits.slew) < 1.0 and not real.is_practice
    assert "credentials" not in repr(real)
    write_key(tmp_path, make_key())
    assert SpotRobotSettings(hostname="localhost", certificate=tmp_path / "ca.pem").guard_limits.slew.hx > 1.0
    assert SpotRobotSettings(hostname="localhost", stiffness=60.0, damping=2.0).guard_limits == real.guard_limits


def test_credentials_come_from_the_environment_or_nowhere(monkeypatch):
    monkeypatch.setenv("BOSDYN_CLIENT_USERNAME", "me")
    monkeypatch.setenv("BOSDYN_CLIENT_PASSWORD", "secret")
    assert ask_credentials() == ("me", "secret")
    monkeypatch.delenv("BOSDYN_CLIENT_PASSWORD")
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(BackendError, match="never taken from arguments"):
        ask_credentials()
