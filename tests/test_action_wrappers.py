"""Torque per action held constant, and exploration noise on a curriculum."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import FakeBackend, ScriptedEnv, TorchBatchEnv

from adc_wrappers import (
    ActionNoiseCurriculum,
    ActionScaleCoupling,
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    CurriculumConfig,
    CurriculumError,
    VectorActionNoiseCurriculum,
    VectorActionScaleCoupling,
    make_env,
)

FAST = CurriculumConfig(length_max=10, ema=1.0)


def test_stiffness_times_scale_is_constant_along_the_anneal():
    inner = ScriptedEnv([5])
    curriculum = ActuatorCurriculumWrapper(inner, FAST, iteration_steps=5)
    env = ActionScaleCoupling(curriculum)
    env.reset()
    action = np.array([0.9, -0.3], np.float32)
    for _ in range(12):
        stiffness = curriculum.adc.stiffness[0]
        *_, terminated, truncated, _ = env.step(action)
        np.testing.assert_allclose(inner.actions[-1] * stiffness, action * 40.0, rtol=1e-6)
        if terminated or truncated:
            env.reset()
    assert stiffness[0] < 60.0


def test_actions_are_clipped_before_they_are_scaled_and_untouched_at_the_target():
    inner = ScriptedEnv([50])
    curriculum = ActuatorCurriculumWrapper(inner, FAST)
    env = ActionScaleCoupling(curriculum)
    env.reset()
    env.step(np.array([3.0, -3.0], np.float32))
    np.testing.assert_allclose(inner.actions[-1], [2 / 3, -2 / 3], rtol=1e-6)
    with curriculum.evaluation():
        env.reset()
        env.step(np.array([0.5, -0.25], np.float32))
    np.testing.assert_allclose(inner.actions[-1], [0.5, -0.25])


def test_joints_scale_by_their_own_stiffness():
    inner = ScriptedEnv([5])
    config = CurriculumConfig(start_stiffness=[80.0, 60.0], target_stiffness=[40.0, 40.0])
    env = ActionScaleCoupling(ActuatorCurriculumWrapper(inner, config))
    env.reset()
    env.step(np.array([1.0, 1.0], np.float32))
    np.testing.assert_allclose(inner.actions[-1], [0.5, 2 / 3], rtol=1e-6)
    three_joints = ActuatorCurriculumWrapper(
        ScriptedEnv([5]), CurriculumConfig(start_stiffness=[80.0, 60.0, 50.0]), backend=FakeBackend(joints=3)
    )
    with pytest.raises(CurriculumError, match="one action per joint"):
        ActionScaleCoupling(three_joints)


def test_vector_and_torch_twins_scale_each_env():
    inner = make_env("cartpole", backend="analytic", num_envs=3)
    config = CurriculumConfig(start_stiffness=36.0, target_stiffness=9.0, driver="uniform")
    curriculum = ActuatorCurriculumVectorWrapper(inner, config)
    env = VectorActionScaleCoupling(curriculum)
    env.reset(seed=0)
    expected = 9.0 / curriculum.adc.stiffness[:, 0]
    assert len(np.unique(expected)) == 3
    env.step(np.ones((3, 1), np.float32))
    np.testing.assert_allclose(inner.task._action, expected, rtol=1e-6)

    batch = TorchBatchEnv([[9], [9]], substeps=0)
    seen = []
    step = batch.step
    batch.step = lambda action: seen.append(action) or step(action)
    tensor_env = ActionScaleCoupling(ActuatorCurriculumWrapper(batch, FAST))
    tensor_env.reset()
    tensor_env.step(torch.ones(2, 2))
    torch.testing.assert_close(seen[-1], torch.full((2, 2), 2 / 3))


def test_noise_follows_progress_and_is_off_in_evaluation():
    inner = ScriptedEnv([4])
    config = CurriculumConfig(start_stiffness=40.0, target_stiffness=40.0, length_max=16, ema=1.0)
    curriculum = ActuatorCurriculumWrapper(inner, config)
    env = ActionNoiseCurriculum(curriculum, start_std=0.8, end_std=0.2, seed=1)
    assert env.noise_std == pytest.approx(0.8)

    def played():
        inner.actions.clear()
        for _ in range(500):
            env.reset()
            for _ in range(4):
                env.step(np.zeros(2, np.float32))
        return np.array(inner.actions)

    assert played().std() == pytest.approx(0.8, rel=0.05)
    curriculum.end_iteration()
    assert curriculum.curriculum.progress == 0.25
    np.testing.assert_allclose(curriculum.adc.stiffness, 40.0)
    assert played().std() == pytest.approx(0.65, rel=0.05)
    with curriculum.evaluation():
        assert env.noise_std == 0.0
        assert not played().any()


def test_noise_is_seeded_and_has_a_vector_twin():
    def path(seed):
        inner = make_env("cartpole", backend="analytic", num_envs=2)
        env = VectorActionNoiseCurriculum(ActuatorCurriculumVectorWrapper(inner), start_std=0.3, seed=seed)
        env.reset(seed=0)
        env.step(np.zeros((2, 1), np.float32))
        return inner.task._action.copy()

    np.testing.assert_array_equal(path(5), path(5))
    assert (path(5) != path(6)).all()


def test_a_resumed_run_goes_on_with_the_noise_it_would_have_had():
    config = CurriculumConfig(start_stiffness=36.0, target_stiffness=6.25)

    def make():
        inner = make_env("cartpole", backend="analytic", num_envs=2)
        env = VectorActionNoiseCurriculum(ActuatorCurriculumVectorWrapper(inner, config), start_std=0.3, seed=5)
        env.reset(seed=0)
        return env, inner

    def noises(env, inner):
        found = []
        for _ in range(3):
            env.step(np.zeros((2, 1), np.float32))
            found.append(inner.task._action.copy())
        return np.stack(found)

    whole, inner = make()
    first = noises(whole, inner)
    whole.env.end_iteration()
    resumed, other = make()
    resumed.env.load_state_dict(whole.env.state_dict())
    second = noises(whole, inner)
    np.testing.assert_array_equal(second, noises(resumed, other))
    assert (first != second).all()


@pytest.mark.parametrize("std", [-0.1, float("nan")])
def test_bad_noise_is_refused(std):
    with pytest.raises(CurriculumError, match="start_std"):
        ActionNoiseCurriculum(ActuatorCurriculumWrapper(ScriptedEnv([1])), start_std=std)


@pytest.mark.parametrize("wrapper", [ActionScaleCoupling, ActionNoiseCurriculum])
def test_without_a_curriculum_inside_they_refuse(wrapper):
    with pytest.raises(CurriculumError, match="ActuatorCurriculumWrapper first"):
        wrapper(ScriptedEnv([1]))
