"""MuJoCo and PyBullet agree: joint angles from one start under the same targets, and who stands for how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from adc_wrappers.backends.base import RobotBackend
from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.backends.spot_model import NOMINAL_POSE, spot_mjcf
from benchmarks.cross_engine import CONTACTS, HEIGHTS, TOLERANCE, commands, differences, foot_creep
from benchmarks.standing import ENOUGH, STEPS, PinnedStance, rest, spread_pose, stable_stance, survival

ROBOTS = 8
POSE = np.asarray(NOMINAL_POSE)
ENGINES = ("mujoco", "pybullet")


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[RobotBackend, RobotBackend]]:
    pair = make_robot_backend("mujoco", ROBOTS), make_robot_backend("pybullet", ROBOTS)
    yield pair
    for backend in pair:
        backend.close()


@pytest.mark.parametrize("stiffness", [40.0, 60.0])
@pytest.mark.parametrize(("kind", "size"), [("hold", 0.0), ("step", 0.2), ("sine", 0.2), ("noise", 0.2)])
@pytest.mark.parametrize("place", HEIGHTS)
def test_joint_angles_agree_for_half_a_second(
    engines: Any, place: str, kind: str, size: float, stiffness: float
) -> None:
    offsets = commands(kind, size, ROBOTS, seed=11)
    found = differences(*engines, HEIGHTS[place], stiffness, offsets)
    assert found.max() <= TOLERANCE


@pytest.mark.parametrize(("kind", "size"), [("step", 0.9), ("sine", 0.9), ("noise", 0.5)])
def test_large_motions_in_the_air_agree(engines: Any, kind: str, size: float) -> None:
    """The whole reach of the paper preset, joint stops and torque limits included."""
    found = differences(*engines, HEIGHTS["air"], 60.0, commands(kind, size, ROBOTS, seed=11))
    assert found.max() <= TOLERANCE


def test_the_comparison_sees_other_gains(engines: Any) -> None:
    """Joints that are a quarter softer are more than the tolerance allows, where the robot stands."""
    offsets = commands("hold", 0.0, ROBOTS, seed=0)
    mujoco, bullet = engines
    soft = differences(mujoco, mujoco, HEIGHTS["ground"], 40.0, offsets)
    assert soft.max() == 0.0
    paths = {}
    for backend, stiffness in ((mujoco, 40.0), (bullet, 30.0)):
        differences(backend, backend, HEIGHTS["ground"], stiffness, offsets)
        paths[stiffness] = np.array(backend.state().joint_positions)
    assert np.abs(paths[40.0] - paths[30.0]).max() > TOLERANCE


def test_the_comparison_sees_soft_contacts(engines: Any) -> None:
    """MuJoCo's own contact settings, under which feet creep, are why the model has others."""
    (own,) = (options for name, options in CONTACTS.items() if "MuJoCo's own" in name)
    creeping = make_robot_backend("mujoco", ROBOTS, model=spot_mjcf(visuals=False, **own))
    offsets = commands("hold", 0.0, ROBOTS, seed=0)
    assert differences(creeping, engines[1], HEIGHTS["ground"], 60.0, offsets).max() > 2.0 * TOLERANCE
    assert foot_creep(creeping, 2.0) > 3.0 * foot_creep(engines[0], 2.0)


# --- standing --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stances() -> dict[float, PinnedStance]:
    """Stances that are stable at the target and the start stiffness."""
    found = {stiffness: stable_stance(stiffness) for stiffness in (40.0, 60.0)}
    return {stiffness: pair[1] for stiffness, pair in found.items() if pair is not None}


def test_stances_at_both_ends_of_the_curriculum(stances: dict[float, PinnedStance]) -> None:
    np.testing.assert_array_equal(stances[60.0].pose, POSE)
    assert np.abs(stances[40.0].pose - POSE).max() < 0.3
    for stiffness, stance in stances.items():
        assert stance.stiffness(stiffness) >= ENOUGH
    assert PinnedStance(POSE).stiffness(40.0) < 0.0


def test_the_torques_of_a_stance_carry_the_robot() -> None:
    """Against what an engine's stiff joints apply at the knees; hips may push against each other through the ground."""
    backend = make_robot_backend("pybullet", 1)
    begin = rest(POSE)
    gains = np.full((1, 12), 500.0)
    backend.set_gains(gains, 0.03 * gains)
    backend.reset(begin)
    targets = PinnedStance(POSE).command(500.0)[None]
    for _ in range(50):
        backend.advance(targets)
    held = np.array(backend.state().joint_torques[0])
    backend.close()
    knees = [2, 5, 8, 11]
    np.testing.assert_allclose(held[knees], PinnedStance(POSE).torques[knees], rtol=0.1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_compensating_command_stands_for_20_seconds(engine: str, stances: dict[float, PinnedStance]) -> None:
    """At K = 40 and K = 60, inside |a| <= 1 (``survival`` refuses more)."""
    targets = np.stack([stance.command(stiffness) for stiffness, stance in stances.items()])
    lives = survival(engine, list(stances), targets, [rest(stance.pose) for stance in stances.values()])
    assert STEPS == 1000
    assert dict(zip(stances, lives.tolist(), strict=True)) == {40.0: STEPS, 60.0: STEPS}


@pytest.mark.slow
def test_a_zero_action_stands_only_on_stiff_joints() -> None:
    stiffnesses = (30.0, 40.0, 50.0, 60.0, 120.0)
    zero, start = np.tile(POSE, (5, 1)), [rest(POSE)] * 5
    lives = {engine: survival(engine, stiffnesses, zero, start) for engine in ENGINES}
    for found in lives.values():
        assert (found[:3] < 150).all()
        assert (np.diff(found[:3]) > 0).all()
        assert (found[3:] == STEPS).all()
    np.testing.assert_allclose(lives["mujoco"], lives["pybullet"], rtol=0.1)


def test_a_command_out_of_reach_is_refused() -> None:
    with pytest.raises(ValueError, match="which would be clipped"):
        survival("mujoco", (40.0,), POSE[None] + 1.0, [rest(POSE)])


def test_spreading_the_legs_keeps_left_and_right_alike() -> None:
    pose = spread_pose(0.2).reshape(4, 3)
    np.testing.assert_array_equal(pose[[0, 2], 1:], pose[[1, 3], 1:])
    np.testing.assert_array_equal(pose[:, 0], POSE[::3])
    assert (pose[:2, 1] < POSE[1]).all()
    assert (pose[2:, 1] > POSE[7]).all()
