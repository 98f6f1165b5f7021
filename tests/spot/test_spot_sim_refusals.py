"""Refusals of the practice robot, as the unmodified SDK reports them."""

from __future__ import annotations

import pytest

pytest.importorskip("bosdyn.client")
pytest.importorskip("cryptography")

from bosdyn.client import InvalidLoginError, UnauthenticatedError
from bosdyn.client.auth import InvalidTokenError
from bosdyn.client.estop import EstopClient, EstopEndpoint, IncorrectChallengeResponseError
from bosdyn.client.exceptions import LeaseUseError
from bosdyn.client.lease import LeaseClient, NoSuchLease, ResourceAlreadyClaimedError
from bosdyn.client.power import EstoppedError
from bosdyn.client.robot_command import NotPoweredOnError, RobotCommandBuilder, UnsupportedError
from bosdyn.util import set_timestamp_from_nsec, timestamp_to_nsec
from spot_sim_helpers import EXPIRED, INACTIVE, INVALID, TOO_DISTANT, Client, LocalRobot, connect


def test_a_bad_password(robot):
    stranger = connect(robot, login=False)
    with pytest.raises(InvalidLoginError):
        stranger.authenticate(robot.username, "wrong")
    with pytest.raises(InvalidLoginError):
        stranger.authenticate("nobody", robot.password)
    with pytest.raises(InvalidTokenError):
        stranger.authenticate_with_token("made up")


def test_no_token(robot):
    stranger = connect(robot, login=False)
    assert stranger.get_id().serial_number  # who it is, it tells everybody
    with pytest.raises(UnauthenticatedError):
        stranger.sync_with_directory()


def test_no_lease(client):
    with pytest.raises(NoSuchLease):
        client.robot.power_on()


def test_two_clients_cannot_both_drive(robot, client):
    client.drive()
    other = Client(robot, "other")
    try:
        with pytest.raises(ResourceAlreadyClaimedError):
            other.lease()
        with pytest.raises(NoSuchLease):
            other.activate()
        other.read_states().open_commands()
        other.send(other.message())
        assert other.ending() == INVALID  # one command stream at a time
        assert client.step() is not None  # the first one has not noticed
        assert robot.status()["leases"]["body"].startswith("tester")
    finally:
        other.close()


def test_a_taken_lease_ends_joint_control_and_cannot_be_used(robot, driving):
    other = Client(robot, "other")
    other.robot.ensure_client(LeaseClient.default_service_name).take()
    assert driving.ending() == INACTIVE
    with pytest.raises(LeaseUseError):
        driving.commands.robot_command(RobotCommandBuilder.synchro_stand_command())
    assert robot.status()["mode"] == "stand"
    other.close()


def test_power_while_stopped(robot, client):
    endpoint = EstopEndpoint(client.robot.ensure_client(EstopClient.default_service_name), "tester", 30.0)
    endpoint.force_simple_setup()
    client.lease()
    with pytest.raises(EstoppedError):
        client.robot.power_on(update_frequency=20)
    assert robot.status()["motors"] == "off"


def test_a_command_without_power(client):
    client.lease()
    with pytest.raises(NotPoweredOnError):
        client.commands.robot_command(RobotCommandBuilder.synchro_stand_command())


def test_a_command_the_practice_robot_does_not_know(client):
    client.stand()
    with pytest.raises(UnsupportedError):
        client.commands.robot_command(RobotCommandBuilder.synchro_velocity_command(0.1, 0.0, 0.0), 1e10)


def _without_header(request):
    request.ClearField("header")


def _without_end(request):
    request.joint_command.ClearField("end_time")


def _without_gains(request):
    request.joint_command.ClearField("gains")


def _too_short(request):
    del request.joint_command.position[11:]


def _partial_gains(request):
    del request.joint_command.gains.k_qd_p[3:]


def _not_finite(request):
    request.joint_command.load[3] = float("nan")


def _no_speed(request):
    request.joint_command.velocity_safety_limit.value = 0.0


def _negative_gain(request):
    request.joint_command.gains.k_q_p[0] = -1.0


def _impossible_gain(request):
    request.joint_command.gains.k_q_p[0] = 1e9


def _three_feet(request):
    request.contact_advice.contact_advice.extend([1, 1, 1])


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One standing robot for the many ways to be refused; each leaves it standing."""
    robot = LocalRobot(tmp_path_factory.mktemp("robot"))
    client = Client(robot).stand().read_states()
    yield client
    client.close()
    robot.close()


@pytest.mark.parametrize(
    "spoil",
    [
        _without_header, _without_end, _without_gains, _too_short, _partial_gains, _not_finite, _no_speed,
        _negative_gain, _impossible_gain, _three_feet,
    ],
)  # fmt: skip
def test_an_invalid_message_ends_the_stream(shared, spoil):
    shared.open_commands()
    request = shared.message()
    spoil(request)
    shared.send(request)
    response = shared.stream.result()
    assert response.status == INVALID and response.message
    shared.outgoing.put(None)


def test_a_command_that_has_expired(robot, driving):
    driving.step()
    request = driving.message()
    stamp = timestamp_to_nsec(driving.state.joint_states.acquisition_timestamp)
    set_timestamp_from_nsec(request.joint_command.end_time, stamp)
    driving.send(request)
    assert driving.ending() == EXPIRED
    feedback = driving.commands.robot_command_feedback(driving.joint_id).feedback.full_body_feedback
    assert feedback.joint_feedback.status == feedback.joint_feedback.STATUS_ERROR
    assert robot.status()["mode"] == "stand"


def test_a_command_from_too_far_ahead(robot, driving):
    driving.send(driving.message(ttl=60.0))
    assert driving.ending() == TOO_DISTANT
    assert robot.status()["mode"] == "stand"


def test_commands_without_joint_mode(robot, client):
    client.stand().read_states().open_commands()
    for _ in range(250):
        client.send(client.message(ttl=5.0))
    assert client.ending() == INACTIVE
    assert robot.status()["mode"] == "stand"


def test_a_time_to_live_shorter_than_a_step_ends_in_the_stock_stand(robot, driving):
    driving.step()
    driving.send(driving.message(ttl=0.01))
    assert driving.ending() == EXPIRED
    driving.commands.robot_command_feedback(driving.joint_id)  # lets the robot's time pass
    status = robot.status()
    assert status["mode"] == "stand" and status["settled"] and status["motors"] == "on"


def test_a_joint_that_is_too_fast_is_a_fault(robot, driving):
    far = [q + 0.6 for q in driving.state.joint_states.position]
    driving.send(driving.message(far, speed_limit=0.5))
    assert driving.ending() == INACTIVE
    assert robot.status()["behavior_faults"] == ["hardware"] and robot.status()["mode"] == "fault"


@pytest.mark.parametrize(("silence", "seen"), [(31.0, "settle_then_cut"), (40.0, "cut")])
def test_an_estop_that_goes_silent_settles_and_cuts(robot, client, silence, seen):
    endpoint = EstopEndpoint(client.robot.ensure_client(EstopClient.default_service_name), "tester", 30.0)
    endpoint.force_simple_setup()
    endpoint.allow()
    client.stand()
    with robot.server.robot.lock:
        robot.server.robot.estops.endpoints[0].heard -= silence
    assert robot.status()["estop"] == seen
    while robot.status()["motors"] != "off":
        client.robot.ensure_client("robot-state").get_robot_state()
    assert client.robot.is_estopped()
    with pytest.raises(EstoppedError):
        client.robot.power_on(update_frequency=20)


def test_a_wrong_answer_to_the_estops_challenge_does_not_count(robot, client):
    estops = client.robot.ensure_client(EstopClient.default_service_name)
    endpoint = EstopEndpoint(estops, "tester", 30.0)
    endpoint.force_simple_setup()
    endpoint.set_challenge(12345)
    with pytest.raises(IncorrectChallengeResponseError):
        endpoint.allow()
    assert client.robot.is_estopped()
    endpoint.allow()
    assert not client.robot.is_estopped()


def test_a_lease_whose_holder_is_silent_is_stale(robot, driving):
    with robot.server.robot.lock:
        robot.server.robot.leases._sign_of_life -= 100.0
        robot.server.robot.watch()
    assert driving.ending() == INACTIVE
    assert robot.status()["mode"] == "stand"
