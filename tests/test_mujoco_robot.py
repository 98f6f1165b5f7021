"""The batched MuJoCo backend: contract, torque law, isolation and determinism, contacts, parameters, pictures."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from adc_wrappers.backends.base import RobotBackend, RobotParameters, RobotStart, RobotState
from adc_wrappers.backends.mujoco_robot import MAX_COMMAND_DELAY, MujocoRobotBackend, stepping
from adc_wrappers.backends.mujoco_robot import model as robot_model
from adc_wrappers.backends.spot_model import (
    FOOT_NAMES,
    JOINT_NAMES,
    LINK_NAMES,
    NOMINAL_POSE,
    SPOT,
    knee_torque_limit,
    spot_mjcf,
    spot_urdf,
    standing_height,
)
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.core.errors import BackendError
from adc_wrappers.testing import ConformanceError, check_backend

POSE = np.array(NOMINAL_POSE)
KNEES = np.arange(2, 12, 3)
HIPS = np.setdiff1d(np.arange(12), KNEES)
LEVEL, NOSE_DOWN = (1.0, 0.0, 0.0, 0.0), (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)


def start(n: int, height: float | None = None, quaternion: Any = LEVEL, **parts: Any) -> RobotStart:
    """The nominal stance on the ground, with parts of it replaced."""
    position = np.zeros((n, 3))
    position[:, 2] = standing_height(NOMINAL_POSE) if height is None else height
    joints = np.tile(POSE, (n, 1))
    values = RobotStart(
        position, np.tile(quaternion, (n, 1)), np.zeros((n, 3)), np.zeros((n, 3)), joints, np.zeros((n, 12))
    )
    return values._replace(**parts)


def shaken(n: int, rng: np.random.Generator) -> RobotStart:
    """Stances that differ from env to env, near the ground."""
    return start(n, 0.52)._replace(
        joint_positions=POSE + rng.normal(0.0, 0.1, (n, 12)), base_linear_velocity=rng.normal(0.0, 0.3, (n, 3))
    )


def targets(n: int, steps: int, rng: np.random.Generator, reach: float = 0.9) -> list[np.ndarray]:
    return [POSE + reach * rng.uniform(-1.0, 1.0, (n, 12)) for _ in range(steps)]


def copy(state: RobotState) -> RobotState:
    return RobotState(*(np.array(values) for values in state))


def run(backend: MujocoRobotBackend, begin: RobotStart, commands: list[np.ndarray]) -> list[RobotState]:
    backend.reset(begin)
    path = []
    for command in commands:
        backend.advance(command)
        path.append(copy(backend.state()))
    return path


def assert_same(one: RobotState, other: RobotState, rows: Any = slice(None)) -> None:
    """Bit for bit."""
    for name, a, b in zip(RobotState._fields, one, other, strict=True):
        np.testing.assert_array_equal(a[rows], b[rows], err_msg=name)


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
    n = MAX_COMMAND_DELAY + 1
    begin, commands = shaken(n, rng), targets(n, 8, rng, reach=1.6)
    delays = np.arange(n)
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
        np.testing.assert_allclose([s.joint_positions[row] for s in by_policy], path[9::10], atol=1e-8)
        np.testing.assert_allclose([s.joint_torques[row] for s in by_policy], torques[9::10], atol=1e-6)
        before = np.concatenate((begin.joint_positions[row][None], path[:-1]))
        hips += int((np.abs(torques[:, HIPS]) == 45.0).sum())
        knees += int((np.abs(torques[:, KNEES]) == knee_torque_limit(before[:, KNEES])).sum())
    assert hips > 10, "the hip limit never acted: this test proves nothing"
    assert knees > 10, "the knee limit never acted: this test proves nothing"


def test_one_call_per_policy_step_gives_the_bits_of_one_call_per_physics_step(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    begin, commands = shaken(48, rng), targets(48, 15, rng, reach=1.0)
    begins: list[int] = []
    carefully = stepping.BatchStepper._run_carefully
    monkeypatch.setattr(
        stepping.BatchStepper,
        "_run_carefully",
        lambda self, c, first, track: (begins.extend(first.tolist()), carefully(self, c, first, track))[1],
    )
    coarse = run(MujocoRobotBackend(48), begin, commands)
    assert 0 in begins and 10 in begins and any(0 < step < 10 for step in begins), "every way of stepping must be taken"
    fine = run(MujocoRobotBackend(48, decimation=1), begin, [c for c in commands for _ in range(10)])
    for one, other in zip(coarse, fine[9::10], strict=True):
        assert_same(one, other)


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


# Determinism and isolation


def test_runs_repeat_bit_for_bit_whatever_the_threads() -> None:
    rng = np.random.default_rng(7)
    begin, commands = shaken(9, rng), targets(9, 20, rng)
    first = run(MujocoRobotBackend(9, nthread=1), begin, commands)
    for threads in (1, 2, 3):
        for one, other in zip(first, run(MujocoRobotBackend(9, nthread=threads), begin, commands), strict=True):
            assert_same(one, other)


def test_a_robot_does_not_feel_the_others() -> None:
    rng = np.random.default_rng(8)
    begin, commands = shaken(5, rng), targets(5, 20, rng)
    crowd = MujocoRobotBackend(5)
    heavy = RobotParameters(friction=np.full(4, 0.2), base_mass_offset=np.full(4, 3.0), command_delay=np.full(4, 2))
    crowd.set_parameters(heavy, np.arange(4))
    path = run(crowd, begin, commands)
    alone = run(MujocoRobotBackend(1), RobotStart(*(part[4:] for part in begin)), [c[4:] for c in commands])
    for one, other in zip(path, alone, strict=True):
        for name, a, b in zip(RobotState._fields, one, other, strict=True):
            np.testing.assert_array_equal(a[4], b[0], err_msg=name)


BROKEN: dict[str, dict[str, float]] = {
    "NaN angle": {"joint_positions": np.nan},
    "NaN place": {"base_position": np.nan},
    "zero quaternion": {"base_quaternion": 0.0},
    "infinite speed": {"joint_velocities": np.inf},
    "absurd speed": {"base_angular_velocity": 1e8},
    "speed that overflows": {"base_linear_velocity": 1e300},
}


@pytest.mark.parametrize("engine_decides", [False, True])
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_robot_reads_nan_and_disturbs_nobody(
    case: str, engine_decides: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if engine_decides:
        monkeypatch.setattr(stepping.BatchStepper, "sound", lambda self: ~self._batch.warning[:, :, 1].any(axis=1))
    rng = np.random.default_rng(9)
    begin, commands = shaken(4, rng), targets(4, 8, rng)
    healthy = run(MujocoRobotBackend(4), begin, commands)
    spoilt = RobotStart(*(part.copy() for part in begin))
    for field, value in BROKEN[case].items():
        getattr(spoilt, field)[2] = value
    backend = MujocoRobotBackend(4)
    others = [0, 1, 3]
    for one, other in zip(run(backend, spoilt, commands), healthy, strict=True):
        assert_same(one, other, others)
    for name, values in backend.state()._asdict().items():
        assert np.isnan(values[2]).all(), name
    for one, other in zip(run(backend, begin, commands), healthy, strict=True):
        assert_same(one, other)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_target_that_is_not_finite_breaks_its_robot_only(capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(10)
    begin, commands = shaken(3, rng), targets(3, 6, rng)
    healthy = run(MujocoRobotBackend(3), begin, commands)
    spoilt = [command.copy() for command in commands]
    spoilt[2][1, 4] = np.nan
    path = run(MujocoRobotBackend(3), begin, spoilt)
    assert_same(path[1], healthy[1])
    for one, other in zip(path[2:], healthy[2:], strict=True):
        assert_same(one, other, [0, 2])
        assert all(np.isnan(values[1]).all() for values in one)
    assert capfd.readouterr() == ("", "")


def test_resetting_one_robot_leaves_the_others() -> None:
    rng = np.random.default_rng(11)
    begin, commands = shaken(3, rng), targets(3, 8, rng)
    healthy = run(MujocoRobotBackend(3), begin, commands)
    backend = MujocoRobotBackend(3)
    backend.reset(begin)
    for command in commands[:4]:
        backend.advance(command)
    backend.reset(RobotStart(*(part[1:2] for part in begin)), np.array([1]))
    for index, command in enumerate(commands[4:]):
        backend.advance(command)
        assert_same(backend.state(), healthy[4 + index], [0, 2])


# Contacts


def touching(backend: MujocoRobotBackend, env: int = 0) -> set[str]:
    forces = backend.state().contact_forces[env]
    return {name for name, force in zip(backend.link_names, forces, strict=True) if force > 1.0}


def test_standing_loads_the_four_feet_only_with_the_robots_weight() -> None:
    backend = MujocoRobotBackend(1)
    stiff = np.full((1, 12), 400.0)
    backend.set_gains(stiff, damping_for(stiff, backend.effective_inertia()))
    backend.reset(start(1))
    assert touching(backend) == set()
    for _ in range(50):
        backend.advance(POSE[None])
    assert touching(backend) == set(FOOT_NAMES)
    assert backend.state().contact_forces.sum() == pytest.approx(SPOT.total_mass * 9.81, rel=0.1)


def test_lying_with_the_legs_up_loads_the_body_only() -> None:
    backend = MujocoRobotBackend(1)
    up = np.tile([0.0, 2.25, -0.3], 4)[None]
    backend.reset(start(1, 0.106, joint_positions=up))
    backend.advance(up)
    assert touching(backend) == {"body"}


def test_contact_lasts_for_three_physics_steps() -> None:
    backend = MujocoRobotBackend(1, decimation=1)
    backend.reset(start(1))
    for _ in range(100):
        backend.advance(POSE[None])
    assert touching(backend) == set(FOOT_NAMES)
    backend.push(np.array([[0.0, 0.0, 8.0]]), np.array([0]))
    seen = []
    for _ in range(4):
        backend.advance(POSE[None])
        seen.append(bool(touching(backend)))
    assert seen == [True, True, False, False]


# Parameters


@pytest.mark.parametrize(
    ("parameters", "robot", "options"),
    [
        (RobotParameters(friction=np.array([0.25])), SPOT, {"friction": 0.25}),
        (
            RobotParameters(base_mass_offset=np.array([4.0])),
            dataclasses.replace(
                SPOT,
                links=(
                    dataclasses.replace(
                        SPOT.links[0],
                        mass=SPOT.links[0].mass + 4.0,
                        inertia=tuple(i * (1.0 + 4.0 / SPOT.links[0].mass) for i in SPOT.links[0].inertia),
                    ),
                    *SPOT.links[1:],
                ),
            ),
            {},
        ),
    ],
    ids=["friction", "base mass"],
)
def test_a_parameter_acts_as_if_modelled(parameters: RobotParameters, robot: Any, options: dict[str, float]) -> None:
    rng = np.random.default_rng(12)
    begin, commands = shaken(2, rng), targets(2, 25, rng, reach=0.4)
    begin = RobotStart(*(np.repeat(part[:1], 2, axis=0) for part in begin))
    commands = [np.repeat(command[:1], 2, axis=0) for command in commands]
    backend = MujocoRobotBackend(2)
    backend.set_parameters(parameters, np.array([1]))
    modelled = MujocoRobotBackend(2, model=spot_mjcf(robot, visuals=False, **options))
    changed, expected = run(backend, begin, commands)[-1], run(modelled, begin, commands)[-1]
    np.testing.assert_allclose(changed.joint_positions[1], expected.joint_positions[1], atol=1e-6)
    np.testing.assert_allclose(changed.base_position[1], expected.base_position[1], atol=1e-6)
    assert np.abs(changed.joint_positions[0] - expected.joint_positions[0]).max() > 1e-3


def test_a_mass_offset_counts_from_the_model_and_not_from_the_last_one() -> None:
    rng = np.random.default_rng(13)
    begin, commands = shaken(1, rng), targets(1, 10, rng, reach=0.4)
    backend = MujocoRobotBackend(1)
    plain = run(backend, begin, commands)[-1]
    backend.set_parameters(RobotParameters(base_mass_offset=np.array([3.0])), np.array([0]))
    heavy = run(backend, begin, commands)[-1]
    backend.set_parameters(RobotParameters(base_mass_offset=np.array([0.0])), np.array([0]))
    again = run(backend, begin, commands)[-1]
    np.testing.assert_allclose(again.joint_positions, plain.joint_positions, atol=1e-8)
    assert np.abs(heavy.joint_positions - plain.joint_positions).max() > 1e-4


# Models of one's own


def test_a_urdf_and_an_mjcf_with_springs_and_motors_of_its_own_move_like_the_generated_spot(tmp_path: Path) -> None:
    rng = np.random.default_rng(14)
    begin, commands = shaken(2, rng), targets(2, 10, rng)
    begin.base_position[:, 2] = 4.0
    expected = run(MujocoRobotBackend(2), begin, commands)[-1]
    path = tmp_path / "spot.urdf"
    path.write_text(spot_urdf())
    spec = mujoco.MjSpec.from_string(spot_mjcf(stiffness=500.0, damping=3.0))
    for name in JOINT_NAMES:
        spec.joint(name).damping = 5.0 + np.zeros_like(spec.joint(name).damping)
        spec.joint(name).actfrcrange = [-1.0, 1.0]
    for model in (path, spec, spot_urdf()):
        moved = run(MujocoRobotBackend(2, model=model), begin, commands)[-1]
        for name in ("base_position", "joint_positions", "joint_torques"):
            np.testing.assert_allclose(getattr(moved, name), getattr(expected, name), atol=1e-6, err_msg=name)


def test_a_urdf_gets_a_ground_to_stand_on() -> None:
    backend = MujocoRobotBackend(1, model=spot_urdf())
    backend.reset(start(1))
    for _ in range(10):
        backend.advance(POSE[None])
    assert touching(backend) == set(FOOT_NAMES)


def test_friction_acts_on_a_model_whose_ground_is_rough() -> None:
    backend = MujocoRobotBackend(2, model=spot_urdf())
    backend.set_parameters(RobotParameters(friction=np.array([0.05, 1.0])), np.array([0, 1]))
    backend.reset(start(2))
    for step in range(40):
        if step == 20:
            backend.push(np.tile([0.0, 0.6, 0.0], (2, 1)), np.array([0, 1]))
        backend.advance(np.tile(POSE, (2, 1)))
    drift = backend.state().base_position[:, 1]
    assert drift[0] > drift[1] + 0.05


def test_a_welded_urdf_keeps_its_base() -> None:
    backend = MujocoRobotBackend(1, model=spot_urdf(), fixed_base=True, link_names=["fl_foot"])
    backend.reset(start(1))
    assert backend._stepper._batch.model.nbody == 1 + len(LINK_NAMES), "no link was merged into another"
    np.testing.assert_array_equal(backend.state().base_quaternion, [LEVEL])
    np.testing.assert_allclose(backend.effective_inertia()[0], 0.09398, atol=1e-5)
    assert backend.render().std() > 1.0
    backend.close()


def test_the_engine_does_not_reset_robots_on_its_own() -> None:
    flags = MujocoRobotBackend(1, model=spot_urdf())._stepper._batch.model.opt.disableflags
    assert flags & mujoco.mjtDisableBit.mjDSBL_AUTORESET.value


def test_named_pairs_give_the_bits_of_the_engines_own_search(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(12)
    begin, commands = shaken(6, rng), targets(6, 15, rng)
    friction = RobotParameters(friction=np.linspace(0.1, 1.0, 5))
    paths = []
    for pairs in (17, 0):
        backend = MujocoRobotBackend(6)
        assert backend._stepper._batch.model.npair == pairs
        backend.set_parameters(friction, np.arange(5))
        paths.append(run(backend, begin, commands))
        monkeypatch.setattr(robot_model, "_pair_with_ground", lambda spec, layout: None)
    assert any((state.contact_forces > 1.0).any() for state in paths[0])
    for one, other in zip(*paths, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('type="plane" size="0 0 0.05"', 'type="box" size="9 9 1" pos="0 0 -1"'),
        ('type="plane"', 'type="plane" margin="0.01"'),
        ("<contact />", '<contact><exclude body1="body" body2="fl_uleg" /></contact>'),
        ("<contact />", '<contact><pair geom1="body" geom2="fl_foot" /></contact>'),
        ("</worldbody>", '<body><geom type="box" size="1 1 1" pos="5 0 0" /></body></worldbody>'),
    ],
)
def test_what_named_pairs_cannot_say_is_left_to_the_engines_search(old: str, new: str) -> None:
    xml = spot_mjcf(visuals=False)
    assert xml.count(old) == 1
    xml = xml.replace(old, new)
    model = MujocoRobotBackend(1, model=xml)._stepper._batch.model
    assert model.npair == xml.count("<pair")
    assert (model.geom_conaffinity != 0).sum() >= 17


def test_another_robot_needs_its_own_names_and_numbers() -> None:
    xml = """<mujoco><worldbody><body name="cart"><freejoint/><geom size="0.1"/>
      <body name="arm"><joint name="elbow" axis="0 1 0"/><geom type="box" size="0.15 0.02 0.02" pos="0.15 0 0"/></body>
    </body></worldbody></mujoco>"""
    with pytest.raises(BackendError, match=r"no joint named fl_hx.*it has.*elbow.*joint_names"):
        MujocoRobotBackend(1, model=xml)
    with pytest.raises(BackendError, match=r"elbow.*nominal_pose and torque_limits"):
        MujocoRobotBackend(1, model=xml, joint_names=["elbow"])
    named: dict[str, Any] = {"joint_names": ["elbow"], "nominal_pose": [0.2], "torque_limits": [np.inf]}
    with pytest.raises(BackendError, match=r"no body named .*link_names"):
        MujocoRobotBackend(1, model=xml, **named)
    backend = MujocoRobotBackend(2, model=xml, link_names=["arm"], **named)
    none, still = np.zeros((2, 1)), np.zeros((2, 3))
    backend.reset(RobotStart(np.full((2, 3), 2.0), np.tile(LEVEL, (2, 1)), still, still, none, none))
    backend.set_gains(np.full((2, 1), 5.0), np.full((2, 1), 0.1))
    backend.advance(np.array([[0.0], [0.5]]))
    assert backend.state().joint_torques.shape == (2, 1)
    assert backend.state().joint_positions[1, 0] > backend.state().joint_positions[0, 0] + 0.01


def test_joints_that_nobody_commands_are_refused() -> None:
    with pytest.raises(BackendError, match=r"13 joints, expected 12.*fr_kn.*joint_names"):
        MujocoRobotBackend(1, joint_names=[name for name in JOINT_NAMES if name != "fr_kn"])


def test_a_fixed_base_stays_where_it_is_and_touches_nothing() -> None:
    backend = MujocoRobotBackend(1, fixed_base=True)
    backend.reset(start(1, 9.0))
    before = copy(backend.state())
    for _ in range(10):
        backend.advance(POSE[None] + 0.3)
    state = backend.state()
    np.testing.assert_array_equal(state.base_position, before.base_position)
    assert state.base_position[0, 2] == pytest.approx(standing_height(NOMINAL_POSE))
    assert not state.contact_forces.any()
    assert not state.base_linear_velocity.any()
    with pytest.raises(BackendError, match="fixed_base=False"):
        backend.push(np.zeros((1, 3)), np.array([0]))


def test_links_collide_on_request() -> None:
    folded = np.tile(POSE, (1, 1))
    folded[0, [0, 3]] = -0.78, 0.78
    reach = []
    for allowed in (False, True):
        backend = MujocoRobotBackend(1, self_collision=allowed)
        backend.reset(start(1, 4.0))
        for _ in range(25):
            backend.advance(folded)
        reach.append(float(backend.state().joint_positions[0, 3] - backend.state().joint_positions[0, 0]))
    assert reach[0] > reach[1] + 0.05


# Pictures


def test_the_camera_follows_the_robot() -> None:
    backend = MujocoRobotBackend(2, picture_size=(320, 240))
    begin = start(2)
    begin.base_position[1, :2] = 40.0, -25.0
    backend.reset(begin)
    pictures = [backend.render(env) for env in (0, 1)]
    for picture in pictures:
        assert picture.shape == (240, 320, 3)
        assert picture.dtype == np.uint8
        red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
        yellow = (red > 120) & (green > 80) & (blue < 60)
        assert 300 < yellow.sum() < 20000
        rows, columns = np.nonzero(yellow)
        assert abs(rows.mean() - 120) < 50
        assert abs(columns.mean() - 160) < 60
    backend.close()
    backend.close()
    assert backend.render(0).shape == (240, 320, 3)
    backend.close()


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "num_envs >= 1"),
        ({"physics_step": 0.0}, "physics_step > 0"),
        ({"nthread": 0}, "nthread >= 1"),
        ({"nominal_pose": [0.0]}, "nominal_pose: expected 12 numbers"),
        ({"torque_limits": [-1.0] * 12}, "torque_limits: expected positive"),
        ({"knee_joints": ["elbow"]}, "elbow not among the joints"),
        ({"model": 3}, "expected an MJCF or URDF text or path"),
        ({"model": "<mujoco><nonsense/></mujoco>"}, "cannot read the model"),
    ],
)
def test_bad_settings_raise(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BackendError, match=message):
        MujocoRobotBackend(**{"num_envs": 1, **options})


def test_bad_calls_raise_and_change_nothing() -> None:
    backend = MujocoRobotBackend(2)
    backend.reset(start(2))
    one = np.array([0])
    ok = np.full((2, 12), 40.0)
    bad_calls: list[tuple[Any, str]] = [
        (lambda: backend.advance(np.zeros(12)), r"targets: expected shape \(2, 12\), got \(12,\)"),
        (lambda: backend.set_gains(ok, ok, one), "stiffness: expected shape"),
        (lambda: backend.set_gains(ok * np.nan, ok), "stiffness: expected finite"),
        (lambda: backend.set_gains(ok, -ok), "damping: expected finite"),
        (lambda: backend.set_gains(ok * 1e5, ok * 0.0), "unstable at a physics step of 0.002"),
        (lambda: backend.set_gains(ok[:1], ok[:1], np.array([2])), "env_ids: expected indices from 0 to 1"),
        (lambda: backend.set_gains(ok[:1], ok[:1], np.array([0.5])), "env_ids"),
        (lambda: backend.reset(start(1)), "base_position: expected shape"),
        (lambda: backend.set_parameters(RobotParameters(friction=np.array([-0.1])), one), "friction"),
        (lambda: backend.set_parameters(RobotParameters(base_mass_offset=np.array([-20.0])), one), "-16.71 kg"),
        (
            lambda: backend.set_parameters(RobotParameters(command_delay=np.array([1.5])), one),
            "0 to 4 whole physics steps",
        ),
        (
            lambda: backend.set_parameters(RobotParameters(command_delay=np.array([5])), one),
            "0 to 4 whole physics steps",
        ),
    ]
    for call, message in bad_calls:
        with pytest.raises(BackendError, match=message):
            call()
    np.testing.assert_array_equal(backend.gains().stiffness, 60.0)


def test_without_mujoco_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['mujoco'] = None\n"
        "try:\n    import adc_wrappers.backends.mujoco_robot\n"
        "except ImportError as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "MissingExtraError" in done.stdout
    assert "adc-wrappers[mujoco]" in done.stdout
