"""Static stances on two feet, checked by MuJoCo, and ``adc feasible``."""

from __future__ import annotations

import csv
from functools import cache

import mujoco
import numpy as np
import pytest

from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.backends.mujoco_robot import MujocoRobotBackend
from adc_wrappers.backends.spot_model import (
    FOOT_NAMES,
    FOOT_RADIUS,
    JOINT_NAMES,
    LINK_NAMES,
    NOMINAL_POSE,
    SPOT,
    knee_torque_limit,
    spot_mjcf,
)
from adc_wrappers.cli import main
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.spot import HANDSTAND, HINDSTAND
from adc_wrappers.envs.spot.terms import only_contact, tilt
from adc_wrappers.feasibility import InfeasibleStanceError, smallest_action_scale
from adc_wrappers.feasibility.action_scale import _Postures
from adc_wrappers.feasibility.statics import StaticRobot

STANCES = {"handstand": HANDSTAND, "hindstand": HINDSTAND}


@cache
def _found(name, stiffness, options):
    return smallest_action_scale(STANCES[name], stiffness, **dict(options))


def found(name="handstand", stiffness=40.0, **options):
    return _found(name, stiffness, tuple(options.items()))


@cache
def model():
    return mujoco.MjModel.from_xml_string(spot_mjcf(ground=False))


def placed(item):
    """MuJoCo's robot in the posture that was found, with its feet on z = 0."""
    data = mujoco.MjData(model())
    data.qpos[2], data.qpos[3:7], data.qpos[7:] = item.height, item.quaternion, item.positions
    mujoco.mj_forward(model(), data)
    return data


def ground_forces(item):
    """Half the weight on each foot, and the squeeze along y, left foot first."""
    half = 0.5 * SPOT.total_mass * 9.81
    return [np.array([0.0, -item.squeeze, half]), np.array([0.0, item.squeeze, half])]


@pytest.mark.parametrize("name", STANCES)
def test_the_stance_is_in_balance_by_mujocos_reckoning(name):
    item = found(name)
    data = placed(item)
    held = np.zeros(model().nv)
    held[6:] = item.stiffness * (item.commands - item.positions)  # the PD law at rest
    for foot, force in zip(item.stance.support_feet, ground_forces(item), strict=True):
        body = model().body(foot).id
        point = data.xpos[body] - [0.0, 0.0, FOOT_RADIUS]
        assert point[2] == pytest.approx(0.0, abs=1e-9)
        jacobian = np.zeros((3, model().nv))
        mujoco.mj_jac(model(), data, jacobian, None, point, body)
        held += jacobian.T @ force
    np.testing.assert_allclose(data.qfrc_bias, held, atol=1e-6)  # at rest the bias is gravity's


@pytest.mark.parametrize("name", STANCES)
def test_the_stance_keeps_the_constraints(name):
    item = found(name)
    lower, upper = np.array([(joint.lower, joint.upper) for joint in SPOT.actuated]).T
    assert (item.positions >= lower).all() and (item.positions <= upper).all()
    limits = np.where([n.endswith("kn") for n in JOINT_NAMES], knee_torque_limit(item.positions), 45.0)
    assert (np.abs(item.torques) <= limits + 1e-9).all()
    assert np.rad2deg(item.tilt) <= 5.0 + 1e-9
    half = 0.5 * SPOT.total_mass * 9.81
    assert abs(item.squeeze) <= 0.3 * half + 1e-9
    data = placed(item)
    body_x = data.xmat[model().body("body").id].reshape(3, 3)[:, 0]
    assert np.sign(body_x[2]) == (-1 if name == "handstand" else 1)
    assert np.rad2deg(np.arccos(abs(body_x[2]))) == pytest.approx(np.rad2deg(item.tilt), abs=1e-4)


@pytest.mark.parametrize("name", STANCES)
def test_the_clearance_is_what_the_engine_measures(name):
    item = found(name)
    xml = spot_mjcf(visuals=False)
    engine = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(engine)
    data.qpos[2], data.qpos[3:7], data.qpos[7:] = item.height, item.quaternion, item.positions
    mujoco.mj_forward(engine, data)
    ground = engine.geom("ground").id
    near = {foot.replace("foot", "lleg") for foot in item.stance.support_feet} | set(item.stance.support_feet)
    heights = {}
    for geom in range(engine.ngeom):
        link = engine.body(engine.geom_bodyid[geom]).name
        if geom != ground:
            height = mujoco.mj_geomDistance(engine, data, geom, ground, 2.0, None)
            heights[link] = min(height, heights.get(link, np.inf))
    assert set(heights) == set(LINK_NAMES)
    assert min(h for link, h in heights.items() if link not in near) == pytest.approx(item.clearance, abs=1e-6)
    assert item.clearance >= 0.05 - 1e-9
    assert min(heights[link] for link in near if link.endswith("lleg")) > 0.0


@pytest.mark.parametrize(("name", "stiffness"), [("handstand", 40.0), ("handstand", 60.0), ("hindstand", 40.0)])
def test_the_pd_law_holds_the_stance_for_a_moment_and_the_task_counts_it(name, stiffness):
    item = found(name, stiffness)
    wrong = item.commands + 0.05 * np.sign(item.offsets)
    backend = MujocoRobotBackend(2, nthread=1)
    gains = np.full((2, 12), stiffness)
    backend.set_gains(gains, damping_for(gains, backend.effective_inertia()))
    rows, zero = np.ones((2, 1)), np.zeros((2, 3))
    sink = 0.003  # of a foot under half the weight
    start = RobotStart(
        rows * [0.0, 0.0, item.height - sink], rows * item.quaternion, zero, zero, rows * item.positions,
        np.zeros((2, 12)),
    )  # fmt: skip
    backend.reset(start)
    support = [LINK_NAMES.index(foot) for foot in item.stance.support_feet]
    for _ in range(15):  # 0.3 s; the balance itself is unstable
        backend.advance(np.stack((item.commands, wrong)))
        state = RobotState(*(np.array(part) for part in backend.state()))
        assert only_contact(state, support)[0]
    assert tilt(state, item.stance.gravity)[0] < np.deg2rad(20.0)
    drift = np.abs(state.joint_positions - item.positions).max(axis=1)
    assert drift[0] < 0.05
    assert drift[1] > 2.0 * drift[0], "a command that is off by 0.05 rad must show"


def test_the_prototypes_numbers_are_met_and_stiffer_joints_need_less():
    soft, middle, stiff = (found("handstand", k).action_scale for k in (40.0, 50.0, 60.0))
    assert soft > middle > stiff
    assert soft == pytest.approx(0.58, abs=0.06) and stiff == pytest.approx(0.49, abs=0.06)


@pytest.mark.slow
def test_a_robot_that_crouches_lower_needs_less_and_then_softer_joints_may_need_less():
    low = {k: found("handstand", k, clearance=0.02).action_scale for k in (40.0, 60.0)}
    assert all(low[k] < found("handstand", k).action_scale for k in low)
    assert low[40.0] < low[60.0]


@pytest.mark.slow
def test_looser_demands_never_need_more():
    assert found(tolerance=np.deg2rad(20.0)).action_scale < found().action_scale
    assert found(height=0.6).action_scale > found().action_scale


def test_no_posture_beats_the_search():
    """Postures around the optimum that keep the constraints: none needs a smaller scale."""
    item = found()
    robot = StaticRobot(item.stance.support_feet)
    best = np.array([*item.positions[[0, 1, 2, 6, 7, 8]], item.squeeze / (0.5 * robot.weight)])
    postures = _Postures(SPOT, item.stance)
    lower, upper = postures.bounds(0.3)
    rng = np.random.default_rng(1)
    spread = np.repeat([0.003, 0.03, 0.3], 20_000)[:, None]
    points = np.clip(best + spread * rng.standard_normal((60_000, 7)), lower, upper)
    joints, balance = postures.balance(points)
    legal = (
        (np.abs(np.arctan2(balance.down[:, 2], balance.down[:, 0])) <= np.deg2rad(5.0))
        & (balance.clearance >= 0.05)
        & (balance.shank_clearance >= 0.005)
        & (balance.apart >= 0.0)
        & (np.abs(balance.torques) <= balance.torque_limits).all(axis=1)
    )
    assert legal.sum() > 1000
    scales = np.abs(joints + balance.torques / 40.0 - np.array(NOMINAL_POSE)).max(axis=1)
    assert scales[legal].min() > item.action_scale - 1e-3


@pytest.mark.slow
def test_the_seed_does_not_decide():
    assert found(seed=1).action_scale == pytest.approx(found().action_scale, abs=2e-3)
    again = smallest_action_scale(HANDSTAND, 40.0)
    np.testing.assert_array_equal(again.positions, found().positions)


@pytest.mark.slow
def test_what_cannot_be_is_said():
    with pytest.raises(InfeasibleStanceError, match="less height or less clearance"):
        smallest_action_scale(HANDSTAND, 40.0, height=1.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stiffness": 0.0}, "stiffness: expected a positive number, got 0"),
        ({"stiffness": float("nan")}, "stiffness: expected a positive number, got nan"),
        ({"tolerance": 0.0}, "tolerance: expected 0.5° to 180°, got 0°"),
        ({"clearance": -0.1}, "clearance: expected a number that is not negative, got -0.1"),
        ({"friction": float("inf")}, "friction: expected a number"),
    ],
)
def test_bad_numbers_raise(options, message):
    with pytest.raises(CurriculumError, match=message):
        smallest_action_scale(HANDSTAND, **{"stiffness": 40.0, **options})


@pytest.mark.parametrize("press", [(0.0, 0.0), (0.6, 0.3)])
def test_standing_torques_carry_the_robot_by_mujocos_reckoning(press):
    """Forces at the feet that fit the joints' torques carry the body too, and press outwards as asked."""
    torques = StaticRobot(FOOT_NAMES).standing_torques(np.array([NOMINAL_POSE]), press)[0]
    data = mujoco.MjData(model())
    data.qpos[2], data.qpos[3], data.qpos[7:] = 0.5, 1.0, NOMINAL_POSE
    mujoco.mj_forward(model(), data)
    jacobians = []
    for foot in FOOT_NAMES:
        body, jacobian = model().body(foot).id, np.zeros((3, model().nv))
        mujoco.mj_jac(model(), data, jacobian, None, data.xpos[body] - [0.0, 0.0, FOOT_RADIUS], body)
        jacobians.append(jacobian)
    columns = np.concatenate(jacobians).T
    forces = np.linalg.lstsq(columns[6:], data.qfrc_bias[6:] - torques, rcond=None)[0]
    np.testing.assert_allclose(columns[:6] @ forces, data.qfrc_bias[:6], atol=1e-6)
    x, y, z = forces.reshape(4, 3).T
    assert (z > 0.0).all()
    np.testing.assert_allclose(x, x[-1] * np.array([-1.0, -1.0, 1.0, 1.0]), atol=1e-6)
    assert x[-1] == pytest.approx(press[0] * z.min(), rel=0.05)
    np.testing.assert_allclose(y, press[1] * z * np.array([-1.0, 1.0, -1.0, 1.0]), atol=1e-6)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_and_writes_what_the_function_finds(tmp_path, capsys):
    out = tmp_path / "deep" / "stance.csv"
    assert main(["feasible", "spot-handstand", "--stiffness", "40", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    scale = found().action_scale
    assert f"{scale:.3f}" in text
    assert f"preset paper, α = 0.9: at K = 40 suffices, |a| ≤ {scale / 0.9:.2f}" in text
    assert f"preset authors, α = 0.2: at K = 40 does not suffice, it takes |a| = {scale / 0.2:.2f}" in text
    rows = list(csv.DictReader(out.open()))
    assert [row["joint"] for row in rows] == list(JOINT_NAMES)
    assert [float(row["command"]) for row in rows] == pytest.approx(found().commands.tolist(), rel=1e-5)
    assert [float(row["action_scale"]) for row in rows] == pytest.approx([scale] * 12, rel=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["spot-handstnd"], "Did you mean 'spot-handstand'?"),
        (["cartpole"], "Choose one of 'spot-handstand', 'spot-hindstand', 'spot-planar-handstand'."),
        (["--stiffness", "-3"], "stiffness: expected a positive number, got -3"),
        (["--stiffness"], "expected at least one number"),
        (["--out", "stance.txt"], "ends in .csv, got 'stance.txt'"),
    ],
)
def test_the_command_answers_mistakes(words, message, capsys):
    assert main(["feasible", *words]) == 1
    assert message in capsys.readouterr().err
