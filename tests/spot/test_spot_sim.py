"""The practice robot through the unmodified SDK: a whole session, the rollout that equals the simulator's, the end."""

from __future__ import annotations

import itertools
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip("bosdyn.client")
pytest.importorskip("cryptography")

from bosdyn.api import robot_state_pb2
from bosdyn.client.estop import EstopClient, EstopEndpoint, EstopKeepAlive
from bosdyn.client.robot_command import RobotCommandBuilder
from bosdyn.util import timestamp_to_nsec
from helpers import heeding_signals
from spot_robot_helpers import streams_closed
from spot_sim_helpers import EXPIRED, OK, Client, LocalRobot, connect

from adc_wrappers import make_env
from adc_wrappers.backends.base import RobotStart
from adc_wrappers.backends.spot_model import JOINT_NAMES, NOMINAL_POSE
from adc_wrappers.cli import main
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.spot_sim import PracticeRobot, PracticeRobotError, PracticeSettings
from adc_wrappers.spot_sim.server import PracticeServer


def test_a_session_from_login_to_confirmed_power_off():
    """In its own process, as users run it."""
    with PracticeRobot(clock="lockstep", seed=0) as practice:
        assert practice.status()["motors"] == "off" and practice.status()["mode"] == "off"
        client = Client(practice)
        robot = client.robot
        assert robot.get_id().species == "spot"
        assert robot.time_sync.has_established_time_sync
        assert robot.ensure_client("license").get_feature_enabled(["joint_level_control", "other"]) == {
            "joint_level_control": True,
            "other": False,
        }
        endpoint = EstopEndpoint(robot.ensure_client(EstopClient.default_service_name), "tester", 30.0)
        endpoint.force_simple_setup()
        assert robot.is_estopped()
        estop = EstopKeepAlive(endpoint)
        client.exits.callback(estop.shutdown)
        estop.allow()
        assert not robot.is_estopped()
        client.stand().read_states()
        status = practice.status()
        assert status["mode"] == "stand" and status["settled"] and status["leases"]["body"].startswith("tester")
        client.open_commands()
        client.send(client.message())  # the SDK's order: first a message, then the activation
        client.activate()
        for _ in range(5):
            assert client.step() is not None
        assert practice.status()["mode"] == "joint" and practice.status()["last_command_key"] == client.key
        client.outgoing.put(None)
        assert client.ending() == OK
        robot.power_off(cut_immediately=False, timeout_sec=60, update_frequency=20)
        state = robot.ensure_client("robot-state").get_robot_state()
        assert state.power_state.motor_power_state == robot_state_pb2.PowerState.MOTOR_POWER_STATE_OFF
        client.close()
        status = practice.status()
        assert status["motors"] == "off" and status["leases"] == {}
        assert streams_closed(practice)
        changes = practice.history()
        modes = [mode for mode, _ in itertools.groupby(change["mode"] for change in changes)]
        assert modes == ["off", "sit", "stand", "joint", "stand", "sit", "off"]
        assert changes[-1]["motors"] == "off" and changes[-1]["lease"] is None
        assert all(a["time"] <= b["time"] and a["wall"] <= b["wall"] for a, b in itertools.pairwise(changes))
        port, folder = practice.port, practice.certificate.parent
    assert not practice.running and not folder.exists()
    with socket.socket() as listener:  # nobody listens there any more
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # over connections that just ended
        listener.bind(("127.0.0.1", port))
    with pytest.raises(PracticeRobotError, match="has ended"):
        practice.status()


def test_nothing_is_left_of_a_robot_whose_owner_dies():
    code = (
        "from adc_wrappers.spot_sim import PracticeRobot; import os\n"
        "robot = PracticeRobot(); print(robot.process_id, flush=True); os._exit(1)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    identity = int(answer.stdout)
    deadline = time.monotonic() + 60.0  # run() returned, so its output is closed; the rest of its end takes a moment
    while _alive(identity):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _alive(identity):
    listing = subprocess.run(["ps", "-o", "stat=", "-p", str(identity)], capture_output=True, text=True, check=False)
    return listing.stdout.strip()[:1] not in ("", "Z")


def test_it_listens_on_loopback_only(robot):
    with socket.socket() as caller:
        caller.connect(("127.0.0.1", robot.port))
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1", "127.0.1.1"}:
        with socket.socket() as caller, pytest.raises(OSError):
            caller.connect((address, robot.port))


def test_a_taken_port_is_refused(robot):
    with pytest.raises(PracticeRobotError, match="taken"):
        PracticeServer(PracticeSettings(), "password", robot.port)


def test_no_thread_of_the_robot_outlives_it(tmp_path):
    robot = LocalRobot(tmp_path)
    client = Client(robot).drive()
    client.step()
    ours = ("practice robot", "service", "joint commands")
    assert any(thread.name.startswith(ours) for thread in threading.enumerate())
    robot.close()  # in the middle of everything
    left = [thread for thread in threading.enumerate() if thread.name.startswith(ours)]
    for thread in left:  # what reads a stream ends when gRPC has told it that the stream is over
        thread.join(60.0)
    client.close()  # its robot is gone; the SDK only logs that it cannot return the lease
    assert not any(thread.is_alive() for thread in left)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_lockstep_rollout_equals_the_simulators(robot, client, seed):
    """Targets and gains travel as float32: that is the tolerance of the first step, and what grows from it.

    A rollout with targets rounded in the same way must give the same bits.
    """
    env = make_env("spot-handstand", backend="mujoco", randomize=False)
    backend = env.task.backend
    stiffness = np.full((1, 12), 60.0)
    damping = damping_for(stiffness, backend.effective_inertia()).astype(np.float32).astype(np.float64)
    backend.set_gains(stiffness, damping)
    env.reset(seed=seed)
    client.drive()
    snapshot = env.task.snapshot(np.array([0]))
    robot.place(RobotStart(*(snapshot[name] for name in RobotStart._fields)))
    rng = np.random.default_rng(seed)
    stamp = timestamp_to_nsec(client.newest().joint_states.acquisition_timestamp)
    for step in range(1, 41):
        action = rng.uniform(-0.4, 0.4, 12).astype(np.float32)
        targets = (backend.nominal_pose + env.task.action_scale * action).astype(np.float32)
        backend.advance(targets[None].astype(np.float64))
        received = client.step(targets, damping=damping[0])
        assert timestamp_to_nsec(received.joint_states.acquisition_timestamp) == stamp + step * 20_000_000
        truth, state = robot.status(), backend.state()
        for name, values in (("positions", state.joint_positions), ("velocities", state.joint_velocities)):
            np.testing.assert_array_equal(truth[f"joint_{name}"], values[0])
            sent = getattr(received.joint_states, {"positions": "position", "velocities": "velocity"}[name])
            np.testing.assert_array_equal(np.array(sent, dtype=np.float32), values[0].astype(np.float32))
        np.testing.assert_array_equal(truth["joint_torques"], state.joint_torques[0])
        pose = received.kinematic_state.odom_tform_body
        np.testing.assert_array_equal([pose.position.x, pose.position.y, pose.position.z], state.base_position[0])
        quaternion = [pose.rotation.w, pose.rotation.x, pose.rotation.y, pose.rotation.z]
        np.testing.assert_array_equal(quaternion, state.base_quaternion[0])
    env.close()


def test_the_same_key_again_renews_a_command_and_takes_no_time(robot, client):
    client.drive()
    client.step()
    time = robot.status()["time"]
    client.key -= 1
    client.send(client.message())
    client.step()
    assert robot.status()["time"] == pytest.approx(time + 0.02)


def test_time_stands_still_until_a_command_comes(robot, client):
    client.drive()
    client.step()
    first = robot.status()["time"]
    assert threading.Event().wait(0.2) is False  # ten policy steps of a robot that would not stand still
    assert robot.status()["time"] == first


def test_names_order_and_signs_of_the_state(robot, client):
    client.stand().read_states()
    whole = client.robot.ensure_client("robot-state").get_robot_state()
    names = [joint.name for joint in whole.kinematic_state.joint_states]
    assert names == [name.replace("_", ".") for name in JOINT_NAMES]
    state = client.newest()
    np.testing.assert_allclose(state.joint_states.position, NOMINAL_POSE, atol=0.1)
    np.testing.assert_allclose(client.mean_acceleration(), [0.0, 0.0, 9.81], atol=0.3)
    assert list(state.contact_states) == [robot_state_pb2.FootState.CONTACT_MADE] * 4
    assert not state.header.HasField("error")
    snapshot = client.robot.get_frame_tree_snapshot()
    from bosdyn.client.frame_helpers import BODY_FRAME_NAME, ODOM_FRAME_NAME, get_a_tform_b

    height = get_a_tform_b(snapshot, ODOM_FRAME_NAME, BODY_FRAME_NAME).z
    assert height == pytest.approx(state.kinematic_state.odom_tform_body.position.z, abs=0.01)


def test_sit_self_right_and_freeze(robot, client):
    from bosdyn.client.robot_command import blocking_selfright, blocking_sit

    client.stand()
    client.commands.robot_command(RobotCommandBuilder.freeze_command())
    assert robot.status()["mode"] == "stand"
    blocking_sit(client.commands, timeout_sec=60, update_frequency=20)
    assert robot.status()["mode"] == "sit" and robot.status()["base_position"][2] < 0.2
    blocking_selfright(client.commands, timeout_sec=60, update_frequency=20)
    assert robot.status()["mode"] == "sit"


def test_time_synchronization_finds_the_skew(tmp_path):
    robot = LocalRobot(tmp_path, clock="realtime", clock_skew=-199.0)
    with connect(robot) as sdk_robot:
        sdk_robot.time_sync.wait_for_sync(timeout_sec=60)
        skew = sdk_robot.time_sync.endpoint.clock_skew
    robot.close()
    assert skew.seconds + skew.nanos * 1e-9 == pytest.approx(-199.0, abs=0.5)


def test_real_time_streams_333_states_per_second_of_the_robots_clock(tmp_path):
    robot = LocalRobot(tmp_path, clock="realtime")
    client = Client(robot).read_states()
    stamps = [timestamp_to_nsec(client.states.get().joint_states.acquisition_timestamp) for _ in range(100)]
    client.close()
    robot.close()
    gaps = np.diff(stamps)
    assert np.median(gaps) == 3_000_000 and (gaps > 0).all()


def test_a_real_time_session_with_slack(tmp_path):
    """Commands may be as late as they like: nothing here depends on the speed of the computer."""
    robot = LocalRobot(tmp_path, clock="realtime", expiry_slack=300.0)
    client = Client(robot).drive()
    for _ in range(20):
        assert client.step(ttl=5.0) is not None
    assert robot.status()["mode"] == "joint"
    client.outgoing.put(None)
    assert client.ending() == OK
    assert robot.status()["mode"] == "stand"
    client.robot.power_off(cut_immediately=False, timeout_sec=120, update_frequency=5)
    assert robot.status()["motors"] == "off"
    client.close()
    robot.close()


def test_an_expiry_slack_lets_late_commands_act(tmp_path):
    robot = LocalRobot(tmp_path, expiry_slack=1.0)
    client = Client(robot).drive()
    client.step()
    assert client.step(ttl=-0.5) is not None
    client.send(client.message(ttl=-2.0))
    assert client.ending() == EXPIRED
    client.close()
    robot.close()


@pytest.mark.slow
def test_pictures_and_a_film(tmp_path):
    from PIL import Image

    with PracticeRobot() as practice:
        picture = practice.frame(160, 120)
        assert picture.shape == (120, 160, 3) and picture.std() > 10.0
        with pytest.raises(PracticeRobotError, match="nothing to film"):
            practice.save_film(tmp_path / "film.gif")
        with pytest.raises(PracticeRobotError, match=r"ends in \.gif"):
            practice.save_film(tmp_path / "film.avi")
        practice.start_film(fps=5.0)
        client = Client(practice).stand()
        count = practice.save_film(tmp_path / "film.gif", 160, 120)
        client.close()
    film = Image.open(tmp_path / "film.gif")
    assert film.n_frames == count and count >= 10


def test_the_command_starts_a_robot_and_ends_it(capsys, monkeypatch):
    monkeypatch.delenv("ADC_SPOT_SIM_PASSWORD", raising=False)
    assert main(["spot-sim", "--clock", "lockstep", "--seconds", "0.1", "--fault", "low_battery@0"]) == 0
    words = capsys.readouterr().out
    assert "127.0.0.1 port" in words and "ca.pem" in words and "user user, password" in words


def test_the_command_does_not_print_a_password_that_was_given(capsys, monkeypatch):
    monkeypatch.setenv("ADC_SPOT_SIM_PASSWORD", "not for your eyes")
    assert main(["spot-sim", "--clock", "lockstep", "--seconds", "0.1"]) == 0
    words = capsys.readouterr().out
    assert "not for your eyes" not in words and "from ADC_SPOT_SIM_PASSWORD" in words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fault", "estp@1"], "Did you mean 'estop'"),
        (["--fault", "estop@soon"], "NAME@SECONDS"),
        (["--view", "television"], "expected 'browser' or 'gif PATH'"),
    ],
)
def test_the_command_refuses_nonsense_before_it_starts(arguments, message, capsys):
    assert main(["spot-sim", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_the_page_shows_the_robot_where_it_is(robot, client):
    pytest.importorskip("viser")
    from adc_wrappers.spot_sim.showing import PracticeRobotPage

    client.stand()
    page = PracticeRobotPage(robot)
    try:
        page.draw()
        np.testing.assert_allclose(page._page.frames["body"].position, robot.status()["base_position"], atol=1e-6)
        assert "motors on, mode stand" in page._text.content
    finally:
        page.close()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_the_command_and_its_robot():
    command = [sys.executable, "-m", "adc_wrappers.cli", "spot-sim", "--clock", "lockstep"]
    process = subprocess.Popen(heeding_signals(command), stdout=subprocess.PIPE, text=True, start_new_session=True)
    first = process.stdout.readline()
    port = int(first.split("port ")[1].split(",")[0])
    while "Ctrl+C" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate()
    assert process.returncode == 0 and "ending" in rest
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # over connections that just ended
        listener.bind(("127.0.0.1", port))
