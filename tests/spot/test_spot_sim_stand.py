"""The practice robot on a stand: a welded simulation behind the SDK's streams, and what is identified through them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("bosdyn.client")
pytest.importorskip("cryptography")
pytest.importorskip("mujoco")

from spot_sim_helpers import Client, LocalRobot

from adc_wrappers.backends.base import RobotStart
from adc_wrappers.backends.mujoco import MujocoRobotBackend
from adc_wrappers.cli import main
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.trajectories import read_log

HIDDEN = {
    "gain_scale": 2 / 3, "damping_scale": 1.1, "joint_friction": 0.6, "viscous_friction": 0.1, "command_delay": 3,
    "position_noise": 0.001, "velocity_noise": 0.03, "seed": 3,
}  # fmt: skip


@pytest.fixture
def held(tmp_path):
    """A practice robot on a stand."""
    robot = LocalRobot(tmp_path, on_stand=True)
    yield robot
    robot.close()


def test_a_rollout_equals_that_of_a_welded_robot(held):
    """Up to the last bits: one hangs a metre higher."""
    backend = MujocoRobotBackend(1, fixed_base=True)
    stiffness = np.full((1, 12), 60.0)
    damping = damping_for(stiffness, backend.effective_inertia()).astype(np.float32).astype(np.float64)
    backend.set_gains(stiffness, damping)
    still, pose = np.zeros((1, 3)), backend.nominal_pose[None]
    level = np.array([[1.0, 0.0, 0.0, 0.0]])
    start = RobotStart(np.array([[0.0, 0.0, 1.0]]), level, still, still, pose, np.zeros((1, 12)))
    backend.reset(start)
    client = Client(held)
    client.drive()
    held.place(start)
    rng = np.random.default_rng(0)
    for _ in range(20):
        targets = (pose + rng.uniform(-0.4, 0.4, (1, 12))).astype(np.float32)
        backend.advance(targets.astype(np.float64))
        client.step(targets[0], damping=damping[0])
        truth, state = held.status(), backend.state()
        np.testing.assert_allclose(truth["joint_positions"], state.joint_positions[0], atol=1e-9)
        np.testing.assert_allclose(truth["joint_velocities"], state.joint_velocities[0], atol=1e-9)
        assert truth["base_position"] == [0.0, 0.0, 1.0] and truth["base_velocity"] == [0.0, 0.0, 0.0]
        assert not any(truth["feet_on_ground"]) and not truth["body_touches_ground"]
    client.close()
    backend.close()


def test_it_can_neither_fall_nor_be_pushed(held):
    client = Client(held)
    client.stand()
    for fault in ("push", "fall"):
        held.inject(fault)
    status = held.status()
    assert status["mode"] == "stand" and status["behavior_faults"] == []
    assert status["base_position"] == [0.0, 0.0, 1.0]
    client.robot.power_off(cut_immediately=False, timeout_sec=60)
    assert held.status()["motors"] == "off"
    client.close()


def collect(robot, out, monkeypatch, *options):
    """Run ``adc sysid collect spot`` against a practice robot."""
    monkeypatch.setenv("BOSDYN_CLIENT_USERNAME", robot.username)
    monkeypatch.setenv("BOSDYN_CLIENT_PASSWORD", robot.password)
    where = [f"hostname={robot.hostname}", f"port={robot.port}", f"certificate={robot.certificate}", "clock=lockstep"]
    return main(["sysid", "collect", "spot", "--set", *where, "limits=robot", "--out", str(out), *options])


def test_the_command_records_chirps_through_the_streams_within_a_robots_limits(held, tmp_path, monkeypatch):
    assert collect(held, tmp_path / "log.csv", monkeypatch, "--seconds", "1") == 0
    log = read_log(tmp_path / "log.csv")
    assert log.base is None and len(log.time) == 51
    assert set(log.commanded_stiffness) == {60.0} and set(log.commanded_damping) == {1.5}
    assert np.ptp(log.positions, axis=0).min() > 0.05  # every joint moved
    assert held.status()["motors"] == "off"


@pytest.mark.slow
def test_what_a_robot_hides_is_found_through_its_streams(tmp_path, monkeypatch):
    pytest.importorskip("cma")
    from sysid_helpers import SETTINGS

    from adc_wrappers.sysid import identify

    robot = LocalRobot(tmp_path, on_stand=True, **HIDDEN)
    assert collect(robot, tmp_path / "log.csv", monkeypatch, "--seconds", "3", "--seed", "1") == 0
    robot.close()
    found = identify([read_log(tmp_path / "log.csv")], SETTINGS)
    truth = {"stiffness": 2 / 3, "damping": 1.1 + 0.1 / 1.5, "coulomb": 0.6, "delay": 0.006}
    for name, value in truth.items():  # noise differs from run to run, so that one in twenty misses its interval a bit
        parameter = found.parameter(name)
        assert abs(parameter.value - value) <= 2.5 * (parameter.upper - parameter.value), (name, parameter)
        assert parameter.verdict == "identified"
    assert abs(found.simulated_stiffness[0] / 40.0 - 1.0) < 0.05
