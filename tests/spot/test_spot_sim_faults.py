"""Every fault of the practice robot, by what a client sees of it."""

from __future__ import annotations

import grpc
import pytest

pytest.importorskip("bosdyn.client")
pytest.importorskip("cryptography")

from bosdyn.api import robot_state_pb2
from bosdyn.client import UnauthenticatedError
from bosdyn.client.exceptions import LeaseUseError
from bosdyn.client.license import LicenseClient
from bosdyn.client.robot_command import BehaviorFaultError, RobotCommandBuilder, UnsupportedError, blocking_stand
from bosdyn.util import timestamp_to_nsec
from hypothesis import given, settings
from hypothesis import strategies as st
from spot_sim_helpers import EXPIRED, INACTIVE, INVALID, Client

from adc_wrappers.spot_sim import FAULTS, PracticeRobotError
from adc_wrappers.spot_sim.faults import check_fault


def stamp(state):
    return timestamp_to_nsec(state.joint_states.acquisition_timestamp)


def whole(client):
    return client.robot.ensure_client("robot-state").get_robot_state()


def power_off(client, robot):
    """Whatever happened, the motors can be switched off, and nothing stays open."""
    client.robot.power_off(cut_immediately=False, timeout_sec=60, update_frequency=20)
    assert robot.status()["motors"] == "off" and robot.status()["streams"]["command"] == 0


def test_lost_states_are_missing_and_the_next_one_comes(robot, driving):
    first = stamp(driving.state)
    robot.inject("state_loss", duration=0.06)
    for _ in range(4):
        driving.send(driving.message(ttl=1.0))
    state = driving.states.get()
    assert stamp(state) == first + 4 * 20_000_000


def test_delayed_states_carry_old_stamps(robot, driving):
    for _ in range(5):
        driving.step()
    now = stamp(driving.state)
    robot.inject("state_delay", duration=10.0, delay=0.06)
    ages = []
    for step in range(1, 9):
        driving.send(driving.message(ttl=1.0))
        ages.append(now + step * 20_000_000 - stamp(driving.states.get()))
    assert ages == [20_000_000, 40_000_000, 60_000_000] + [60_000_000] * 5


def test_reordered_states_come_with_the_one_before_behind_them(robot, driving):
    now = stamp(driving.state)
    robot.inject("state_reorder", duration=10.0)
    driving.send(driving.message())
    driving.send(driving.message())
    seen = [(stamp(driving.states.get()) - now) // 20_000_000 for _ in range(4)]
    assert seen == [1, 0, 2, 1]


def test_lost_commands_leave_the_old_one_in_force_until_it_expires(robot, driving):
    key = driving.key
    robot.inject("command_loss", duration=10.0)
    for _ in range(3):
        driving.send(driving.message(ttl=1.0))
    for _ in range(3):
        assert driving.states.get().last_command.user_command_key == key
    for _ in range(10):  # the old command's 0.2 s are over
        driving.send(driving.message(ttl=1.0))
    assert driving.ending() == EXPIRED
    assert robot.status()["mode"] == "stand"
    power_off(driving, robot)


@pytest.mark.parametrize("which", ["both", "state", "command"])
def test_cut_streams(robot, driving, which):
    robot.inject("stream_cut", which=which)
    if which != "command":
        while driving.states.get() is not None:
            pass
        assert driving.state_error == grpc.StatusCode.UNAVAILABLE
    if which != "state":
        with pytest.raises(grpc.RpcError):
            driving.stream.result()
        whole(driving)
        assert robot.status()["mode"] == "stand"
    else:
        assert robot.status()["mode"] == "joint"
    power_off(driving, robot)


def test_a_stolen_lease(robot, driving):
    robot.inject("lease_theft")
    assert driving.ending() == INACTIVE
    with pytest.raises(LeaseUseError):
        driving.robot.power_off(cut_immediately=False)
    assert robot.status()["leases"] == {"body": "tablet"} and robot.status()["mode"] == "stand"


@pytest.mark.parametrize("level", ["cut", "settle_then_cut"])
def test_an_estop(robot, driving, level):
    robot.inject("estop", level=level)
    assert driving.ending() == INACTIVE
    assert driving.robot.is_estopped()
    state = whole(driving)
    assert state.power_state.motor_power_state == robot_state_pb2.PowerState.MOTOR_POWER_STATE_OFF
    assert state.estop_states[0].state == robot_state_pb2.EStopState.STATE_ESTOPPED
    robot.inject("estop_release")
    assert not driving.robot.is_estopped()


def test_a_behavior_fault_must_be_cleared(robot, driving):
    robot.inject("behavior_fault", cause="hardware")
    assert driving.ending() == INACTIVE
    (fault,) = whole(driving).behavior_fault_state.faults
    assert fault.cause == robot_state_pb2.BehaviorFault.CAUSE_HARDWARE
    with pytest.raises(BehaviorFaultError):
        driving.commands.robot_command(RobotCommandBuilder.synchro_stand_command())
    driving.commands.clear_behavior_fault(fault.behavior_fault_id)
    blocking_stand(driving.commands, timeout_sec=60, update_frequency=20)
    assert robot.status()["mode"] == "stand"
    power_off(driving, robot)


def test_a_fall_while_standing(robot, client):
    client.stand()
    robot.inject("fall")
    assert robot.status()["behavior_faults"] == ["fall"] and robot.status()["mode"] == "fault"
    power_off(client, robot)


def test_a_fall_in_joint_mode(robot, driving):
    robot.inject("fall")
    for _ in range(150):
        if driving.stream.done():
            break
        driving.step(ttl=1.0)
    assert driving.ending() == INACTIVE
    assert [fault.cause for fault in whole(driving).behavior_fault_state.faults] == [
        robot_state_pb2.BehaviorFault.CAUSE_FALL
    ]
    power_off(driving, robot)


def test_a_push_moves_the_robot(robot, driving):
    before = robot.status()["base_velocity"][1]
    robot.inject("push", speed=0.3, direction=90.0)
    assert robot.status()["base_velocity"][1] == pytest.approx(before + 0.3)
    assert driving.step() is not None


def test_a_low_battery(robot, client):
    robot.inject("low_battery", charge=4.0)
    state = whole(client)
    assert state.battery_states[0].charge_percentage.value == 4.0
    assert state.power_state.locomotion_charge_percentage.value == 4.0


def test_what_is_hot_or_not_reported_shows_in_the_state(robot, client):
    state = whole(client)
    assert {item.name: item.temperature for item in state.system_state.motor_temperatures}["fl.kn"] == 35.0
    assert len(state.system_state.motor_temperatures) == 12 and list(state.battery_states[0].temperatures) == [30.0]
    robot.inject("hot_motor", joint="hr_hx", temperature=99.0)
    robot.inject("hot_battery", temperature=66.0)
    robot.inject("missing_charge")
    robot.inject("unknown_estop")
    robot.inject("warning")
    state = whole(client)
    assert {item.name: item.temperature for item in state.system_state.motor_temperatures}["hr.hx"] == 99.0
    assert list(state.battery_states[0].temperatures) == [66.0]
    assert not state.battery_states[0].HasField("charge_percentage")
    assert not state.power_state.HasField("locomotion_charge_percentage")
    assert state.estop_states[0].state == robot_state_pb2.EStopState.STATE_UNKNOWN
    assert [fault.severity for fault in state.system_fault_state.faults] == [robot_state_pb2.SystemFault.SEVERITY_WARN]
    assert robot.status()["warnings"] == ["practice_warning"]
    robot.inject("missing_temperatures")
    assert not whole(client).system_state.motor_temperatures
    with pytest.raises(PracticeRobotError, match="joint is one of"):
        robot.inject("hot_motor", joint="fl_elbow")


def test_a_missing_licence_ends_both_streams(robot, driving):
    robot.inject("missing_licence")
    while driving.states.get() is not None:
        pass
    with pytest.raises(grpc.RpcError):
        driving.stream.result()
    licences = driving.robot.ensure_client(LicenseClient.default_service_name)
    assert licences.get_feature_enabled(["joint_level_control"]) == {"joint_level_control": False}
    with pytest.raises(UnsupportedError):
        driving.activate()
    again = Client(robot, "again")
    again.read_states()
    assert again.state is None and again.state_error == grpc.StatusCode.PERMISSION_DENIED
    again.close()
    power_off(driving, robot)


@pytest.mark.parametrize(("seconds", "ends"), [(1.0, EXPIRED), (-60.0, 5)])
def test_a_clock_that_jumps(robot, driving, seconds, ends):
    request = driving.message()
    robot.inject("clock_jump", seconds=seconds)
    driving.send(request)
    assert driving.ending() == ends
    power_off(driving, robot)


def test_expired_tokens(robot, client):
    client.stand()
    robot.inject("expired_token")
    with pytest.raises(UnauthenticatedError):
        whole(client)
    client.robot.authenticate(robot.username, robot.password)
    power_off(client, robot)


def test_an_arm_makes_nineteen_joints(robot, driving):
    robot.inject("arm_fitted")
    driving.send(driving.message())
    assert driving.ending() == INVALID
    assert driving.robot.has_arm() and robot.status()["joints"] == 19
    assert len(whole(driving).kinematic_state.joint_states) == 19
    driving.open_commands().activate()
    state = driving.step([*driving.state.joint_states.position[:12], *[0.5] * 7], joints=19)
    assert list(state.joint_states.position[12:]) == [0.5] * 7
    power_off(driving, robot)


def test_a_tilted_odometry_disagrees_with_gravity(robot, client):
    client.stand()
    robot.inject("odom_tilt", degrees=10.0)
    client.read_states()
    rotation = client.state.kinematic_state.odom_tform_body.rotation
    assert abs(rotation.y) == pytest.approx(0.087, abs=0.03)
    assert abs(client.mean_acceleration()[0]) < 0.5  # it would be 1.7 if the robot were tilted


def test_a_slow_power_off(robot, driving):
    robot.inject("slow_power_off", seconds=6.0)
    driving.commands.robot_command(RobotCommandBuilder.safe_power_off_command())
    assert whole(driving).power_state.motor_power_state == robot_state_pb2.PowerState.MOTOR_POWER_STATE_ON
    power_off(driving, robot)


def test_a_fault_later(robot, driving):
    robot.inject("behavior_fault", after=0.05)
    assert robot.status()["behavior_faults"] == []
    for _ in range(3):
        driving.send(driving.message(ttl=1.0))
    assert driving.ending() == INACTIVE


def test_every_fault_is_tested_here():
    from pathlib import Path

    text = Path(__file__).read_text()
    missing = [name for name in FAULTS if f'inject("{name}"' not in text]
    assert missing == []


def test_a_misspelt_fault_is_refused(robot):
    with pytest.raises(PracticeRobotError, match="Did you mean 'state_loss'"):
        robot.inject("state_los")
    with pytest.raises(PracticeRobotError, match="takes no 'delay'"):
        robot.inject("state_loss", delay=1.0)
    with pytest.raises(PracticeRobotError, match="one of both, state, command"):
        robot.inject("stream_cut", which="none")


@settings(deadline=None)
@given(st.sampled_from(sorted(FAULTS)), st.floats(allow_nan=True))
def test_parameters_are_finite_numbers_or_refused(name, value):
    for key in FAULTS[name].parameters:
        if key in FAULTS[name].choices:
            with pytest.raises(PracticeRobotError):
                check_fault(name, {key: value})
        elif value == value and abs(value) != float("inf"):
            assert check_fault(name, {key: value})[key] == value
        else:
            with pytest.raises(PracticeRobotError):
                check_fault(name, {key: value})
