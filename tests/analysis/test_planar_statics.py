"""The planar Spot at rest: its handstand, its stand on four feet, ``adc feasible`` and ``adc narrowness``."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from adc_wrappers.backends.spot_model import FOOT_RADIUS, PLANAR_SPOT, SPOT, spot_mjcf
from adc_wrappers.cli import main
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.envs.registry import make_env
from adc_wrappers.envs.spot import HANDSTAND
from adc_wrappers.feasibility import StaticStance, find_robot, smallest_action_scale
from adc_wrappers.feasibility.statics import GRAVITY, StaticRobot
from adc_wrappers.viewing.playback import make_action

TASK = "spot-planar-handstand"
LEFT = [1, 2, 7, 8]
"""Hip pitch and knee of the left legs among Spot's joints."""


@cache
def found(stiffness: float = 40.0) -> StaticStance:
    return smallest_action_scale(HANDSTAND, stiffness, robot=find_robot(TASK))


@cache
def model() -> Any:
    return mujoco.MjModel.from_xml_string(spot_mjcf(PLANAR_SPOT, ground=False))


def placed(item: StaticStance) -> Any:
    data = mujoco.MjData(model())
    pitch = 2.0 * np.arctan2(item.quaternion[2], item.quaternion[0])
    data.qpos[:] = [0.0, item.height, pitch, *item.positions]
    mujoco.mj_forward(model(), data)
    return data


def test_the_handstand_is_in_balance_by_mujocos_reckoning() -> None:
    """The weight on the one front foot, and twice the torque of one leg in every joint, hold the robot."""
    item = found()
    data, held = placed(item), np.zeros(model().nv)
    held[3:] = 2.0 * item.stiffness * (item.commands - item.positions)
    body, jacobian = model().body("f_foot").id, np.zeros((3, model().nv))
    point = data.xpos[body] - [0.0, 0.0, FOOT_RADIUS]
    assert point[2] == pytest.approx(0.0, abs=1e-9)
    mujoco.mj_jac(model(), data, jacobian, None, point, body)
    held += jacobian.T @ np.array([0.0, 0.0, PLANAR_SPOT.total_mass * GRAVITY])
    np.testing.assert_allclose(data.qfrc_bias, held, atol=1e-6)


def test_the_handstand_is_that_of_spot_with_straight_legs() -> None:
    """Same lean, same height, same torques in each leg."""
    item = found()
    joints = np.zeros((1, 12))
    joints[0, LEFT], joints[0, [4, 5, 10, 11]] = item.positions, item.positions
    balance = StaticRobot(HANDSTAND.support_feet, SPOT).balance(joints, np.zeros(1))
    np.testing.assert_allclose(balance.down[0], item.down, atol=1e-12)
    np.testing.assert_allclose(balance.torques[0, LEFT], item.torques, atol=1e-9)
    np.testing.assert_allclose(balance.torque_limits[0, LEFT], item.torque_limits, atol=1e-9)
    assert balance.height[0] == pytest.approx(item.height, abs=1e-12)


def test_it_takes_more_than_spot_whose_sideways_joints_help_and_stiff_joints_need_less() -> None:
    assert found(60.0).action_scale < found(40.0).action_scale
    assert found(40.0).action_scale > smallest_action_scale(HANDSTAND, 40.0).action_scale
    assert found().squeeze == 0.0
    assert np.rad2deg(found().tilt) <= 5.0 + 1e-9
    assert (np.abs(found().torques) <= found().torque_limits + 1e-9).all()


@pytest.mark.parametrize("stiffness", [40.0, 60.0])
def test_the_standing_command_stands_for_20_s(stiffness: float) -> None:
    env = make_env(TASK, num_envs=1, randomize=False)
    env.reset(seed=0)
    task = env.unwrapped.task
    gains = np.full((1, 4), stiffness)
    task.backend.set_gains(gains, damping_for(gains, task.backend.effective_inertia()))
    action = make_action("standing", task)
    ends = [env.step(action(np.zeros((1, 17), np.float32)))[2:4] for _ in range(1000)]
    assert not any(terminated[0] for terminated, _ in ends) and ends[-1][1][0]
    env.close()


def test_the_command_prints_and_writes_what_the_function_finds(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "stance.csv"
    assert main(["feasible", TASK, "--stiffness", "40", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert f"{found().action_scale:.3f}" in text and "torques are those of one leg" in text
    rows = list(csv.DictReader(out.open()))
    assert [row["joint"] for row in rows] == list(PLANAR_SPOT.joint_names)
    assert [float(row["command"]) for row in rows] == pytest.approx(found().commands.tolist(), rel=1e-5)


def test_narrowness_is_measured_in_the_plane_too(tmp_path: Path, capsys: Any) -> None:
    """The standing command saves starts of soft joints that random actions lose."""
    words = ["--episodes", "16", "--states", "4", "--tries", "2", "--rounds", "1", "--horizon", "40"]
    assert main(["narrowness", TASK, "--stiffness", "40", "60", *words, "--out", str(tmp_path)]) == 0
    assert "ε at K = 40" in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "narrowness.csv").open()))
    assert [float(row["stiffness"]) for row in rows] == [40.0, 60.0]
