"""The hardware backend against a practice robot in lockstep, through the unmodified SDK."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

pytest.importorskip("bosdyn.client")

from spot_robot_helpers import POLICY, Notes, connection, nothing_left, spot_env, still_action, streams_closed

from adc_wrappers import ActuatorCurriculumWrapper, make_env
from adc_wrappers.backends.base import RobotParameters, RobotStart
from adc_wrappers.backends.mujoco import knee_limits
from adc_wrappers.core.errors import BackendError
from adc_wrappers.envs.spot.body import rotate
from adc_wrappers.policy import load
from adc_wrappers.spot_sim import PracticeRobot


@pytest.fixture(scope="module")
def robot():
    with PracticeRobot(clock="lockstep") as robot:
        yield robot


@pytest.fixture
def fresh_robot():
    """A robot of its own, for what may end in a fall: a fall must be cleared by an operator."""
    with PracticeRobot(clock="lockstep") as robot:
        yield robot


def test_a_whole_session_from_login_to_confirmed_power_off(robot):
    notes = Notes()
    with nothing_left():
        env = spot_env(robot, listeners=(notes,))
        assert robot.status()["leases"] == {} and robot.status()["motors"] == "off"  # making it moves nothing
        observation, _ = env.reset(seed=0)
        assert np.abs(observation[9:]).max() < 0.5  # near the nominal pose, nearly at rest, no action yet
        assert np.abs(observation[:9] - [0, 0, 0, 0, 0, 0, 0, 0, -1]).max() < 0.1
        assert robot.status()["mode"] == "joint"
        observation, reward, terminated, truncated, info = env.step(still_action())
        assert env.observation_space.contains(observation) and np.isfinite(reward)
        assert not terminated and not truncated and "guard" not in info
        env.close()
    status = robot.status()
    assert status["motors"] == "off" and status["leases"] == {}
    assert streams_closed(robot)
    assert notes.names() == ["armed", "joint control", "policy", "closed"]
    assert notes.events[-1][1] == {"motors": "confirmed off"} and notes.states > 10
    env.close()  # twice does nothing


TOLERANCE = 1e-4
"""Largest difference of any of the 45 numbers over 60 steps (1.2 s: the whole swing up). Messages hold joint positions,
velocities and targets in single precision, and contact makes small differences grow."""


@pytest.mark.slow
def test_a_rollout_equals_the_same_rollout_in_the_plain_simulator(fresh_robot, monkeypatch):
    # the practice robot takes its physics steps one by one, with the table's limit of the knees set before each
    monkeypatch.setattr(knee_limits, "_TOLERANCE", 0.0)
    policy = load(POLICY)
    env = spot_env(fresh_robot)
    plain = make_env("spot-handstand", backend="mujoco", preset="cpu", randomize=False)
    try:
        gains = env.actuator_backend.gains()
        plain.actuator_backend.set_gains(gains.stiffness, gains.damping)
        observation, _ = env.reset(seed=0)
        plain.reset(seed=0)
        plain.actuator_backend.reset(_true_start(fresh_robot, env.actuator_backend.state()))
        assert np.abs(plain.task.observe()[0] - observation).max() < 1e-6
        differences = []
        for _ in range(60):
            action = policy(observation)
            observation, _, terminated, _, _ = env.step(action)
            expected, _, fallen, _, _ = plain.step(action)
            assert not terminated and not fallen
            differences.append(np.abs(observation - expected).max())
        assert max(differences) < TOLERANCE, [float(d) for d in differences]
        assert observation[6] > 0.3  # it is on its way up, so the comparison was of something
    finally:
        env.close()
        plain.close()


def _true_start(robot, state):
    """The simulated robot's own state, in double precision, as messages have it for the base's turn."""
    truth = {name: np.atleast_2d(values) for name, values in robot.status().items() if isinstance(values, list)}
    base = (truth["base_position"], truth["base_quaternion"], truth["base_velocity"], state.base_angular_velocity)
    return RobotStart(*base, truth["joint_positions"], truth["joint_velocities"])


def _as_start(state):
    world = rotate(state.base_quaternion, state.base_linear_velocity[:, np.newaxis])[:, 0]
    return RobotStart(
        state.base_position, state.base_quaternion, world, state.base_angular_velocity, state.joint_positions,
        state.joint_velocities,
    )  # fmt: skip


@pytest.mark.slow
def test_the_shipped_policy_reaches_the_handstand(fresh_robot):
    policy = load(POLICY)
    env = spot_env(fresh_robot)
    try:
        observation, _ = env.reset(seed=0)
        held = 0
        for _ in range(120):
            observation, _, terminated, _, info = env.step(policy(observation))
            assert not terminated, info.get("guard")
            held += info["holds"]
        assert held > 0
    finally:
        env.close()
    assert fresh_robot.status()["motors"] == "off" and fresh_robot.status()["leases"] == {}


@pytest.mark.slow
def test_gymnasiums_checker_passes(fresh_robot):
    # random actions of full size may topple it; it is reset many times
    env = spot_env(fresh_robot, action_scale=0.2, settle_seconds=0.2)
    try:
        check_env(env, skip_render_check=True, skip_close_check=True)  # they would make a second robot
    finally:
        env.close()


def test_what_a_robot_cannot_do_is_refused(robot):
    env = spot_env(robot)
    backend = env.actuator_backend
    try:
        with pytest.raises(BackendError, match="curriculum does not run on a robot"):
            ActuatorCurriculumWrapper(env)
        with pytest.raises(BackendError, match="pushed"):
            backend.push(np.zeros((1, 3)), np.array([0]))
        with pytest.raises(BackendError, match="parameters cannot be set"):
            backend.set_parameters(RobotParameters(friction=np.ones(1)), np.array([0]))
        with pytest.raises(BackendError, match=r"reset\(\) first"):
            backend.advance(np.tile(backend.nominal_pose, (1, 1)))
        with pytest.raises(BackendError, match="no picture"):
            backend.render()
        start = _as_start(backend.state())
        with pytest.raises(BackendError, match="cannot be put into a state"):
            backend.reset(start._replace(joint_positions=start.joint_positions + 0.1))
        backend.set_gains(*backend.gains())  # what is there already is no change
        assert robot.status()["motors"] == "off"
    finally:
        env.close()


def test_randomization_is_off_and_asking_for_it_is_refused(robot):
    with pytest.raises(BackendError, match="cannot be randomized"):
        spot_env(robot, randomize=True)
    with pytest.raises(ValueError, match="leave num_envs out"):
        make_env("spot-handstand", backend="spot", num_envs=1, **connection(robot))
    with pytest.raises(BackendError, match="hostname"):
        make_env("spot-handstand", backend="spot")


@pytest.mark.slow
def test_two_clients_cannot_both_drive(robot):
    first, second = spot_env(robot), spot_env(robot)
    try:
        first.reset(seed=0)
        with pytest.raises(BackendError, match="somebody else has the robot's lease"):
            second.reset(seed=0)
        _, _, terminated, _, info = first.step(still_action())  # the first is not disturbed
        assert not terminated, info
    finally:
        second.close()
        assert robot.status()["motors"] == "on"  # the second's close does not touch the first's robot
        first.close()
    assert robot.status()["motors"] == "off"


def test_a_wrong_password_is_named_but_never_shown(robot):
    with pytest.raises(BackendError, match="login of 'user' failed") as caught:
        spot_env(robot, credentials=lambda: ("user", "not-the-password"))
    assert "not-the-password" not in str(caught.value)


def test_a_robot_that_is_not_there_is_said_to_be_unreachable(free_port, robot):
    with nothing_left(), pytest.raises(BackendError, match="reaching a robot"):
        spot_env(robot, port=free_port)


def test_a_target_that_jumps_out_of_the_envelope_is_not_sent(robot):
    from dataclasses import replace

    from adc_wrappers.backends.guard import PRACTICE_LIMITS

    env = spot_env(robot, limits=replace(PRACTICE_LIMITS, slew=0.3))
    try:
        env.reset(seed=0)
        key = robot.status()["last_command_key"]
        _, _, terminated, truncated, info = env.step(np.full(12, 0.9, np.float32))
        assert terminated and not truncated and not info["is_success"]
        assert info["guard"]["check"] == "slew" and info["guard"]["fallback"] == "standing"
        assert robot.status()["last_command_key"] == key and robot.status()["mode"] == "stand"
    finally:
        env.close()
    assert robot.status()["motors"] == "off"
