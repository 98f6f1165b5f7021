"""Spot's observation, reward terms and success as functions of a state, against values worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from spot_helpers import LEVEL, NOSE_DOWN, POSE, TAIL_DOWN, fake_task, link, make_state

from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.backends.spot_model import FOOT_NAMES, FOOT_RADIUS, LINK_NAMES, link_poses
from adc_wrappers.envs.spot import HANDSTAND, HINDSTAND
from adc_wrappers.envs.spot.body import feet_in_body, feet_in_world, touchdown_height
from adc_wrappers.envs.spot.rewards import REWARD_TERMS, RewardInputs, StandStep
from adc_wrappers.envs.spot.terms import (
    any_contact,
    gravity_error,
    in_stance,
    observation,
    only_contact,
    tilt,
    touching_links,
)

HALF = np.sqrt(0.5)
RNG = np.random.default_rng


def turned(angle: float) -> tuple[float, float, float]:
    """Gravity in the body of a robot that is this far from nose down."""
    return (np.cos(angle), 0.0, -np.sin(angle))


def random_state(n: int, seed: int = 0) -> RobotState:
    rng = RNG(seed)
    gravity, quaternion = rng.normal(size=(n, 3)), rng.normal(size=(n, 4))
    return RobotState(
        base_position=rng.normal(size=(n, 3)),
        base_quaternion=quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True),
        base_linear_velocity=rng.normal(size=(n, 3)),
        base_angular_velocity=rng.normal(size=(n, 3)),
        projected_gravity=gravity / np.linalg.norm(gravity, axis=1, keepdims=True),
        joint_positions=POSE + rng.normal(0.0, 0.3, (n, 12)),
        joint_velocities=rng.normal(size=(n, 12)),
        joint_torques=rng.normal(0.0, 20.0, (n, 12)),
        contact_forces=np.maximum(rng.normal(0.0, 20.0, (n, len(LINK_NAMES))), 0.0),
    )


def as_torch(values: Any) -> Any:
    return type(values)(*(torch.as_tensor(value) for value in values))


# --- observation -----------------------------------------------------------------------------------------------------


def test_observation_entry_by_entry() -> None:
    task, robots = fake_task()
    numbers = np.arange(1.0, 34.0) / 100.0
    robots.now = make_state(
        base_linear_velocity=numbers[:3],
        base_angular_velocity=numbers[3:6],
        projected_gravity=numbers[6:9],
        joint_positions=POSE + numbers[9:21],
        joint_velocities=numbers[21:33],
        base_position=[7.0, 8.0, 9.0],
        joint_torques=77.0,
    )
    action = np.linspace(-0.5, 0.6, 12, dtype=np.float32)
    task.advance(action[None])
    seen = task.observe()
    assert seen.shape == (1, 45)
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen[0], [*numbers, *action], atol=1e-7)


def test_the_last_action_is_seen_clipped_and_forgotten_at_reset() -> None:
    task, _ = fake_task()
    task.advance(np.full((1, 12), 3.0, np.float32))
    np.testing.assert_array_equal(task.observe()[0, 33:], 1.0)
    task.begin(np.array([0]), RNG(0))
    np.testing.assert_array_equal(task.observe()[0, 33:], 0.0)


# --- which way is down -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_nose_down_is_the_handstand_and_tail_down_the_hind_leg_stand(engine: str) -> None:
    """Through each engine: a quarter turn about the axis that points to the left puts the nose down."""
    backend = make_robot_backend(engine, 2)
    still = np.zeros((2, 3))
    high = np.tile([0.0, 0.0, 2.0], (2, 1))
    quaternion = np.array([[HALF, 0.0, HALF, 0.0], [HALF, 0.0, -HALF, 0.0]])
    backend.reset(RobotStart(high, quaternion, still, still, np.tile(POSE, (2, 1)), np.zeros((2, 12))))
    state = backend.state()
    feet = feet_in_world(state.base_position, state.base_quaternion, state.joint_positions)
    front_below_hind = feet[:, :2, 2].max(axis=1) < feet[:, 2:, 2].min(axis=1)
    np.testing.assert_array_equal(front_below_hind, [True, False])
    np.testing.assert_allclose(gravity_error(state, HANDSTAND.gravity), [0.0, 2.0], atol=1e-7)
    np.testing.assert_allclose(gravity_error(state, HINDSTAND.gravity), [2.0, 0.0], atol=1e-7)
    backend.close()


def test_stances_carry_and_lift_the_right_feet() -> None:
    assert set(HANDSTAND.support_feet) == set(HINDSTAND.lifted_feet) == {"fl_foot", "fr_foot"}
    assert set(HANDSTAND.lifted_feet) == set(HINDSTAND.support_feet) == {"hl_foot", "hr_foot"}


@pytest.mark.parametrize("degrees", [0.0, 1e-6, 19.0, 90.0, 180.0])
def test_tilt_is_the_angle(degrees: float) -> None:
    state = make_state(projected_gravity=turned(np.deg2rad(degrees)))
    assert np.rad2deg(tilt(state, NOSE_DOWN))[0] == pytest.approx(degrees, abs=1e-9)


# --- reward terms ----------------------------------------------------------------------------------------------------

ACTION, LAST_ACTION = np.full(12, 0.3), np.full(12, 0.1)


def moved_robot() -> tuple[RobotState, RewardInputs]:
    """A robot in the middle of a step, and the moment before: it has slid 4 mm along x and 3 mm along y."""
    state = make_state(
        touching=("fl_foot", "hr_foot"),
        base_position=[0.004, 0.003, 0.55],
        base_linear_velocity=[1.0, 2.0, -2.0],
        base_angular_velocity=[0.5, -1.0, 2.0],
        joint_velocities=0.5,
        joint_torques=10.0,
    )
    before = make_state()
    inputs = RewardInputs(
        LAST_ACTION[None], np.full((1, 12), 0.1), np.array([[0.0, 0.0, 0.55]]), before.base_quaternion, POSE[None]
    )
    return state, inputs


BY_HAND = {
    "orientation": np.sqrt(2.0),  # from level to nose down
    "height": 0.2**2,  # 0.55 m instead of 0.75 m
    "lifted_feet_contact": 1.0,
    "linear_velocity": 1.0 + 4.0 + 4.0,
    "angular_velocity": 0.25 + 1.0 + 4.0,
    "torque": 10.0 * np.sqrt(12.0),
    "action_rate": 12 * 0.2**2,
    "fall": 0.0,
    "support_feet_in_air": 0.0,
    "foot_slip": 2 * 0.005 / 0.02,  # two feet touch, each has moved by 5 mm in 20 ms
    "joint_acceleration": 0.4 / 0.02 * np.sqrt(12.0),
    "joint_velocity": 0.5 * np.sqrt(12.0),
}
PAPER = {
    "orientation": -1.0, "height": -0.5, "lifted_feet_contact": -10.0, "linear_velocity": -0.01,
    "angular_velocity": -0.05, "torque": -5e-4, "action_rate": -0.01, "fall": -500.0,
}  # fmt: skip
AUTHORS = {
    **PAPER, "support_feet_in_air": -0.1, "foot_slip": -0.5, "joint_acceleration": -1e-4, "joint_velocity": -1e-2,
}  # fmt: skip


def task_after_the_move(preset: str, **settings: Any) -> Any:
    """A task that has made that step."""
    task, robots = fake_task(preset=preset, **settings)
    state, inputs = moved_robot()
    robots.now = make_state(base_position=[0.0, 0.0, 0.55], joint_velocities=0.1)
    task.advance(inputs.action.astype(np.float32))
    task.advance(ACTION[None].astype(np.float32))  # remembers the moment before
    robots.now = state
    task.look()
    return task, robots


@pytest.mark.parametrize(("preset", "weights"), [("paper", PAPER), ("authors", AUTHORS)])
def test_every_term_of_a_preset(preset: str, weights: dict[str, float]) -> None:
    task, _ = task_after_the_move(preset)
    terms = task.reward_terms()
    values = dict(BY_HAND)
    if preset == "authors":
        values["angular_velocity"] = 0.25 + 4.0  # pitching is free
    assert terms.keys() == weights.keys()
    for name, weight in weights.items():
        assert terms[name][0] == pytest.approx(0.02 * weight * values[name], rel=1e-5, abs=1e-12), name


def test_terms_that_are_on_or_off() -> None:
    task, robots = fake_task(preset="authors", scale_by_dt=False)
    wanted = {(): (0.0, -0.1, 0.0), ("fl_foot",): (0.0, 0.0, 0.0), ("hl_foot", "fr_foot"): (-10.0, 0.0, 0.0)}
    wanted[("fr_foot", "body")] = (0.0, 0.0, -500.0)
    for touching, (lifted, air, fall) in wanted.items():
        robots.now = make_state(touching=touching)
        task.look()
        terms = task.reward_terms()
        found = [terms[name][0] for name in ("lifted_feet_contact", "support_feet_in_air", "fall")]
        assert found == pytest.approx([lifted, air, fall]), touching


def test_a_step_is_the_stance_on_one_foot() -> None:
    task, robots = fake_task(preset="authors", scale_by_dt=False, weights={"single_support": 1.0})
    upright = (1.0, 0.0, 0.0)
    for touching, gravity, expected in (
        (("fl_foot",), upright, 1.0),
        (("fr_foot",), upright, 1.0),
        (("fl_foot", "fr_foot"), upright, 0.0),
        (("fl_foot", "hl_foot"), upright, 0.0),
        ((), upright, 0.0),
        (("fl_foot",), (0.0, 0.0, -1.0), 0.0),
    ):
        robots.now = make_state(touching=touching, projected_gravity=np.array([gravity]))
        task.look()
        assert task.reward_terms()["single_support"][0] == expected, (touching, gravity)


def test_a_touch_counts_above_one_newton() -> None:
    state = make_state()
    state.contact_forces[0, link("hl_foot")] = 1.0
    assert not any_contact(state, [link("hl_foot")])[0]
    state.contact_forces[0, link("hl_foot")] = 1.001
    assert any_contact(state, [link("hl_foot")])[0]


def test_scaling_by_dt_and_the_cost_of_a_fall() -> None:
    def fall_and_orientation(**settings: Any) -> tuple[float, float]:
        task, robots = fake_task(**settings)
        robots.now = make_state(touching=("body",))
        task.look()
        terms = task.reward_terms()
        return float(terms["fall"][0]), float(terms["orientation"][0])

    root = np.sqrt(2.0)
    assert fall_and_orientation() == pytest.approx((-10.0, -0.02 * root))
    assert fall_and_orientation(scale_by_dt=False) == pytest.approx((-500.0, -root))
    assert fall_and_orientation(fall_cost=50.0) == pytest.approx((-50.0, -0.02 * root))
    assert fall_and_orientation(fall_cost=50.0, scale_by_dt=False) == pytest.approx((-50.0, -root))
    assert fall_and_orientation(weights={"orientation": -5.0}) == pytest.approx((-10.0, -0.1 * root))


# --- the same functions on torch -------------------------------------------------------------------------------------


def reward_inputs(n: int) -> dict[str, Any]:
    rng, past = RNG(4), random_state(n, 5)
    before = RewardInputs(
        rng.normal(size=(n, 12)), past.joint_velocities, past.base_position, past.base_quaternion, past.joint_positions
    )
    action, fallen = rng.normal(size=(n, 12)), rng.uniform(size=n) < 0.5
    return {"before": before, "action": action, "fallen": fallen}


def judged(state: RobotState) -> dict[str, Any]:
    """What a step's judge makes of a state."""
    return {"touching": touching_links(state), "holds": in_stance(state, HANDSTAND.gravity, [4, 8])}


def test_torch_gives_the_numbers_of_numpy() -> None:
    n = 50
    state, inputs = random_state(n), reward_inputs(n)
    state.projected_gravity[:5], state.contact_forces[:5] = HANDSTAND.gravity, 0.0
    state.contact_forces[:5, [4, 8]] = 50.0  # some are in the stance
    state.contact_forces[:2, 4] = 0.0  # on one foot
    state.joint_velocities[5:] *= 20.0  # and some are too fast, too strong and land too hard
    state.joint_torques[5:] *= 20.0
    state.contact_forces[5:9, 4] = 600.0
    tensors = {"before": as_torch(inputs["before"])}
    tensors |= {name: torch.as_tensor(inputs[name]) for name in ("action", "fallen")}
    constants: dict[str, Any] = {
        "gravity": HANDSTAND.gravity, "height": 0.75, "lifted": [12, 16], "support": [4, 8], "feet": [4, 8, 12, 16],
        "angular_axes": [0, 2], "policy_step": 0.02,
    }  # fmt: skip
    here = StandStep(state=state, **inputs, **judged(state), **constants)
    there = StandStep(state=as_torch(state), **tensors, **judged(as_torch(state)), **constants)
    pairs = [(name, term(here), term(there)) for name, term in REWARD_TERMS.items()]
    functions: dict[str, Any] = {
        "observation": lambda s, to: observation(s, to(POSE), to(inputs["action"])),
        "tilt": lambda s, to: tilt(s, HANDSTAND.gravity),
        "any_contact": lambda s, to: any_contact(s, [3, 5]),
        "only_contact": lambda s, to: only_contact(s, list(range(16))),
        "feet_in_body": lambda s, to: feet_in_body(s.joint_positions),
        "feet_in_world": lambda s, to: feet_in_world(s.base_position, s.base_quaternion, s.joint_positions),
        "touchdown_height": lambda s, to: touchdown_height(s.base_quaternion, s.joint_positions),
    }
    pairs += [(name, f(state, np.asarray), f(as_torch(state), torch.as_tensor)) for name, f in functions.items()]
    for name, ours, theirs in pairs:
        assert isinstance(theirs, torch.Tensor), name
        assert len(np.unique(ours)) > 1, f"{name}: nothing to compare"
        np.testing.assert_allclose(theirs.numpy(), ours, rtol=1e-12, atol=1e-12, err_msg=name)


def test_single_precision_stays_single() -> None:
    single = RobotState(*(torch.as_tensor(value).float() for value in random_state(3)))
    seen = observation(single, torch.as_tensor(POSE).float(), torch.zeros(3, 12))
    assert seen.dtype == torch.float32
    assert feet_in_body(single.joint_positions).dtype == torch.float32


# --- contacts and feet -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("touching", "expected"),
    [
        ((), False),
        (("fl_foot",), True),
        (("fl_foot", "fr_foot"), True),
        (("fl_foot", "fr_foot", "hl_foot"), False),
        (("fl_foot", "fr_foot", "fr_lleg"), False),
        (("body",), False),
    ],
)
def test_only_contact(touching: tuple[str, ...], expected: bool) -> None:
    front = [link("fl_foot"), link("fr_foot")]
    assert bool(only_contact(make_state(touching=touching), front)[0]) is expected


def test_feet_are_where_the_kinematics_of_the_model_have_them() -> None:
    state = random_state(20)
    ours = feet_in_body(state.joint_positions)
    world = feet_in_world(state.base_position, state.base_quaternion, state.joint_positions)
    for row in range(20):
        poses = link_poses(state.joint_positions[row])
        expected = np.stack([poses[name][:3, 3] for name in FOOT_NAMES])
        np.testing.assert_allclose(ours[row], expected, atol=1e-12)
        w, x, y, z = state.base_quaternion[row]
        skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        rotation = np.eye(3) + 2.0 * w * skew + 2.0 * skew @ skew
        np.testing.assert_allclose(world[row], state.base_position[row] + expected @ rotation.T, atol=1e-12)


def test_at_touchdown_height_the_lowest_foot_touches() -> None:
    state = random_state(20)
    height = touchdown_height(state.base_quaternion, state.joint_positions)
    position = np.stack([np.zeros(20), np.zeros(20), height], axis=1)
    feet = feet_in_world(position, state.base_quaternion, state.joint_positions)
    np.testing.assert_allclose(feet[..., 2].min(axis=1), FOOT_RADIUS, atol=1e-12)


def test_level_is_neither_stance() -> None:
    state = make_state(projected_gravity=LEVEL)
    for target in (NOSE_DOWN, TAIL_DOWN):
        assert gravity_error(state, target)[0] == pytest.approx(np.sqrt(2.0))
