"""The wrappers: gains before the first step, iterations, evaluation, reports, refusals."""

from __future__ import annotations

import dataclasses
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import FakeBackend, ScriptedEnv, TorchBatchEnv

import adc_wrappers
from adc_wrappers import (
    ActuatorCurriculum,
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    BackendError,
    CurriculumConfig,
    CurriculumError,
    make_env,
)

FAST = CurriculumConfig(length_max=10, ema=1.0)


def run(env, steps, action=None):
    infos = []
    for _ in range(steps):
        *_, terminated, truncated, info = env.step(env.action_space.sample() if action is None else action)
        infos.append(info)
        if np.ndim(terminated) == 0 and (terminated or truncated):
            env.reset()
    return infos


def test_start_gains_are_written_before_the_first_step_with_critical_damping():
    backend = FakeBackend(inertia=0.1)
    ActuatorCurriculumWrapper(ScriptedEnv([5]), backend=backend)
    np.testing.assert_allclose(backend.stiffness, 60.0)
    np.testing.assert_allclose(backend.damping, 2 * np.sqrt(60.0 * 0.1))


def test_an_iteration_closes_every_iteration_steps_and_gains_are_constant_inside_it():
    env = ActuatorCurriculumWrapper(ScriptedEnv([5]), FAST, iteration_steps=12)
    env.reset()
    stiffness = [info["adc"]["stiffness"] for info in run(env, 24)]
    assert stiffness == [60.0] * 11 + [50.0] * 13
    assert env.curriculum.iteration == 2


def test_end_iteration_closes_by_hand_and_an_empty_one_changes_nothing():
    env = ActuatorCurriculumWrapper(ScriptedEnv([4]), FAST)
    env.reset()
    run(env, 3)
    assert env.end_iteration()["stiffness"] == 60.0
    run(env, 1)
    assert env.end_iteration()["stiffness"] == pytest.approx(52.0)
    assert env.end_iteration()["iteration"] == 3


def test_an_interrupted_episode_is_not_counted():
    env = ActuatorCurriculumWrapper(ScriptedEnv([6]), FAST)
    env.reset()
    run(env, 3)
    env.reset()
    run(env, 6)
    env.end_iteration()
    assert env.curriculum.length_ema == 6.0


def test_success_is_taken_from_info():
    config = CurriculumConfig(driver="success", ema=1.0, success_max=1.0)
    env = ActuatorCurriculumWrapper(ScriptedEnv([2]), config, iteration_steps=12)
    env.reset()
    run(env, 12)
    assert env.curriculum.success_ema == pytest.approx(1 / 3)


@pytest.mark.parametrize("kind", ["single", "vector", "torch"])
def test_evaluation_pins_the_target_counts_nothing_and_restores(kind):
    if kind == "single":
        env = ActuatorCurriculumWrapper(ScriptedEnv([4]), FAST)
        backend = env.unwrapped.actuator_backend
    elif kind == "vector":
        inner = make_env("cartpole", backend="analytic", num_envs=3)
        env = ActuatorCurriculumWrapper(inner, FAST)
        backend = inner.actuator_backend
    else:
        env = ActuatorCurriculumWrapper(TorchBatchEnv([[4]] * 3), FAST)
        backend = env.unwrapped.actuator_backend
    action = np.zeros(env.action_space.shape, np.float32)
    if kind == "torch":
        import torch

        action = torch.as_tensor(action)
    env.reset()
    run(env, 3, action)
    with env.evaluation():
        np.testing.assert_allclose(np.asarray(backend.gains().stiffness), 40.0)
        with pytest.raises(ResetNeeded):
            env.step(action)
        env.reset()
        run(env, 40, action)
        with pytest.raises(CurriculumError, match="pinned"):
            env.end_iteration()
        with pytest.raises(CurriculumError, match="pinned"):
            env.load_state_dict(env.state_dict())
    np.testing.assert_allclose(np.asarray(backend.gains().stiffness), 60.0)
    with pytest.raises(ResetNeeded, match="must not mix gains"):
        env.step(action)
    env.reset()
    env.end_iteration()
    assert env.curriculum.length_ema == 0.0


def test_an_iteration_refused_in_evaluation_loses_no_episode():
    env = ActuatorCurriculumWrapper(ScriptedEnv([4]), FAST)
    env.reset()
    run(env, 4)
    with env.evaluation(), pytest.raises(CurriculumError, match="pinned"):
        env.end_iteration()
    env.reset()
    assert env.end_iteration()["episode_length_ema"] > 0.0


@pytest.mark.parametrize("num_envs", [None, 2])
def test_evaluation_eases_nothing_in_the_task(num_envs):
    env = ActuatorCurriculumWrapper(make_env("spot-handstand", backend="mujoco", num_envs=num_envs, preset="cpu"))
    task = env.unwrapped.task
    task.load_state_dict({"stance_share": 0.2})
    with env.evaluation():
        env.reset(seed=0)
        run(env, 3, np.zeros(env.action_space.shape, np.float32))
    assert task.state_dict() == {"stance_share": 0.2} and task.training
    env.reset(seed=0)
    run(env, 3, np.zeros(env.action_space.shape, np.float32))
    assert task.state_dict()["stance_share"] < 0.2


def test_evaluation_restores_after_an_exception():
    env = ActuatorCurriculumWrapper(ScriptedEnv([4]), FAST)
    with pytest.raises(ZeroDivisionError), env.evaluation():
        raise ZeroDivisionError
    np.testing.assert_allclose(env.unwrapped.actuator_backend.stiffness, 60.0)
    env.reset()
    run(env, 4)
    assert env.end_iteration()["stiffness"] == pytest.approx(52.0)


def test_training_false_pins_the_target_for_good():
    env = ActuatorCurriculumWrapper(ScriptedEnv([2]), FAST, training=False, iteration_steps=4)
    env.reset()
    assert {info["adc"]["stiffness"] for info in run(env, 20)} == {40.0}
    assert env.curriculum.iteration == 0


def test_a_pinned_curriculum_says_the_target_and_leaves_that_of_a_training_alone():
    training = ActuatorCurriculumWrapper(ScriptedEnv([5]), FAST)
    pinned = ActuatorCurriculumWrapper(ScriptedEnv([5]), training.curriculum, training=False)
    np.testing.assert_allclose(pinned.curriculum.stiffness, 40.0)
    np.testing.assert_allclose(training.curriculum.stiffness, 60.0)
    with training.evaluation():
        np.testing.assert_allclose(training.curriculum.stiffness, 40.0)
    np.testing.assert_allclose(training.curriculum.stiffness, 60.0)
    later = ActuatorCurriculumWrapper(ScriptedEnv([5]), training.curriculum)
    later.adc_pin()
    np.testing.assert_allclose(later.curriculum.stiffness, 40.0)
    np.testing.assert_allclose(training.curriculum.stiffness, 60.0)


def test_gains_can_wait_for_each_envs_next_reset():
    inner = SyncVectorEnv([lambda: ScriptedEnv([4]), lambda: ScriptedEnv([7])], autoreset_mode=AutoresetMode.SAME_STEP)
    backend = FakeBackend(num_envs=2)
    env = ActuatorCurriculumVectorWrapper(inner, FAST, backend=backend, apply_at="reset")
    env.reset()
    run(env, 5)
    env.end_iteration()
    np.testing.assert_allclose(backend.stiffness[:, 0], [60.0, 60.0])
    run(env, 2)
    np.testing.assert_allclose(backend.stiffness[:, 0], [60.0, 52.0])
    run(env, 1)
    np.testing.assert_allclose(backend.stiffness[:, 0], [52.0, 52.0])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_uniform_stiffness_is_drawn_once_per_episode(mode):
    inner = SyncVectorEnv([lambda: ScriptedEnv([5])] * 2, autoreset_mode=mode)
    backend = FakeBackend(num_envs=2)
    env = ActuatorCurriculumVectorWrapper(inner, CurriculumConfig(driver="uniform"), backend=backend)
    env.reset()
    drawn = [backend.stiffness[:, 0].copy()]
    for _ in range(4):
        assert len(backend.writes) == len(drawn) + 1  # one at construction, one for each episode
        for _ in range(5):
            np.testing.assert_array_equal(backend.stiffness[:, 0], drawn[-1])
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        assert (terminated | truncated).all()
        if mode == AutoresetMode.DISABLED:
            env.reset(options={"reset_mask": terminated | truncated})
        elif mode == AutoresetMode.NEXT_STEP:
            env.step(env.action_space.sample())
        drawn.append(backend.stiffness[:, 0].copy())
    assert len(np.unique(drawn)) == 10
    assert np.min(drawn) >= 40.0 and np.max(drawn) <= 60.0


def test_state_survives_and_its_gains_are_written():
    env = ActuatorCurriculumWrapper(ScriptedEnv([5]), FAST, iteration_steps=5)
    env.reset()
    run(env, 5)
    other = ActuatorCurriculumWrapper(ScriptedEnv([5]), FAST)
    other.load_state_dict(env.state_dict())
    np.testing.assert_allclose(other.unwrapped.actuator_backend.stiffness, 50.0)


def test_the_report_of_a_torch_batch_is_in_the_log_on_every_step():
    import torch

    env = ActuatorCurriculumWrapper(TorchBatchEnv([[3], [4]]), FAST, iteration_steps=6)
    _, extras = env.reset()
    assert extras["log"]["adc/stiffness"] == 60.0
    infos = run(env, 6, torch.zeros(2, 2))
    assert all({"adc/stiffness", "adc/progress", "adc/episode_length_ema"} <= set(info["log"]) for info in infos)
    assert env.curriculum.length_ema == pytest.approx((3 + 3 + 4) / 3)


def test_a_torch_batch_may_be_stepped_in_and_out_of_inference_mode():
    import torch

    env = ActuatorCurriculumWrapper(TorchBatchEnv([[3], [4]]), FAST)
    env.reset()
    with torch.inference_mode():
        run(env, 5, torch.zeros(2, 2))
    env.end_iteration()
    run(env, 3, torch.zeros(2, 2))
    with torch.inference_mode():
        env.end_iteration()
        run(env, 5, torch.zeros(2, 2))
    assert env.end_iteration()["episode_length_ema"] == pytest.approx(3.5, abs=0.5)


def test_gymnasium_vector_env_handed_to_the_single_name_gives_the_vector_wrapper():
    env = ActuatorCurriculumWrapper(make_env("cartpole", backend="analytic", num_envs=2), FAST)
    assert isinstance(env, ActuatorCurriculumVectorWrapper)
    with pytest.raises(TypeError, match="ActuatorCurriculumWrapper"):
        ActuatorCurriculumVectorWrapper(ScriptedEnv([1]))


def test_sb3_vec_env_handed_to_the_single_name_is_refused():
    from stable_baselines3.common.vec_env import DummyVecEnv

    with pytest.raises(TypeError, match=r"adc_wrappers\.sb3"):
        ActuatorCurriculumWrapper(DummyVecEnv([lambda: ScriptedEnv([1])]))


def test_the_env_may_recommend_a_curriculum():
    env = ActuatorCurriculumWrapper(gym.make("ADC/CartPole-v0", backend="analytic"))
    assert env.curriculum.start_stiffness[0] == 36.0
    vector = ActuatorCurriculumWrapper(make_env("cartpole", backend="analytic", num_envs=2))
    assert vector.curriculum.start_stiffness[0] == 36.0


def test_one_curriculum_may_serve_a_wrapper_and_its_joints_must_fit():
    curriculum = ActuatorCurriculum(FAST, ("j0", "j1"))
    env = ActuatorCurriculumWrapper(ScriptedEnv([5]), curriculum)
    assert env.curriculum is curriculum
    with pytest.raises(CurriculumError, match="the curriculum is for 1 joints"):
        ActuatorCurriculumWrapper(ScriptedEnv([5]), ActuatorCurriculum(FAST))


def test_totals_are_combined_before_they_are_used():
    seen = []

    def over_two_ranks(totals):
        seen.append(totals)
        return totals + adc_wrappers.EpisodeTotals.from_lengths([9])

    env = ActuatorCurriculumWrapper(ScriptedEnv([5]), FAST, iteration_steps=5, combine=over_two_ranks)
    env.reset()
    run(env, 5)
    assert seen[0].length_sum == 5.0
    assert env.curriculum.length_ema == 7.0


def test_ranks_learn_of_gains_that_are_not_what_was_written():
    """Whoever finds it still takes part in adding up, and says so: the others would wait for it."""
    said = []

    def tell(totals):
        said.append(totals.failures)
        return totals

    env = ActuatorCurriculumWrapper(ScriptedEnv([5]), FAST, combine=tell)
    env.reset()
    run(env, 5)
    env.end_iteration()
    backend = env.adc.backend
    backend.set_gains(1.1 * backend.gains().stiffness, backend.gains().damping)
    with pytest.raises(BackendError, match="changed behind"):
        env.end_iteration()
    assert said == [0, 1]

    others = ActuatorCurriculumWrapper(
        ScriptedEnv([5]), FAST, combine=lambda totals: dataclasses.replace(totals, failures=1)
    )
    others.reset()
    before = others.curriculum.iteration
    with pytest.raises(BackendError, match="1 other rank"):
        others.end_iteration()
    assert others.curriculum.iteration == before


@pytest.mark.parametrize("apply_at", ["iteration", "reset"])
def test_a_wrapper_follows_a_curriculum_that_is_moved_elsewhere(apply_at):
    env = ActuatorCurriculumWrapper(ScriptedEnv([4]), FAST, apply_at=apply_at)
    env.reset()
    run(env, 8)
    assert env.adc_collect().length_sum == 8.0 and env.adc_collect().episodes == 0
    elsewhere = ActuatorCurriculum(**{k: env.adc_settings()[k] for k in ("config", "joint_names")})
    elsewhere.update([5, 5])
    env.set_wrapper_attr("adc_state", elsewhere.state_dict())
    assert env.adc_state == elsewhere.state_dict()
    backend = env.unwrapped.actuator_backend
    np.testing.assert_allclose(backend.stiffness, 50.0 if apply_at == "iteration" else 60.0)
    env.reset()
    np.testing.assert_allclose(backend.stiffness, 50.0)
    backend.stiffness[:] = 51.0
    with pytest.raises(BackendError, match="behind the curriculum"):
        env.adc_state = elsewhere.state_dict()


def test_a_wrapper_may_be_pinned_for_good():
    env = ActuatorCurriculumWrapper(ScriptedEnv([4]), FAST)
    env.reset()
    run(env, 4)
    env.adc_pin()
    np.testing.assert_allclose(env.unwrapped.actuator_backend.stiffness, 40.0)
    with pytest.raises(ResetNeeded):
        env.step(env.action_space.sample())
    with pytest.raises(CurriculumError, match="pinned"):
        env.adc_state = ActuatorCurriculum(FAST, env.adc_settings()["joint_names"]).state_dict()


def test_a_curriculum_that_nobody_closes_says_so(monkeypatch):
    monkeypatch.setattr("adc_wrappers.core.wrapper_methods._PATIENCE", 50)
    env = ActuatorCurriculumWrapper(ScriptedEnv([5]))
    env.reset()
    with pytest.warns(UserWarning, match="end_iteration"):
        run(env, 60)


@pytest.mark.parametrize("num_envs", [None, 2])
def test_an_env_that_was_only_evaluated_says_so_when_it_is_closed(num_envs):
    envs = [make_env("cartpole", backend="analytic", num_envs=num_envs, time_limit=3) for _ in range(4)]
    wrapped = [ActuatorCurriculumWrapper(env) for env in envs[:3]]
    wrapped.append(ActuatorCurriculumWrapper(envs[3], training=False))
    evaluated, in_time, closed, _ = wrapped
    for env in (evaluated, closed, wrapped[3]):
        env.reset(seed=0)
        run(env, 4)
    with in_time.evaluation():
        in_time.reset(seed=0)
        run(in_time, 4)
    closed.end_iteration()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for env in wrapped[1:]:
            env.close()
    with pytest.warns(UserWarning, match=r"episodes? and no iteration.*K = 36, not at the target K_\* = 6\.25"):
        evaluated.close()


# --- refusals: each before any gain is written -----------------------------------------------------------------------


class NoBackend(gym.Env):
    observation_space = action_space = gym.spaces.Box(-1, 1, (1,))


def test_an_env_without_a_backend_is_refused():
    with pytest.raises(BackendError, match="Pass backend="):
        ActuatorCurriculumWrapper(NoBackend())
    children = SyncVectorEnv([NoBackend])
    with pytest.raises(BackendError, match=r"ActuatorPort"):
        ActuatorCurriculumVectorWrapper(children)


def test_an_incomplete_backend_is_refused():
    class Half:
        num_envs = 1
        joint_names = ("a",)

        def set_gains(self, *arguments):
            pytest.fail("wrote gains")

    with pytest.raises(BackendError, match="lacks effective_inertia, gains"):
        ActuatorCurriculumWrapper(ScriptedEnv([1]), backend=Half())


@pytest.mark.parametrize("inertia", [np.array([0.1]), np.array([0.1, np.nan]), np.array([0.1, 0.0])])
def test_a_wrong_inertia_is_refused(inertia):
    backend = FakeBackend()
    backend.inertia = inertia
    with pytest.raises(BackendError, match="effective_inertia"):
        ActuatorCurriculumWrapper(ScriptedEnv([1]), backend=backend)
    assert not backend.writes


def test_gains_of_a_wrong_shape_are_refused():
    backend = FakeBackend()
    backend.stiffness = np.ones(2)
    with pytest.raises(BackendError, match=r"expected shape \(1, 2\)"):
        ActuatorCurriculumWrapper(ScriptedEnv([1]), backend=backend)
    assert not backend.writes


def test_an_unknown_joint_is_refused():
    backend = FakeBackend()
    with pytest.raises(CurriculumError, match="unknown joint"):
        ActuatorCurriculumWrapper(ScriptedEnv([1]), CurriculumConfig(target_stiffness={"knee": 40.0}), backend=backend)
    assert not backend.writes


@pytest.mark.parametrize(("inertia", "stable"), [(60.0 * 0.01**2, False), (61.0 * 0.01**2, False), (0.02, True)])
def test_explicit_pd_that_the_time_step_cannot_hold_is_refused(inertia, stable):
    backend = FakeBackend(inertia=inertia)
    backend.explicit_time_step = 0.01
    if stable:
        ActuatorCurriculumWrapper(ScriptedEnv([1]), backend=backend)
        assert backend.writes
    else:
        with pytest.raises(CurriculumError, match="unstable at an explicit physics step"):
            ActuatorCurriculumWrapper(ScriptedEnv([1]), backend=backend)
        assert not backend.writes


@pytest.mark.parametrize("margin", [0.98, 1.02])
@pytest.mark.parametrize("zeta", [0.3, 1.0, 2.0])
def test_the_limit_of_explicit_pd_is_where_a_simulation_diverges(margin, zeta):
    """The rule of check_time_step against a simulated joint just inside and just outside of it."""
    from adc_wrappers.core.actuators import check_time_step

    # a + 4 zeta sqrt(a) = 4 is the bound for K dt²/M = a; the other, b < 2, is 2 zeta sqrt(a) < 2
    root = min(-2 * zeta + np.sqrt(4 * zeta**2 + 4), 1 / zeta)
    a = margin * root**2
    stiffness, inertia, dt = 50.0, 0.1, np.sqrt(a * 0.1 / 50.0)
    q, v = 1.0, 0.0
    for _ in range(3000):
        v += dt * (-stiffness * q - 2 * zeta * np.sqrt(stiffness * inertia) * v) / inertia
        q += dt * v
        if abs(q) > 1e6:
            break
    damping = 2 * zeta * np.sqrt(stiffness * inertia)
    arguments = (np.array([stiffness]), np.array([damping]), np.array([inertia]), dt, ["j"])
    if margin > 1:
        assert abs(q) > 1e6
        with pytest.raises(CurriculumError):
            check_time_step(*arguments)
    else:
        assert abs(q) < 1e-6
        check_time_step(*arguments)


def test_a_backend_that_ignores_writes_is_found_out():
    with pytest.raises(BackendError, match=r"did not take: stiffness of env 0, joint 'j0' should be 60 and reads 1"):
        ActuatorCurriculumWrapper(ScriptedEnv([1]), backend=FakeBackend(ignore_writes=True))


def test_gains_changed_behind_the_curriculum_are_found_out():
    env = ActuatorCurriculumWrapper(ScriptedEnv([5]), FAST)
    env.unwrapped.actuator_backend.stiffness[0, 1] = 17.0
    with pytest.raises(BackendError, match="changed behind the curriculum"):
        env.end_iteration()


@pytest.mark.parametrize("value", [0, -3, 2.5])
def test_a_bad_length_of_iteration_is_refused(value):
    with pytest.raises(CurriculumError, match="iteration_steps"):
        ActuatorCurriculumWrapper(ScriptedEnv([1]), iteration_steps=value)


def test_a_bad_moment_of_application_is_refused():
    with pytest.raises(CurriculumError, match="Did you mean 'reset'"):
        ActuatorCurriculumWrapper(ScriptedEnv([1]), apply_at="resets")


def test_a_vector_env_must_say_how_it_resets():
    inner = make_env("cartpole", backend="analytic", num_envs=2)
    inner.metadata = {}
    with pytest.raises(BackendError, match="autoreset_mode"):
        ActuatorCurriculumVectorWrapper(inner)


def test_a_step_before_the_first_reset_is_refused():
    env = ActuatorCurriculumWrapper(ScriptedEnv([1]))
    with pytest.raises(ResetNeeded):
        env.step(env.action_space.sample())
