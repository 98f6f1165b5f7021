"""Friction and armature of joints, and targets of single physics steps, in the robot backends."""

from __future__ import annotations

import numpy as np
import pytest

from adc_wrappers.backends.base import RobotParameters, RobotStart
from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.core.errors import BackendError

ENGINES = ("mujoco", "pybullet")
KNEES = np.arange(2, 12, 3)


def make(engine, num_envs=2):
    pytest.importorskip(engine)
    gravity = {"gravity": False} if engine == "mujoco" else {"gravity": 0.0}
    robot = make_robot_backend(engine, num_envs, fixed_base=True, **gravity)
    robot.set_gains(np.full((num_envs, 12), 40.0), np.full((num_envs, 12), 1.0))
    still, pose = np.zeros((num_envs, 3)), np.tile(robot.nominal_pose, (num_envs, 1))
    place, level = np.tile([0.0, 0.0, 2.0], (num_envs, 1)), np.tile([1.0, 0.0, 0.0, 0.0], (num_envs, 1))
    robot.reset(RobotStart(place, level, still, still, pose, np.zeros_like(pose)))  # away from the ground
    return robot


@pytest.mark.parametrize("engine", ENGINES)
def test_dry_friction_above_the_torque_holds_a_joint(engine):
    """MuJoCo's friction is soft and creeps, the faster the lighter the limb: it is compared at the hips, and soon."""
    robot = make(engine)
    friction = np.stack((np.zeros(12), np.full(12, 1.5)))  # 40 N·m/rad times 0.02 rad is 0.8 N·m
    robot.set_parameters(RobotParameters(joint_coulomb=friction), np.arange(2))
    for _ in range(10):
        robot.advance(np.tile(robot.nominal_pose + 0.02, (2, 1)))
    free, held = np.delete(robot.state().joint_positions - robot.nominal_pose, KNEES, axis=1)
    assert (free > 0.015).all() and (np.abs(held) < 0.15 * free).all()
    robot.set_parameters(RobotParameters(joint_coulomb=np.zeros((1, 12))), np.array([1]))
    for _ in range(50):
        robot.advance(np.tile(robot.nominal_pose + 0.02, (2, 1)))
    np.testing.assert_allclose(robot.state().joint_positions[1], robot.nominal_pose + 0.02, atol=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_viscous_friction_acts_as_damping_does(engine):
    robot = make(engine)
    robot.set_parameters(RobotParameters(joint_viscous=np.stack((np.full(12, 1.5), np.zeros(12)))), np.arange(2))
    robot.set_gains(np.full((2, 12), 40.0), np.stack((np.full(12, 1.0), np.full(12, 2.5))))
    for step in range(40):
        robot.advance(np.tile(robot.nominal_pose + 0.1 * np.sin(0.3 * step), (2, 1)))
        one, other = robot.state().joint_positions
        np.testing.assert_allclose(one, other, atol=2e-3)


def test_armature_slows_joints_in_mujoco_and_is_refused_by_pybullet():
    robot = make("mujoco")
    armature = np.stack((np.zeros(12), np.full(12, 0.1)))
    robot.set_parameters(RobotParameters(joint_armature=armature), np.arange(2))
    robot.advance(np.tile(robot.nominal_pose + 0.1, (2, 1)))
    light, heavy = robot.state().joint_velocities[:, KNEES]
    assert (heavy < 0.5 * light).all()
    with pytest.raises(BackendError, match="PyBullet has no rotor inertia"):
        make("pybullet").set_parameters(RobotParameters(joint_armature=armature), np.arange(2))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("field", ["joint_coulomb", "joint_viscous"])
def test_negative_friction_is_refused(engine, field):
    with pytest.raises(BackendError, match=field):
        make(engine).set_parameters(RobotParameters(**{field: np.full((2, 12), -1.0)}), np.arange(2))


def test_targets_of_every_physics_step_and_the_track_of_the_joints():
    one, other = make("mujoco"), make("mujoco")
    targets = np.tile(one.nominal_pose + 0.3, (2, 1))
    one.advance(targets)
    track = other.advance_each(np.repeat(targets[:, None], other.decimation, axis=1))
    np.testing.assert_array_equal(one.state().joint_positions, other.state().joint_positions)
    np.testing.assert_array_equal(track.positions[:, -1], other.state().joint_positions)
    np.testing.assert_array_equal(track.velocities[:, -1], other.state().joint_velocities)
    np.testing.assert_array_equal(track.torques[:, -1], other.state().joint_torques)


def test_the_track_is_right_where_the_knee_limit_acts():
    """Robots that exceed a knee's limit at its angle have a sloped limit or are stepped one by one."""
    robot = make_robot_backend("mujoco", 2, fixed_base=True)
    slow = make_robot_backend("mujoco", 2, fixed_base=True, decimation=1)
    for each in (robot, slow):
        each.set_gains(np.full((2, 12), 400.0), np.full((2, 12), 8.0))
    targets = np.tile(robot.nominal_pose, (2, 1))
    targets[1, 2::3] = -0.3  # a knee torque far beyond its limit
    track = robot.advance_each(np.repeat(targets[:, None], robot.decimation, axis=1))
    for step in range(robot.decimation):
        slow.advance(targets)
        np.testing.assert_allclose(track.positions[:, step], slow.state().joint_positions, atol=1e-12)
        np.testing.assert_allclose(track.torques[:, step], slow.state().joint_torques, atol=1e-9)


def test_a_robot_that_is_given_no_number_reads_nan_in_its_track():
    robot = make("mujoco")
    targets = np.tile(robot.nominal_pose, (2, robot.decimation, 1))
    targets[1, 3, 0] = np.nan
    track = robot.advance_each(targets)
    assert np.isfinite(track.positions[0]).all() and np.isnan(track.positions[1]).all()
