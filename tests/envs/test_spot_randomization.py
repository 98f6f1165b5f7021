"""Domain randomization of Spot: the paper's ranges, when things are drawn, seeds, pushes, what is shown in info."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from spot_helpers import POSE, fake_task, make_state

from adc_wrappers import make_env
from adc_wrappers.backends.base import RobotStart
from adc_wrappers.backends.spot_model import FOOT_RADIUS
from adc_wrappers.envs.spot.body import feet_in_world
from adc_wrappers.envs.spot.randomization import KINDS, PAPER_KINDS
from adc_wrappers.envs.task_env import TaskEnv, TaskVectorEnv

MANY = 2000
ENGINES = ("mujoco", "pybullet")


def begun(num_envs: int = MANY, seed: int = 0, **settings: Any) -> Any:
    """A task whose robots have begun their first episode, and its robots."""
    task, robots = fake_task(num_envs, **settings)
    task.begin(np.arange(num_envs), np.random.default_rng(seed))
    return task, robots


def yaw_of(start: RobotStart) -> np.ndarray:
    w, x, y, z = start.base_quaternion.T
    np.testing.assert_array_equal([x, y], 0.0)
    return 2.0 * np.arctan2(z, w)


def drawn(kind: str) -> dict[str, tuple[np.ndarray, float, float]]:
    """What a kind of randomization draws: samples, and their range in the paper's table."""
    task, robots = begun(randomize=kind, limiter=kind == "held")
    start = robots.starts[0][0]
    shown = task.describe()
    values: dict[str, Any] = {
        "friction": lambda: {"friction": (shown["friction"], 0.3, 1.0)},
        "mass": lambda: {"mass": (shown["mass"], -2.5, 2.5)},
        "delay": lambda: {"delay": (shown["delay"], 0.0, 4.0)},
        "gains": lambda: {name: (shown[name], 0.9, 1.1) for name in ("stiffness_factor", "damping_factor")},
        "joint_friction": lambda: {
            **{f"dry{i}": (robots.parameters[0][0].joint_coulomb[:, i], 0.0, 1.0) for i in range(12)},
            **{f"wet{i}": (robots.parameters[0][0].joint_viscous[:, i], 0.0, 0.2) for i in range(12)},
        },
        "latency": lambda: {
            "states": (shown["state_latency"], 0.0, 0.02),
            "commands": (shown["command_latency"], 0.0, 0.02),
        },
        "held": lambda: {
            f"target{i}": (task.limiter.targets[:, i] - POSE[i], -b, b)
            for i, b in ((1, 0.4), (2, 0.5), (10, 0.4), (11, 0.5))  # those of hips end at their range
        },
        "pose": lambda: {
            "x": (start.base_position[:, 0], -0.5, 0.5),
            "y": (start.base_position[:, 1], -0.5, 0.5),
            "yaw": (yaw_of(start), -np.pi, np.pi),
        },
        "velocity": lambda: {
            **{f"v{i}": (start.base_linear_velocity[:, i], -b, b) for i, b in enumerate((1.5, 1.0, 0.5))},
            **{f"w{i}": (start.base_angular_velocity[:, i], -b, b) for i, b in enumerate((0.7, 0.7, 1.0))},
        },
        "joints": lambda: {
            **{f"q{i}": (start.joint_positions[:, i] - POSE[i], -0.2, 0.2) for i in range(12)},
            **{f"qd{i}": (start.joint_velocities[:, i], -2.5, 2.5) for i in range(12)},
        },
    }
    found: dict[str, tuple[np.ndarray, float, float]] = values[kind]()
    return found


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("push", "noise")])
def test_ranges_are_those_of_the_table_and_are_filled(kind: str) -> None:
    for name, (values, low, high) in drawn(kind).items():
        width = high - low
        assert values.min() >= low, name
        assert values.max() <= high, name
        assert values.min() < low + 0.02 * width, name
        assert values.max() > high - 0.02 * width, name
        assert np.mean(values) == pytest.approx((low + high) / 2.0, abs=0.04 * width), name
        assert np.std(values) == pytest.approx(
            width / np.sqrt(12.0), rel=0.25 if kind in ("delay", "latency") else 0.06
        ), name


def test_delays_are_whole_steps() -> None:
    values = drawn("delay")["delay"][0]
    assert set(values) == {0.0, 1.0, 2.0, 3.0, 4.0}


def test_held_targets_are_inside_the_joints_range_and_seen_as_the_last_action() -> None:
    task, _ = begun(200, randomize="held", limiter="robot")
    hips = task.limiter.targets[:, [0, 3, 6, 9]]
    assert np.abs(hips).max() == pytest.approx(0.785 - 0.03, abs=1e-3)
    np.testing.assert_allclose(task.observe()[:, -12:], (task.limiter.targets - POSE) / task.action_scale, atol=1e-6)
    assert not task.limiter.change.any()


def deviations(start: RobotStart) -> dict[str, float]:
    """How far a start is from nominal, by kind of randomization."""
    return {
        "pose": float(np.abs(start.base_position[:, :2]).max() + np.abs(start.base_quaternion[:, 1:]).max()),
        "velocity": float(np.abs(start.base_linear_velocity).max() + np.abs(start.base_angular_velocity).max()),
        "joints": float(np.abs(start.joint_positions - POSE).max() + np.abs(start.joint_velocities).max()),
    }


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_each_kind_is_switched_by_itself(kind: str | None) -> None:
    task, robots = begun(50, randomize=[] if kind is None else [kind])
    for _ in range(260):
        task.advance(np.zeros((50, 12), np.float32))
    moved = {name for name, size in deviations(robots.starts[0][0]).items() if size > 0.0}
    assert moved == {kind} & {"pose", "velocity", "joints"}
    shown = {
        "friction": {"friction"}, "mass": {"mass"}, "delay": {"delay"}, "latency": {"state_latency", "command_latency"},
        "gains": {"stiffness_factor", "damping_factor"}, "joint_friction": {"joint_coulomb", "joint_viscous"},
    }  # fmt: skip
    assert set(task.describe()) == shown.get(kind or "", set())
    given = {
        field.name
        for parameters, _ in robots.parameters
        for field in dataclasses.fields(parameters)
        if getattr(parameters, field.name) is not None
    }
    names = {**shown, "mass": {"base_mass_offset"}, "delay": {"command_delay"}, "latency": {"command_delay"}}
    assert given == names.get(kind or "", set())
    assert task.sensing.active == (kind in ("noise", "latency"))
    assert bool(robots.pushes) == (kind == "push")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"randomize": True}, set(PAPER_KINDS)),
        ({"randomize": True, "preset": "authors"}, {*PAPER_KINDS, "delay"}),
        ({"randomize": True, "preset": "robot"}, set(KINDS) - {"delay"}),
        ({"randomize": False}, set()),
        ({"randomize": "push"}, {"push"}),
        ({"randomize": ("mass", "delay")}, {"mass", "delay"}),
    ],
)
def test_what_a_setting_switches_on(settings: dict[str, Any], expected: set[str]) -> None:
    task, _ = fake_task(**settings)
    assert set(task.settings.randomized()) == expected


def test_seeds_decide_every_draw() -> None:
    def draws(seed: int) -> list[np.ndarray]:
        task, robots = begun(20, seed, preset="authors", randomize=True)
        task.begin(np.array([3, 5]), np.random.default_rng(seed + 100))
        for _ in range(300):
            task.advance(np.zeros((20, 12), np.float32))
        starts = [part for start, _ in robots.starts for part in start]
        pushes = [np.concatenate([change.ravel() for _, change, _ in robots.pushes])]
        return [*starts, *pushes, *task.describe().values(), np.array([when for when, _, _ in robots.pushes])]

    first, again, other = draws(0), draws(0), draws(1)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    for name, one, two in zip(RobotStart._fields, first, other, strict=False):
        assert not np.array_equal(one, two), name


def test_startup_values_stay_and_reset_values_change() -> None:
    task, robots = begun(20, preset="authors", randomize=True)
    before = task.describe()
    rng = np.random.default_rng(1)
    task.begin(np.array([2, 7]), rng)
    after = task.describe()
    for name in ("friction", "mass"):
        np.testing.assert_array_equal(after[name], before[name])
    delays = [task.describe()["delay"][[2, 7]].tolist() for _ in range(10) if task.begin(np.array([2, 7]), rng) is None]
    assert len({tuple(pair) for pair in delays}) > 1
    rest = np.setdiff1d(np.arange(20), [2, 7])
    np.testing.assert_array_equal(task.describe()["delay"][rest], before["delay"][rest])
    first, second = robots.starts[0][0], robots.starts[1][0]
    np.testing.assert_array_equal(robots.starts[1][1], [2, 7])
    assert not np.array_equal(first.joint_positions[[2, 7]], second.joint_positions)
    friction = [ids for parameters, ids in robots.parameters if parameters.friction is not None]
    assert len(friction) == 1


def test_info_shows_what_is_randomized() -> None:
    task, _ = fake_task(preset="authors", randomize=True)
    single = TaskEnv(task).reset(seed=0)[1]["randomization"]
    assert single.keys() == {"friction", "mass", "delay"}
    assert all(isinstance(value, float) for value in single.values())
    task, robots = fake_task(4, preset="authors", randomize=True)
    env = TaskVectorEnv(task)
    batch = env.reset(seed=0)[1]["randomization"]
    np.testing.assert_array_equal(batch["friction"], robots.parameters[0][0].friction)
    np.testing.assert_array_equal(batch["mass"], robots.parameters[1][0].base_mass_offset)
    np.testing.assert_array_equal(batch["delay"], robots.parameters[2][0].command_delay)
    assert batch["friction"].shape == (4,)
    robots.now = make_state(4)
    assert "randomization" not in env.step(np.zeros((4, 12), np.float32))[4]
    robots.now = make_state(4, touching=("body",))
    again = env.step(np.zeros((4, 12), np.float32))[4]["randomization"]
    np.testing.assert_array_equal(again["friction"], batch["friction"])
    plain, _ = fake_task(4)
    assert TaskVectorEnv(plain).reset(seed=0)[1] == {}


@pytest.mark.parametrize(("preset", "axes"), [("paper", [0, 1]), ("authors", [1, 2])])
def test_pushes_come_every_two_to_five_seconds_with_the_right_size_along_the_right_axes(
    preset: str, axes: list[int]
) -> None:
    count, steps = 100, 1500
    task, robots = begun(count, preset=preset, randomize="push")
    for _ in range(steps):
        task.advance(np.zeros((count, 12), np.float32))
    times: list[list[int]] = [[0] for _ in range(count)]
    for when, _, ids in robots.pushes:
        for env in ids:
            times[env].append(when)
    gaps = 0.02 * np.concatenate([np.diff(row) for row in times])
    assert gaps.min() >= 2.0 - 0.021
    assert gaps.max() <= 5.0
    assert gaps.min() < 2.1
    assert gaps.max() > 4.9
    assert gaps.mean() == pytest.approx(3.4, abs=0.2)  # a little less than 3.5: long gaps are cut off by the end
    change = np.concatenate([change for _, change, _ in robots.pushes])
    off = [axis for axis in range(3) if axis not in axes]
    np.testing.assert_array_equal(change[:, off], 0.0)
    assert np.abs(change).max() <= 0.5
    assert change[:, axes].max(axis=0) == pytest.approx([0.5, 0.5], abs=0.02)
    assert change[:, axes].min(axis=0) == pytest.approx([-0.5, -0.5], abs=0.02)


def test_a_reset_plans_its_own_push() -> None:
    task, robots = begun(1, randomize="push")
    for step in range(400):
        if step % 90 == 0:  # sooner than any push
            task.begin(np.array([0]), np.random.default_rng(step))
        task.advance(np.zeros((1, 12), np.float32))
    assert not robots.pushes


@pytest.mark.parametrize("engine", ENGINES)
def test_a_push_reaches_the_engine(engine: str) -> None:
    envs = [make_env("spot-handstand", backend=engine, num_envs=2, randomize=kind) for kind in ("push", [])]
    for env in envs:
        env.reset(seed=0)
        env.actuator_backend.set_gains(np.full((2, 12), 200.0), np.full((2, 12), 5.0))
    apart = []
    for _ in range(260):
        for env in envs:
            env.step(np.zeros((2, 12), np.float32))
        one, other = (env.actuator_backend.state().base_linear_velocity for env in envs)
        apart.append(np.abs(one - other).max(axis=1))
    first = [int(np.argmax(np.array(apart)[:, env] > 1e-9)) for env in range(2)]
    assert all(98 <= step <= 250 for step in first), "a push between 2 and 5 s"
    assert first[0] != first[1]
    for env in envs:
        env.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_lowest_foot_touches_the_ground_at_reset(engine: str) -> None:
    env = make_env("spot-handstand", backend=engine, num_envs=8, randomize=["joints", "pose"])
    env.reset(seed=0)
    state = env.actuator_backend.state()
    assert np.ptp(state.base_position[:, 2]) > 0.02
    feet = feet_in_world(state.base_position, state.base_quaternion, state.joint_positions)
    np.testing.assert_allclose(feet[..., 2].min(axis=1), FOOT_RADIUS, atol=1e-9)
    env.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_friction_mass_and_delay_reach_the_engine(engine: str) -> None:
    """Robots that differ in one parameter only move apart."""
    for kind in ("friction", "mass", "delay"):
        env = make_env("spot-handstand", backend=engine, num_envs=2, randomize=kind)
        _, info = env.reset(seed=2)
        one, other = info["randomization"][kind]
        assert one != other, f"{kind}: choose another seed"
        rng = np.random.default_rng(0)
        for _ in range(10):
            seen = env.step(np.tile(rng.uniform(-0.5, 0.5, 12), (2, 1)).astype(np.float32))[0]
        assert np.abs(seen[0] - seen[1]).max() > 1e-3, kind
        env.close()
