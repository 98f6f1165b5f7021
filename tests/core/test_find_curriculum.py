"""One search for the curriculum inside an env, whichever library's wrappers are around it."""

from __future__ import annotations

import gymnasium as gym
import pytest

from adc_wrappers import ActuatorCurriculumVectorWrapper, ActuatorCurriculumWrapper, make_env
from adc_wrappers.core.action_wrappers import ActionScaleCoupling, VectorActionNoiseCurriculum
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.core.wrapper_methods import find_curriculum, layers
from adc_wrappers.policy.export import find_controller
from adc_wrappers.policy.metadata import ExportError


def single():
    return ActuatorCurriculumWrapper(make_env("cartpole", backend="analytic"))


def batch():
    return ActuatorCurriculumVectorWrapper(make_env("cartpole", backend="analytic", num_envs=2))


def test_it_is_found_under_gymnasiums_wrappers():
    inner = single()
    env = gym.wrappers.RecordEpisodeStatistics(ActionScaleCoupling(gym.wrappers.TimeLimit(inner, 5)))
    assert find_curriculum(env, KeyError()) is inner and find_controller(env) is inner.adc
    assert [type(layer).__name__ for layer in layers(env)][:2] == ["RecordEpisodeStatistics", "ActionScaleCoupling"]
    assert list(layers(env))[-1] is env.unwrapped


def test_it_is_found_under_stable_baselines3s_and_rsl_rls():
    sb3, vec_env = pytest.importorskip("adc_wrappers.sb3"), pytest.importorskip("stable_baselines3.common.vec_env")
    rsl_rl = pytest.importorskip("adc_wrappers.rsl_rl.vec_env")
    inner = batch()
    venv = vec_env.VecMonitor(sb3.VectorEnvAdapter(VectorActionNoiseCurriculum(inner, start_std=0.1)))
    assert find_curriculum(venv, KeyError()) is sb3.find_curriculum(venv) is inner
    workers = sb3.ActuatorCurriculumVecEnv(vec_env.DummyVecEnv([lambda: make_env("cartpole", backend="analytic")]))
    assert sb3.find_curriculum(vec_env.VecMonitor(workers)) is workers
    other = batch()
    assert find_curriculum(rsl_rl.RslRlVecEnv(other), KeyError()) is other


def test_who_looks_for_it_says_what_to_do():
    bare = make_env("cartpole", backend="analytic")
    with pytest.raises(KeyError, match="wrap it"):
        find_curriculum(bare, KeyError("wrap it"))
    with pytest.raises(CurriculumError, match="ActuatorCurriculumWrapper first"):
        ActionScaleCoupling(bare)
    with pytest.raises(ExportError, match="training=False"):
        find_controller(bare)
    sb3 = pytest.importorskip("adc_wrappers.sb3")
    with pytest.raises(BackendError, match="ActuatorCurriculumVecEnv"):
        sb3.find_curriculum(sb3.VectorEnvAdapter(make_env("cartpole", backend="analytic", num_envs=1)))
