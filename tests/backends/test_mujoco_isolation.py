"""The batched MuJoCo backend: determinism, isolation, contacts, parameters."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mujoco_robot_helpers import POSE, assert_same, run, shaken, start, targets, touching

from adc_wrappers.backends.base import RobotParameters, RobotStart, RobotState
from adc_wrappers.backends.mujoco import MujocoRobotBackend, stepping
from adc_wrappers.backends.spot_model import FOOT_NAMES, SPOT, spot_mjcf
from adc_wrappers.core.actuators import damping_for

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
