"""The batched MuJoCo backend: contract, gains by motion, torque law."""

from __future__ import annotations

import dataclasses
from typing import Any

import mujoco
import numpy as np
import pytest
from mujoco_robot_helpers import HIPS, KNEES, NOSE_DOWN, POSE, assert_same, run, shaken, start, targets

from adc_wrappers.backends.base import MAX_COMMAND_DELAY, RobotBackend, RobotParameters, RobotStart, RobotState
from adc_wrappers.backends.mujoco import MujocoRobotBackend, stepping
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, PLANAR_SPOT, SPOT, knee_torque_limit, spot_mjcf
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.testing import ConformanceError, check_backend

# Contract


def test_shapes_names_and_types() -> None:
    backend = MujocoRobotBackend(3)
    backend.reset(start(3))
    backend.advance(np.tile(POSE, (3, 1)))
    assert isinstance(backend, RobotBackend)
    assert tuple(backend.joint_names) == JOINT_NAMES
    assert tuple(backend.link_names) == LINK_NAMES
    assert backend.policy_step == pytest.approx(0.02)
    np.testing.assert_array_equal(backend.nominal_pose, POSE)
    widths = dict(zip(RobotState._fields, (3, 4, 3, 3, 3, 12, 12, 12, len(LINK_NAMES)), strict=True))
    for name, values in backend.state()._asdict().items():
        assert values.shape == (3, widths[name]), name
        assert values.dtype == np.float64, name
        assert np.isfinite(values).all(), name
    assert backend.gains().stiffness.shape == (3, 12)
    backend.close()
    backend.close()


def test_state_arrays_are_made_once() -> None:
    backend = MujocoRobotBackend(2)
    backend.reset(start(2))
    before = [values.ctypes.data for values in backend.state()]
    backend.advance(np.tile(POSE, (2, 1)))
    assert [values.ctypes.data for values in backend.state()] == before


def test_a_start_reads_back() -> None:
    rng = np.random.default_rng(3)
    quaternion = rng.normal(size=(2, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    begin = RobotStart(
        rng.normal(size=(2, 3)) + 5.0, quaternion, rng.normal(size=(2, 3)), rng.normal(size=(2, 3)),
        POSE + rng.normal(0.0, 0.1, (2, 12)), rng.normal(size=(2, 12)),
    )  # fmt: skip
    backend = MujocoRobotBackend(4)
    backend.reset(start(4))
    backend.reset(begin, np.array([3, 1]))
    state = backend.state()
    chosen = [3, 1]
    np.testing.assert_array_equal(state.base_position[chosen], begin.base_position)
    np.testing.assert_allclose(state.base_quaternion[chosen], quaternion, atol=1e-15)
    np.testing.assert_array_equal(state.base_angular_velocity[chosen], begin.base_angular_velocity)
    np.testing.assert_array_equal(state.joint_positions[chosen], begin.joint_positions)
    np.testing.assert_array_equal(state.joint_velocities[chosen], begin.joint_velocities)
    np.testing.assert_array_equal(state.joint_positions[[0, 2]], np.tile(POSE, (2, 1)))
    matrix = np.zeros(9)
    for row, env in enumerate(chosen):
        mujoco.mju_quat2Mat(matrix, quaternion[row])
        expected = matrix.reshape(3, 3).T @ begin.base_linear_velocity[row]
        np.testing.assert_allclose(state.base_linear_velocity[env], expected, atol=1e-14)
        np.testing.assert_allclose(state.projected_gravity[env], -matrix.reshape(3, 3)[2], atol=1e-14)


def test_projected_gravity_has_the_papers_signs() -> None:
    backend = MujocoRobotBackend(2)
    begin = start(2, 2.0)
    begin.base_quaternion[1] = NOSE_DOWN
    backend.reset(begin)
    gravity = backend.state().projected_gravity
    np.testing.assert_allclose(gravity, [[0.0, 0.0, -1.0], [1.0, 0.0, 0.0]], atol=1e-12)


def test_velocities_are_in_the_bodys_frame_after_a_turn_to_the_left() -> None:
    backend = MujocoRobotBackend(1)
    turned = start(1, 3.0, (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)))
    turned.base_linear_velocity[0] = 1.0, 2.0, 0.0
    backend.reset(turned)
    np.testing.assert_allclose(backend.state().base_linear_velocity, [[2.0, -1.0, 0.0]], atol=1e-12)
    backend.push(np.array([[0.5, 0.0, 0.25]]), np.array([0]))
    np.testing.assert_allclose(backend.state().base_linear_velocity, [[2.0, -1.5, 0.25]], atol=1e-12)


def test_a_push_moves_the_chosen_robot_only() -> None:
    backend = MujocoRobotBackend(3)
    backend.reset(start(3, 2.0))
    backend.push(np.array([[0.0, 0.5, 0.0]]), np.array([1]))
    for _ in range(5):
        backend.advance(np.tile(POSE, (3, 1)))
    assert backend.state().base_position[:, 1] == pytest.approx([0.0, 0.05, 0.0], abs=2e-3)


def test_effective_inertia_has_the_known_values() -> None:
    leg = [0.09538, 0.01718]
    known = [0.09398, *leg, 0.09398, *leg, 0.08061, *leg, 0.08061, *leg]
    for options in ({}, {"fixed_base": True}):
        np.testing.assert_allclose(MujocoRobotBackend(1, **options).effective_inertia(), known, atol=1e-5)


def test_effective_inertia_includes_armature() -> None:
    joints = tuple(dataclasses.replace(j, armature=0.25) if j.name == "fl_kn" else j for j in SPOT.joints)
    inertia = MujocoRobotBackend(1, model=spot_mjcf(dataclasses.replace(SPOT, joints=joints))).effective_inertia()
    assert inertia[2] == pytest.approx(0.26718, abs=1e-5)
    assert inertia[5] == pytest.approx(0.01718, abs=1e-5)


# Gains by motion


class Probe:
    """One joint of a fixed robot without gravity; the others carry so much rotor inertia that they stand still."""

    def __init__(self, joint: int, num_envs: int = 3) -> None:
        names = [spec.name for spec in SPOT.actuated]
        joints = tuple(
            spec if spec.axis is None or spec.name == names[joint] else dataclasses.replace(spec, armature=1e3)
            for spec in SPOT.joints
        )
        self.backend: Any = MujocoRobotBackend(
            num_envs, model=spot_mjcf(dataclasses.replace(SPOT, joints=joints)), physics_step=2.5e-4, decimation=8,
            fixed_base=True, gravity=False,
        )  # fmt: skip
        self.time_step = self.backend.policy_step

    def rest(self) -> np.ndarray:
        self.backend.reset(start(self.backend.num_envs))
        return np.array(self.backend.state().joint_positions)

    def move(self, targets: np.ndarray) -> np.ndarray:
        self.backend.advance(targets)
        return np.array(self.backend.state().joint_positions)


@pytest.mark.parametrize("joint", [0, 1, 2, 9])
def test_joints_move_as_their_gains_say(joint: int) -> None:
    assert check_backend(Probe(joint), (20.0, 60.0), joints=(joint,)) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("joint", range(12))
def test_every_joint_moves_as_its_gains_say(joint: int) -> None:
    assert check_backend(Probe(joint), (20.0, 60.0), joints=(joint,)) < 0.01


def test_the_conformance_check_sees_a_write_that_does_nothing() -> None:
    probe = Probe(1)
    live = probe.backend._parameters
    written = probe.backend.gains()

    def lie(stiffness: np.ndarray, damping: np.ndarray, rows: Any) -> None:
        written.stiffness[rows], written.damping[rows] = stiffness, damping

    live.set_gains, live.gains = lie, lambda: written
    with pytest.raises(ConformanceError, match="fl_hy"):
        check_backend(probe, (20.0, 60.0), joints=(1,))


def test_gains_of_a_subset_leave_the_others() -> None:
    backend = MujocoRobotBackend(4)
    rows = np.full((2, 12), [[30.0], [50.0]])
    backend.set_gains(rows, rows / 10.0, np.array([2, 0]))
    gains = backend.gains()
    np.testing.assert_array_equal(gains.stiffness[:, 0], [50.0, 60.0, 30.0, 60.0])
    np.testing.assert_array_equal(gains.damping[[0, 2], 5], [5.0, 3.0])
    np.testing.assert_allclose(gains.damping[1], damping_for(np.full(12, 60.0), backend.effective_inertia()))


# The torque law


def reference(
    begin: RobotStart, commands: list[np.ndarray], row: int, delay: int, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """One robot stepped by hand: joint positions and torques at every physics step; the law is written out here."""
    model = mujoco.MjModel.from_xml_string(spot_mjcf(visuals=False))
    data = mujoco.MjData(model)
    data.qpos[:] = np.concatenate((begin.base_position[row], begin.base_quaternion[row], begin.joint_positions[row]))
    data.qvel[:3] = begin.base_linear_velocity[row]
    inertia = MujocoRobotBackend(1).effective_inertia()
    stiffness, damping = np.full(12, 60.0), 2.0 * np.sqrt(60.0 * inertia)
    model.actuator_biasprm[:, 2] = -damping
    stream = [begin.joint_positions[row]] * delay + [c[row] for c in commands for _ in range(steps)]
    limit = np.full(12, 45.0)
    path, torques = [], []
    for target in stream[: len(commands) * steps]:
        limit[KNEES] = knee_torque_limit(data.qpos[7:][KNEES])
        torque = np.clip(stiffness * (target - data.qpos[7:]) - damping * data.qvel[6:], -limit, limit)
        model.actuator_forcerange[:] = np.stack((-limit, limit), axis=1)
        data.ctrl[:] = target
        mujoco.mj_step(model, data)
        np.testing.assert_allclose(data.actuator_force, torque, atol=1e-10)
        path.append(data.qpos[7:].copy())
        torques.append(torque)
    return np.array(path), np.array(torques)


def test_torque_law_at_every_physics_step() -> None:
    rng = np.random.default_rng(5)
    delays = np.array([0, 1, 4, 13, MAX_COMMAND_DELAY])
    n = len(delays)
    begin, commands = shaken(n, rng), targets(n, 8, rng, reach=1.6)
    fine, coarse = MujocoRobotBackend(n, decimation=1), MujocoRobotBackend(n)
    for backend in (fine, coarse):
        backend.set_parameters(RobotParameters(command_delay=delays), np.arange(n))
    by_step = run(fine, begin, [command for command in commands for _ in range(10)])
    by_policy = run(coarse, begin, commands)
    hips = knees = 0
    for row in range(n):
        path, torques = reference(begin, commands, row, int(delays[row]), 10)
        np.testing.assert_allclose([s.joint_torques[row] for s in by_step], torques, atol=1e-6)
        np.testing.assert_allclose([s.joint_positions[row] for s in by_step], path, atol=1e-8)
        np.testing.assert_allclose([s.joint_positions[row] for s in by_policy], path[9::10], atol=1e-3)
        np.testing.assert_allclose([s.joint_torques[row] for s in by_policy], torques[9::10], atol=0.2)
        before = np.concatenate((begin.joint_positions[row][None], path[:-1]))
        hips += int((np.abs(torques[:, HIPS]) == 45.0).sum())
        knees += int((np.abs(torques[:, KNEES]) == knee_torque_limit(before[:, KNEES])).sum())
    assert hips > 10, "the hip limit never acted: this test proves nothing"
    assert knees > 10, "the knee limit never acted: this test proves nothing"


def ways_taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many robots take each policy step carefully."""
    taken: list[int] = []
    carefully = stepping.BatchStepper._run_carefully
    monkeypatch.setattr(
        stepping.BatchStepper,
        "_run_carefully",
        lambda self, control, rows, track: (taken.append(len(rows)), carefully(self, control, rows, track))[1],
    )
    return taken


def test_in_the_plane_one_call_per_policy_step_gives_the_bits_of_one_per_physics_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n, rng = 48, np.random.default_rng(6)
    begin = start(n, 0.52)._replace(
        joint_positions=rng.normal(POSE[[1, 2, 7, 8]], 0.1, (n, 4)), joint_velocities=np.zeros((n, 4))
    )
    commands = [POSE[[1, 2, 7, 8]] + rng.uniform(-1.0, 1.0, (n, 4)) for _ in range(15)]
    careful = ways_taken(monkeypatch)
    coarse = run(MujocoRobotBackend(n, robot=PLANAR_SPOT), begin, commands)
    assert 0 < max(careful) < n, "every way of stepping must be taken"
    fine = run(MujocoRobotBackend(n, robot=PLANAR_SPOT, decimation=1), begin, [c for c in commands for _ in range(10)])
    for one, other in zip(coarse, fine[9::10], strict=True):
        assert_same(one, other)


def test_a_sloped_knee_limit_is_the_tables_within_a_tenth_of_a_newton_metre(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every policy step anew from the state of robots that are stepped with the limit at every angle."""
    n, rng = 48, np.random.default_rng(6)
    coarse, fine = MujocoRobotBackend(n), MujocoRobotBackend(n, decimation=1)
    careful = ways_taken(monkeypatch)
    fine.reset(shaken(n, rng))
    same = acted = 0
    for command in targets(n, 15, rng, reach=1.0):
        coarse.load_physics_state({**fine.physics_state(), "commands": coarse.physics_state()["commands"]})
        track = coarse.advance_each(np.repeat(command[:, None], 10, axis=1))
        for step in range(10):
            limit = knee_torque_limit(fine.state().joint_positions[:, KNEES])
            fine.advance(command)
            torques = fine.state().joint_torques
            np.testing.assert_allclose(track.torques[:, step], torques, atol=0.15)
            acted += int((np.abs(torques[:, KNEES]) >= limit - 1e-9).sum())
        np.testing.assert_allclose(track.positions[:, -1], fine.state().joint_positions, atol=1e-4)
        same += int((coarse.state().joint_positions == fine.state().joint_positions).all(axis=1).sum())
    assert careful, "some robot must have left the slope"
    assert acted > 100, "the knee limit never acted: this test proves nothing"
    assert same > 100, "robots far from their limits have the same bits"


def test_a_delayed_target_arrives_late_and_is_forgotten_at_reset() -> None:
    backend = MujocoRobotBackend(2, decimation=1, fixed_base=True, gravity=False)
    backend.set_parameters(RobotParameters(command_delay=np.array([3])), np.array([1]))
    backend.reset(start(2))
    moved = []
    for _ in range(5):
        backend.advance(np.tile(POSE + 0.1, (2, 1)))
        moved.append(np.abs(backend.state().joint_torques).max(axis=1) > 1.0)
    np.testing.assert_array_equal(moved, [[True, False]] * 3 + [[True, True]] * 2)
    backend.reset(start(2))
    backend.advance(np.tile(POSE, (2, 1)))
    assert np.abs(backend.state().joint_torques).max() < 1e-9
