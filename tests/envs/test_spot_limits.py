"""Spot's tasks behind a command limiter, and what they measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spot_helpers import POSE, FakeRobots, fake_task, make_state

from adc_wrappers import CurriculumError, make_env
from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.guard import ROBOT_LIMITS
from adc_wrappers.backends.limiter import LIMITERS
from adc_wrappers.core.errors import BackendError
from adc_wrappers.envs.guarded import GuardWrapper
from adc_wrappers.envs.spot import HANDSTAND, SpotSettings, SpotStandTask
from adc_wrappers.envs.spot.easing import Strictness
from adc_wrappers.envs.spot.rewards import REWARD_TERMS
from adc_wrappers.envs.spot.sensing import NOISE, SpotSensing

ALL = np.arange(3)


def begun(num_envs: int = 3, **settings: Any) -> tuple[SpotStandTask, FakeRobots]:
    task, robots = fake_task(num_envs, **settings)
    task.begin(np.arange(num_envs), np.random.default_rng(0))
    return task, robots


def test_what_was_let_through_is_sent_observed_and_costs():
    task, robots = begun(preset="robot")
    task.advance(np.ones((3, 12), np.float32))
    sent = robots.targets[0]
    assert (np.abs(sent - POSE) <= 0.35).all() and np.abs(sent - POSE).max() == pytest.approx(0.34)
    np.testing.assert_allclose(task.observe()[:, 33:45], (sent - POSE) / 1.7, rtol=1e-6)
    rate = -0.5 * 0.02 * (((sent - POSE) / 1.7) ** 2).sum(axis=1)
    np.testing.assert_allclose(task.reward_terms()["action_rate"], rate)
    assert "limiter let through" in task.deployment().observation[-1].meaning
    assert task.deployment().limiter == LIMITERS["robot"]
    again = task.targets(np.ones((3, 12)))
    np.testing.assert_array_equal(again, task.targets(np.ones((3, 12))))  # asking changes nothing
    task.begin(np.array([1]), np.random.default_rng(0))
    assert not task.limiter.change[1].any() and task.limiter.change[0].any()
    np.testing.assert_array_equal(task.observe()[1, 33:45], 0.0)


def test_a_task_without_a_limiter_is_as_it_was():
    task, robots = begun(preset="cpu")
    task.advance(np.ones((3, 12), np.float32))
    np.testing.assert_allclose(robots.targets[0], np.tile(POSE + 1.2, (3, 1)))
    assert task.deployment().limiter is None and "limiter" not in (task.env_state() or {})


def test_a_robot_goes_on_from_the_targets_that_it_holds():
    class Held(FakeRobots):
        def held_targets(self) -> np.ndarray:
            return np.tile(POSE - 0.2, (1, 1))

    robots = Held(1)
    task = SpotStandTask(robots, SpotSettings(preset="robot", randomize=False), HANDSTAND)
    task.begin(np.array([0]), np.random.default_rng(0))
    np.testing.assert_allclose(task.observe()[0, 33:45], -0.2 / 1.7, rtol=1e-6)
    task.advance(np.ones((1, 12), np.float32))
    assert (robots.targets[0] - (POSE - 0.2)).max() == pytest.approx(0.34)


def test_targets_are_not_blended_behind_a_limiter():
    settings = {"preset": "robot", "hostname": "10.9.8.7", "stiffness": 60.0, "damping": 2.0, "soft_start_steps": 5}
    with pytest.raises(BackendError, match="its own soft start"):
        make_env("spot-handstand", backend="spot", **settings)


@pytest.mark.parametrize("task", ["spot-handstand", "spot-planar-handstand"])
def test_both_engines_limit_alike(task):
    """From the same start and under the same targets, as far as the engines move alike: the first two steps."""
    sent = []
    for engine in ("mujoco", "pybullet"):
        env = make_env(task, backend=engine, num_envs=2, preset="robot", randomize=False)
        env.reset(seed=0)
        rng = np.random.default_rng(0)
        targets = []
        for _ in range(2):
            env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
            targets.append(env.task.limiter.targets.copy())
        sent.append(targets)
        env.close()
    np.testing.assert_array_equal(sent[0][0], sent[1][0])
    np.testing.assert_allclose(sent[0][1], sent[1][1], atol=0.02)
    assert np.abs(np.diff(sent[0], axis=0)).max() > 0.2


def test_the_robots_guard_stops_no_command_of_a_wild_policy():
    """Behind the limiter it is states that stop it, or joints that are carried away, never range or slew."""
    env = GuardWrapper(make_env("spot-handstand", backend="mujoco", preset="robot", eases_in=False), ROBOT_LIMITS)
    rng = np.random.default_rng(1)
    checks, steps = [], 0
    for seed in range(12):
        env.reset(seed=seed)
        info: dict[str, Any] = {}
        while "guard" not in info and "is_success" not in info:
            *_, info = env.step(rng.normal(0.0, 1.0, 12).astype(np.float32))
            steps += 1
        checks.append(info.get("guard", {"check": "end"})["check"])
    env.close()
    assert steps > 60 and not {"slew", "slew_change", "position", "finite"} & set(checks), checks


def test_settings_name_limiters_and_refuse_what_is_none():
    assert SpotSettings().command_limits() is None
    assert SpotSettings(physics_step=0.001).state_latency[1] > 0.01  # nothing is drawn from it, so it may be
    assert SpotSettings(preset="robot").command_limits() == LIMITERS["robot"]
    assert SpotSettings(preset="robot", limiter=False).command_limits() is None
    assert SpotSettings(limiter=True).command_limits() == LIMITERS["robot"]
    own = SpotSettings(limiter={"slew": 0.1, "slew_change": 0.2}).command_limits()
    assert own is not None and own.slew == (0.1, 0.1, 0.1) and own.margin == LIMITERS["robot"].margin
    for wrong, word in (
        ({"limiter": "robt"}, "robot"), ({"limiter": {"slow": 1}}, "slew"), ({"linear_velocity": "guessed"}, "linear"),
        ({"preset": "robot", "state_latency": (0.0, 0.03)}, "within 0 and 0.02"),
        ({"preset": "robot", "physics_step": 0.001}, "state_latency"),
        ({"command_latency": (0.02, 0.01)}, "command_latency"),
        ({"randomize": ["delay", "latency"]}, "leave 'delay' out"),
    ):  # fmt: skip
        with pytest.raises(CurriculumError, match=word):
            SpotSettings(**wrong)


def test_a_snapshot_has_the_limiter_and_refuses_what_is_random():
    env = make_env("spot-handstand", num_envs=2, preset="robot", randomize=["mass", "gains", "joint_friction"])
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        env.step(rng.uniform(-1, 1, (2, 12)).astype(np.float32))
    saved = env.task.snapshot(np.array([0]))
    env.task.restore(saved, np.array([1]))
    actions = np.tile(rng.uniform(-1, 1, 12), (2, 1)).astype(np.float32)
    env.step(actions)
    np.testing.assert_allclose(env.task.limiter.targets[1], env.task.limiter.targets[0], atol=1e-9)
    np.testing.assert_allclose(env.task.poses()[1], env.task.poses()[0], atol=1e-6)
    env.close()
    task, _ = begun(preset="robot", randomize="noise")
    with pytest.raises(BackendError, match="'noise' cannot be saved"):
        task.snapshot(ALL)


def test_the_velocity_can_be_left_out():
    task, _ = begun(linear_velocity="none")
    with_it, _ = begun()
    assert task.observation_space.shape == (42,) and task.mirror is not None
    np.testing.assert_array_equal(task.observe(), with_it.observe()[:, 3:])
    assert task.deployment().observation_size == 42 == len(task.observation_scale or ())
    assert task.deployment().observation[0].name == "base_angular_velocity"
    full, cut = with_it.mirror, task.mirror
    values = np.random.default_rng(0).normal(size=45)
    assert full is not None
    np.testing.assert_array_equal(cut.observations(values[3:]), full.observations(values)[3:])


def moving(speed: float, n: int = 2) -> RobotState:
    return make_state(
        n, joint_positions=POSE + speed, joint_velocities=speed, base_linear_velocity=speed, base_angular_velocity=speed
    )


def draw_nothing(shape: tuple[int, int]) -> np.ndarray:
    return np.zeros(shape)


def test_late_states_lie_between_the_last_and_this_one():
    sensing = SpotSensing(moving(0.0), ("latency",), "measured", 0.02, (0.01, 0.015))
    sensing.begin(moving(0.0), np.arange(2), lambda shape: np.array([[-1.0], [1.0]]))
    np.testing.assert_allclose(sensing.age[:, 0], [0.5, 0.75])
    sensing.step(moving(1.0), draw_nothing)
    np.testing.assert_allclose(sensing.seen(moving(1.0)).joint_velocities[:, 0], [0.5, 0.25])
    sensing.step(moving(2.0), draw_nothing)
    np.testing.assert_allclose(sensing.seen(moving(2.0)).joint_positions[:, 0] - POSE[0], [1.5, 1.25])
    sensing.begin(moving(9.0), np.array([1]), lambda shape: np.array([[1.0]]), 0.0)
    np.testing.assert_allclose(sensing.seen(moving(9.0)).joint_velocities[:, 0], [1.5, 9.0])
    assert sensing.age[:, 0].tolist() == [0.5, 0.0]


def test_noise_has_its_range_and_level_and_is_drawn_once_a_step():
    rng = np.random.default_rng(0)
    state = make_state(4000)
    sensing = SpotSensing(state, ("noise",), "measured", 0.02, (0.0, 0.0))
    for level in (1.0, 0.25):
        sensing.step(state, lambda shape: rng.uniform(-1, 1, shape), level)
        seen = sensing.seen(state)
        for name, size in NOISE.items():
            error = getattr(seen, name) - getattr(state, name)
            assert np.abs(error).max() == pytest.approx(level * size, rel=0.01), name
            assert np.abs(error).max() <= level * size
        np.testing.assert_array_equal(seen.joint_positions, sensing.seen(state).joint_positions)
        assert seen.joint_torques is state.joint_torques


def test_an_estimated_velocity_lags_and_drifts_without_bound_of_noise():
    rng = np.random.default_rng(0)
    state = make_state(500)
    sensing = SpotSensing(state, ("noise",), "estimated", 0.02, (0.0, 0.0))
    sensing.begin(state, np.arange(500), lambda shape: rng.uniform(-1, 1, shape))
    late = make_state(500, base_linear_velocity=1.0)
    means = []
    for _ in range(400):
        sensing.step(late, lambda shape: rng.uniform(-1, 1, shape))
        means.append(sensing.seen(late).base_linear_velocity.mean())
    assert means[0] == pytest.approx(1 / 3, abs=0.02)  # 20 ms of a lag of 40 ms
    assert means[-1] == pytest.approx(1.0, abs=0.02)
    error = sensing.seen(late).base_linear_velocity - 1.0
    assert error.std() == pytest.approx(np.hypot(0.1, 0.1 / np.sqrt(3)), rel=0.1)  # drift and noise


def test_torch_measures_as_numpy_does():
    numbers = np.random.default_rng(0)
    drawn: list[np.ndarray] = []

    def draw(shape: tuple[int, int]) -> np.ndarray:
        drawn.append(numbers.uniform(-1, 1, shape))
        return drawn[-1]

    arguments = (("noise", "latency"), "estimated", 0.02, (0.0, 0.02))
    one = SpotSensing(moving(0.0), *arguments)
    one.begin(moving(0.0), np.array([1, 0]), draw)
    one.step(moving(1.0), draw)
    again = iter(drawn)

    def tensors(state: RobotState) -> RobotState:
        return RobotState(*(torch.tensor(part) for part in state))

    other = SpotSensing(tensors(moving(0.0)), *arguments)
    other.begin(tensors(moving(0.0)), torch.tensor([1, 0]), lambda shape: torch.tensor(next(again)))
    other.step(tensors(moving(1.0)), lambda shape: torch.tensor(next(again)))
    for part, part_too in zip(one.seen(moving(1.0)), other.seen(tensors(moving(1.0))), strict=True):
        np.testing.assert_allclose(part_too.numpy(), part)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(0, 8)), max_size=50), st.integers(1, 500))
def test_the_world_gets_stricter_while_few_fall_and_gives_way_when_many_do(shares, steps):
    strictness = Strictness()
    for share, falls in shares:
        before = strictness.level
        for _ in range(steps):
            strictness.note_ends(float(falls), 8)
            strictness.note(share)
        assert 0.0 <= strictness.level <= 1.0 and 0.0 <= strictness.kept <= 1.0
        assert strictness.level <= before or share > 0.5
    assert 1.0 <= strictness.looseness <= 8.0
    restored = Strictness()
    restored.load_state_dict(strictness.state_dict())
    assert (restored.level, restored.kept) == (strictness.level, strictness.kept)


@pytest.mark.parametrize(("falls", "share", "sign"), [(1, 0.9, 1), (1, 0.4, 0), (3, 0.9, 0), (5, 0.9, -1)])
def test_episodes_without_a_fall_decide(falls, share, sign):
    strictness = Strictness()
    strictness.level = 0.5
    for _ in range(2000):
        strictness.note_ends(float(falls), 8)
    strictness.note_ends(0.0, 0)  # no episode ended: nothing moves
    assert strictness.kept == pytest.approx(1.0 - falls / 8)
    strictness.note(share)
    assert np.sign(strictness.level - 0.5) == sign


def test_the_task_counts_falls_when_new_episodes_begin():
    task, robots = begun(4, preset="robot")
    strictness = task.logic.strictness
    kept = strictness.kept
    task.begin(np.arange(4), np.random.default_rng(0))
    assert strictness.kept == kept  # an env by itself is no training
    task.training = True
    robots.now.contact_forces[:3, task.logic._fall_links[0]] = 50.0
    task.look()
    strictness.kept = 1.0
    task.begin(np.arange(4), np.random.default_rng(0))
    assert strictness.kept == pytest.approx(1.0 - 0.75 * (1.0 - (1.0 - 1.0 / 400.0) ** 4))


@pytest.mark.parametrize("level", [None, "0.5", -0.1, 1.5, True])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(CurriculumError, match="level"):
        Strictness().load_state_dict({"level": level})


def test_command_limits_grow_narrow_in_training_and_are_whole_in_evaluation():
    task, robots = begun(2, preset="robot", randomize=False)
    jump = np.ones((2, 12), np.float32)

    def first_change():
        task.begin(np.arange(2), np.random.default_rng(0))
        held = task.limiter.targets.copy()
        task.advance(jump)
        return np.abs(robots.targets[-1] - held).max()

    by_itself = first_change()
    task.training = True  # as a curriculum says
    changes = []
    for level in (0.0, 0.5, 1.0):
        task.logic.strictness.level = level
        changes.append(first_change())
    assert changes[0] > changes[1] > changes[2]
    assert changes[2] <= 0.34 + 1e-9
    assert by_itself == changes[2]
    task.logic.strictness.level = 0.0
    kept = task.logic.strictness.kept
    assert task.state_dict() == {"stance_share": task.logic.fall_cost.share, "level": 0.0, "kept": kept}
    task.training = False
    assert first_change() == changes[2]


def test_costs_of_rough_motion_grow_in_training_and_are_whole_in_evaluation():
    task, _ = begun(1, preset="robot", randomize=False)
    rates = []
    for training, level in ((False, 0.0), (True, 0.0), (True, 0.5), (True, 1.0)):
        task.training, task.logic.strictness.level = training, level
        task.begin(np.arange(1), np.random.default_rng(0))
        task.limiter.looseness = 1.0
        task.advance(np.full((1, 12), 0.01, np.float32))  # within all limits
        rates.append(float(task.reward_terms()["action_rate"][0]))
    assert rates[0] < rates[2] < rates[1] < 0.0
    assert rates[3] == pytest.approx(rates[0], rel=1e-3)  # it gives way a little: nobody stands
    assert rates[1] == pytest.approx(0.02 * rates[0], rel=1e-3)


def test_noise_and_latency_grow_in_training_and_are_whole_in_evaluation():
    task, _ = begun(200, preset="robot", randomize=["noise", "latency"])
    assert task.logic.level == 1.0  # an env by itself is as strict as the robot
    task.training = True
    task.begin(np.arange(200), np.random.default_rng(1))
    task.advance(np.zeros((200, 12), np.float32))
    np.testing.assert_array_equal(task.observe()[:, 9:21], 0.0)
    assert not task.describe()["state_latency"].any() and not task.describe()["command_latency"].any()
    task.logic.strictness.level = 0.5
    assert task.logic.level == 0.5
    task.training = False
    task.begin(np.arange(200), np.random.default_rng(1))
    assert task.logic.level == 1.0
    assert task.describe()["state_latency"].max() > 0.018 and task.describe()["command_latency"].max() == 0.02
    assert np.abs(task.observe()[:, 9:21]).max() > 0.045


def test_costs_of_a_robot_begin_at_their_limits():
    torques, speeds = np.zeros((3, 12)), np.zeros((3, 12))
    torques[1, 0], torques[2, 0] = 0.7 * 45.0, 45.0
    speeds[1, 2], speeds[2, 2] = 0.75 * 12.0, 12.0
    state = make_state(3, joint_torques=torques, joint_velocities=speeds)
    weight = 9.81 * 31.6
    state.contact_forces[1:, state.contact_forces.shape[1] - 1] = 0.0
    task, robots = begun(3, preset="robot")
    feet = task.logic._constants["feet"]
    state.contact_forces[2, feet[0]] = 1.5 * weight
    state.contact_forces[1, feet[0]] = 40.0 * weight
    robots.now = state
    task.look()
    step = task.logic._step
    np.testing.assert_allclose(REWARD_TERMS["torque_excess"](step), [0.0, 0.0, 0.09], atol=1e-12)
    np.testing.assert_allclose(REWARD_TERMS["joint_speed_excess"](step), [0.0, 0.0, 0.0625], atol=1e-12)
    np.testing.assert_allclose(REWARD_TERMS["foot_impact"](step), [0.0, 3.0, 0.5], atol=0.02)
