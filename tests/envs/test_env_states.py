"""States of envs: to bytes and back, into other envs, and what cannot be saved."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers import FakeBackend, ScriptedEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from adc_wrappers import (
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    CurriculumConfig,
    CurriculumError,
    make_env,
)
from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.core.env_states import (
    EnvStateError,
    generator_state,
    load_generator,
    pack_state,
    part_of,
    put_array,
    unpack_state,
)

ENGINES = [
    ("cartpole", "analytic"),
    ("cartpole", "pybullet"),
    ("double-cartpole", "analytic"),
    ("double-cartpole", "pybullet"),
    ("spot-handstand", "mujoco"),
    ("spot-handstand", "pybullet"),
    ("spot-hindstand", "mujoco"),
]


def through_bytes(state):
    return unpack_state(*pack_state(state))


def play(env, steps: int, rng: np.random.Generator):
    """Return everything that random actions lead to."""
    shape = env.action_space.shape
    return [env.step(rng.uniform(-1.0, 1.0, shape).astype(np.float32)) for _ in range(steps)]


def assert_same_steps(one, other):
    for step, step_too in zip(one, other, strict=True):
        for part, part_too in zip(step[:4], step_too[:4], strict=True):
            np.testing.assert_array_equal(part, part_too)


@pytest.mark.parametrize(("task", "backend"), ENGINES)
def test_a_batch_goes_on_where_another_was_saved(task, backend):
    """With everything that is randomized, through ends of episodes, in a batch with a past of its own."""
    one, other = (make_env(task, backend=backend, num_envs=3, time_limit=40) for _ in range(2))
    for env, seed in ((one, 1), (other, 2)):
        env.reset(seed=seed)
        play(env, 13 * seed, np.random.default_rng(seed))
    state = through_bytes(one.env_state())
    other.load_env_state(state)
    rng, rng_too = (np.random.default_rng(9) for _ in range(2))
    steps, steps_too = play(one, 60, rng), play(other, 60, rng_too)
    assert_same_steps(steps, steps_too)
    assert any(step[2].any() or step[3].any() for step in steps)
    for env in (one, other):
        env.close()


@pytest.mark.parametrize(("task", "backend"), [("cartpole", "analytic"), ("spot-handstand", "mujoco")])
def test_a_single_env_goes_on_and_need_not_be_reset(task, backend):
    one, other = (make_env(task, backend=backend) for _ in range(2))
    one.reset(seed=4)
    one.action_space.seed(4)
    play(one, 11, np.random.default_rng(0))
    other.load_env_state(through_bytes(one.env_state()))
    np.testing.assert_array_equal(one.action_space.sample(), other.action_space.sample())
    steps = [play(env, 5, np.random.default_rng(3)) for env in (one, other)]
    assert_same_steps(*steps)
    np.testing.assert_array_equal(one.reset()[0], other.reset()[0])
    for env in (one, other):
        env.close()


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_a_broken_robot_stays_broken_until_its_reset(engine):
    one, other = (make_robot_backend(engine, 2) for _ in range(2))
    pose = np.tile(one.nominal_pose, (2, 1))
    one.advance(np.where([[True], [False]], np.nan, pose))
    state = through_bytes(one.physics_state())
    other.load_physics_state(state)
    for backend in (one, other):
        backend.advance(pose)
        broken = np.isnan(backend.state().joint_positions).all(axis=1)
        assert broken.tolist() == [True, False]
    np.testing.assert_array_equal(one.state().joint_positions, other.state().joint_positions)
    sound = make_robot_backend(engine, 2)  # and a broken one can be put into a sound state
    sound.advance(pose)
    one.load_physics_state(through_bytes(sound.physics_state()))
    for backend in (one, sound):
        backend.advance(pose + 0.05)
    for part, part_too in zip(one.state(), sound.state(), strict=True):
        np.testing.assert_array_equal(part, part_too)
    for backend in (one, other, sound):
        backend.close()


@pytest.mark.slow
def test_workers_save_and_load_their_robots():
    """Starting processes takes the time."""
    local = make_robot_backend("pybullet", 4, workers=0)
    shared = make_robot_backend("pybullet", 4, workers=2)
    rng = np.random.default_rng(0)
    for _ in range(7):
        local.advance(local.nominal_pose + rng.uniform(-0.2, 0.2, (4, 12)))
    shared.load_physics_state(through_bytes(local.physics_state()))
    for step in range(5):
        targets = local.nominal_pose + rng.uniform(-0.2, 0.2, (4, 12))
        local.advance(targets)
        shared.advance(targets)
        np.testing.assert_array_equal(local.state().joint_positions, shared.state().joint_positions, err_msg=str(step))
    local.load_physics_state(through_bytes(shared.physics_state()))
    targets = np.tile(local.nominal_pose, (4, 1))
    local.advance(targets)
    shared.advance(targets)
    np.testing.assert_array_equal(local.state().base_position, shared.state().base_position)
    local.close()
    shared.close()


def test_a_curriculum_goes_on_with_gains_counters_and_what_waits_for_a_reset():
    config = CurriculumConfig(start_stiffness=36.0, target_stiffness=6.25, length_max=40.0, ema=0.5)
    pair = [
        ActuatorCurriculumVectorWrapper(
            make_env("cartpole", backend="analytic", num_envs=4, time_limit=12), config, apply_at="reset",
            iteration_steps=8,
        )
        for _ in range(2)
    ]  # fmt: skip
    one, other = pair
    one.reset(seed=0)
    play(one, 27, np.random.default_rng(0))
    other.load_state_dict(one.state_dict())
    other.load_env_state(through_bytes(one.env_state()))
    np.testing.assert_array_equal(one.adc.stiffness, other.adc.stiffness)
    steps = [play(env, 40, np.random.default_rng(1)) for env in pair]
    assert_same_steps(*steps)
    assert [step[4]["adc"] for step in steps[0]] == [step[4]["adc"] for step in steps[1]]
    assert one.state_dict() == other.state_dict() and one.curriculum.iteration == 8


def test_a_state_is_neither_taken_nor_loaded_in_an_evaluation():
    env = ActuatorCurriculumVectorWrapper(make_env("cartpole", backend="analytic", num_envs=2))
    env.reset(seed=0)
    state = env.env_state()
    with env.evaluation():
        env.reset(seed=1)
        for act in (env.env_state, lambda: env.load_env_state(state)):
            with pytest.raises(CurriculumError, match="leave evaluation"):
                act()
    env.load_env_state(state)  # what the evaluation has disturbed is as it was, and needs no reset
    env.step(np.zeros((2, 1), np.float32))


def test_other_peoples_envs_and_wrappers_have_no_state():
    assert ActuatorCurriculumWrapper(ScriptedEnv([3])).env_state() is None
    limited = gym.wrappers.TimeLimit(make_env("cartpole", backend="analytic"), 5)
    assert ActuatorCurriculumWrapper(limited).env_state() is None
    with pytest.raises(EnvStateError, match="no load_env_state"):
        ActuatorCurriculumWrapper(ScriptedEnv([3], FakeBackend())).load_env_state({"env": {}})


def test_a_state_of_other_envs_is_refused():
    three, two = (make_env("cartpole", backend="analytic", num_envs=n) for n in (3, 2))
    three.reset(seed=0)
    with pytest.raises(EnvStateError, match=r"expected 'elapsed' with shape \(2,\).*got \(3,\)"):
        two.load_env_state(three.env_state())
    with pytest.raises(EnvStateError, match="expected 'rng' as dict"):
        two.load_env_state({"running": True})


def test_generators_go_on_with_their_children():
    rng = np.random.default_rng(7)
    rng.normal(size=3)
    rng.spawn(2)
    again = load_generator(through_bytes(generator_state(rng)))
    assert rng.normal() == again.normal()
    assert rng.spawn(1)[0].normal() == again.spawn(1)[0].normal()
    with pytest.raises(EnvStateError, match="random state"):
        load_generator({"entropy": 1})


def test_packing_keeps_values_and_kinds():
    state = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": [1, None, "x", {"c": np.array([True])}], "d": 2**100}
    again = through_bytes(state)
    np.testing.assert_array_equal(again["a"], state["a"])
    assert again["a"].dtype == np.int32 and again["b"][3]["c"].dtype == bool
    assert again["b"][:3] == [1, None, "x"] and again["d"] == 2**100
    again["a"][0, 0] = 5  # its own memory
    with pytest.raises(EnvStateError, match="expected arrays of"):
        pack_state({"a": np.array(["text"])})
    with pytest.raises(EnvStateError, match="as int, got bool"):
        part_of({"a": True}, "a", int)
    with pytest.raises(EnvStateError, match="of float64, got"):
        put_array(np.zeros(2), {"a": np.zeros(2, np.float32)}, "a")


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.integers(0, 80))
def test_a_damaged_state_is_read_or_refused_and_nothing_else(place, byte, cut):
    layout, content = pack_state({"a": np.arange(5.0), "b": {"c": np.zeros((2, 2), bool), "d": 1}})
    damaged = bytearray(layout)
    damaged[place % len(damaged)] = byte
    try:
        unpack_state(bytes(damaged), content[: len(content) - min(cut, len(content))])
    except EnvStateError as error:
        assert str(error)
