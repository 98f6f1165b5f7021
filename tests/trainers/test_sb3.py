"""Stable-Baselines3: one curriculum in the main process, callbacks, save and load, learning rate."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from helpers import FakeBackend, ScriptedEnv
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback, EveryNTimesteps
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize

from adc_wrappers import (
    ActuatorCurriculumVectorWrapper,
    ActuatorPort,
    BackendError,
    CurriculumConfig,
    CurriculumError,
    make_env,
)
from adc_wrappers.sb3 import (
    ActuatorCurriculumVecEnv,
    CurriculumCallback,
    CurriculumCheckpointCallback,
    KLAdaptiveCallback,
    KLAdaptiveLearningRate,
    TargetGainsEvalCallback,
    VectorEnvAdapter,
    find_curriculum,
)

FAST = CurriculumConfig(start_stiffness=36.0, target_stiffness=6.25, length_max=60, ema=0.5)
cart = functools.partial(make_env, "cartpole", backend="analytic")


def small_ppo(venv, **arguments):
    settings = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "device": "cpu", "seed": 0}
    return PPO("MlpPolicy", venv, policy_kwargs={"net_arch": [8]}, **{**settings, **arguments})


class Record(CurriculumCallback):
    """A callback that also notes what each iteration did and what the children then had."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def _on_rollout_end(self):
        super()._on_rollout_end()
        wrapper = find_curriculum(self.training_env)
        live = wrapper.adc.backend.gains().stiffness
        self.rows.append((wrapper.adc.last_totals, wrapper.curriculum.stiffness[0], live))


@pytest.mark.parametrize("vec_class", [DummyVecEnv, pytest.param(SubprocVecEnv, marks=pytest.mark.slow)])
def test_the_callback_closes_an_iteration_per_rollout_and_children_follow(vec_class):
    venv = VecMonitor(ActuatorCurriculumVecEnv(vec_class([cart] * 2), FAST))
    record = Record()
    model = small_ppo(venv)
    model.learn(64 * 4, callback=record)
    assert len(record.rows) == 4 == venv.curriculum.iteration
    ema = 0.0
    for totals, stiffness, live in record.rows:
        if totals.episodes:
            ema = 0.5 * ema + 0.5 * totals.mean_length
        assert stiffness == pytest.approx(36.0 + min(ema / 60, 1.0) * (6.25 - 36.0))
        np.testing.assert_allclose(live, stiffness)
    assert record.rows[-1][1] < 36.0
    venv.close()


def test_metrics_are_logged_under_adc(tmp_path):
    from stable_baselines3.common.logger import configure

    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2), FAST)
    model = small_ppo(venv)
    model.set_logger(configure(str(tmp_path), ["json"]))
    model.learn(128, callback=CurriculumCallback())
    rows = [json.loads(line) for line in (tmp_path / "progress.json").read_text().splitlines()]
    assert {"adc/stiffness", "adc/progress", "adc/episode_length_ema", "adc/damping_mean"} <= set(rows[-1])


def test_outer_wrappers_do_not_hide_the_curriculum():
    venv = VecNormalize(VecMonitor(ActuatorCurriculumVecEnv(DummyVecEnv([cart]), FAST)))
    assert find_curriculum(venv).curriculum.start_stiffness[0] == 36.0
    assert venv.curriculum is find_curriculum(venv).curriculum
    with pytest.raises(BackendError, match="ActuatorCurriculumVecEnv"):
        find_curriculum(DummyVecEnv([cart]))


def test_evaluation_pins_children_and_needs_resets():
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2), FAST)
    venv.reset()
    with venv.evaluation():
        np.testing.assert_allclose(venv.adc.backend.gains().stiffness, 6.25)
        with pytest.raises(ResetNeeded):
            venv.step(np.zeros((2, 1)))
    np.testing.assert_allclose(venv.adc.backend.gains().stiffness, 36.0)


def test_uniform_stiffness_reaches_each_child():
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 3), CurriculumConfig(driver="uniform", target_stiffness=10))
    venv.reset()
    live = venv.adc.backend.gains().stiffness[:, 0]
    assert len(np.unique(live)) == 3 and live.min() >= 10 and live.max() <= 60


def test_save_and_load_restore_state_and_gains(tmp_path):
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2), FAST)
    small_ppo(venv).learn(128, callback=CurriculumCallback())
    path = tmp_path / "adc.json"
    venv.save(path)
    again = ActuatorCurriculumVecEnv.load(path, DummyVecEnv([cart] * 2))
    assert again.state_dict() == venv.state_dict()
    np.testing.assert_allclose(again.adc.backend.gains().stiffness, venv.curriculum.stiffness[0])
    path.write_text(path.read_text()[:-40])
    with pytest.raises(CurriculumError, match="not JSON that can be read"):
        ActuatorCurriculumVecEnv.load(path, DummyVecEnv([cart]))
    path.write_text("[1]")
    with pytest.raises(CurriculumError, match="not a curriculum file"):
        ActuatorCurriculumVecEnv.load(path, DummyVecEnv([cart]))


def halfway(report):
    return 0.5


def test_a_curriculum_driven_by_a_function_is_loaded_with_its_settings(tmp_path):
    config = CurriculumConfig(driver=halfway)
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart]), config)
    venv.end_iteration()
    venv.save(tmp_path / "adc.json")
    with pytest.raises(CurriculumError, match="unknown driver"):
        ActuatorCurriculumVecEnv.load(tmp_path / "adc.json", DummyVecEnv([cart]))
    again = ActuatorCurriculumVecEnv.load(tmp_path / "adc.json", DummyVecEnv([cart]), config)
    assert again.curriculum.progress == 0.5


def test_checkpoints_have_the_curriculum_beside_the_model(tmp_path):
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2), FAST)
    callbacks = [CurriculumCallback(), CurriculumCheckpointCallback(save_freq=64, save_path=str(tmp_path))]
    small_ppo(venv).learn(256, callback=callbacks)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "rl_model_128_steps.zip", "rl_model_256_steps.zip", "rl_model_adc_128_steps.json", "rl_model_adc_256_steps.json"
    ]  # fmt: skip
    assert json.loads((tmp_path / names[-1]).read_text())["iteration"] >= 3


def test_evaluation_callback_runs_at_the_target_and_checks_it():
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2), FAST)
    callback = TargetGainsEvalCallback(DummyVecEnv([cart]), eval_freq=32, n_eval_episodes=2, verbose=0)
    small_ppo(venv).learn(128, callback=[CurriculumCallback(), callback])
    np.testing.assert_allclose(callback.eval_env.adc.backend.gains().stiffness, 6.25)
    assert callback.last_mean_reward > -np.inf
    assert venv.curriculum.stiffness[0] > 6.25

    drifting = DummyVecEnv([cart])
    callback = TargetGainsEvalCallback(drifting, eval_freq=64, n_eval_episodes=1, verbose=0)
    model = small_ppo(venv)
    model.learn(64, callback=[CurriculumCallback(), callback])
    drifting.env_method("adc_set_gains", np.array([20.0]), np.array([2.0]))
    with pytest.raises(BackendError, match="behind the curriculum"):
        model.learn(64, callback=[CurriculumCallback(), callback])

    training_too = ActuatorCurriculumVecEnv(DummyVecEnv([cart]), FAST)
    with pytest.raises(CurriculumError, match="training=False"):
        small_ppo(venv).learn(64, callback=TargetGainsEvalCallback(training_too, eval_freq=32, verbose=0))


def test_an_evaluation_at_another_target_is_refused():
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart]), dataclasses.replace(FAST, target_stiffness=1.0))
    pinned = ActuatorCurriculumVecEnv(DummyVecEnv([cart]), training=False)  # at what the task recommends
    with pytest.raises(CurriculumError, match=r"pinned at K = \[6.25\].* leads to \[1.0\]"):
        small_ppo(venv).learn(32, callback=TargetGainsEvalCallback(pinned, eval_freq=32, verbose=0))


def test_checkpoints_of_a_batch_hold_its_curriculum(tmp_path):
    envs = ActuatorCurriculumVectorWrapper(make_env("cartpole", backend="analytic", num_envs=2), FAST)
    saving = CurriculumCheckpointCallback(16, str(tmp_path))
    small_ppo(VectorEnvAdapter(envs)).learn(64, callback=[CurriculumCallback(), saving])
    states = sorted(tmp_path.glob("*_adc_*.json"))
    assert [path.name for path in states] == ["rl_model_adc_32_steps.json", "rl_model_adc_64_steps.json"]
    envs.load_state_dict(json.loads(states[0].read_text()))


def test_two_closers_of_one_iteration_are_refused():
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart]), FAST, iteration_steps=32)
    with pytest.raises(CurriculumError, match="would close them too"):
        small_ppo(venv).learn(32, callback=CurriculumCallback())


def test_children_without_actuators_are_refused():
    with pytest.raises(BackendError, match="ActuatorPort"):
        ActuatorCurriculumVecEnv(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))


def test_children_with_different_joints_are_refused():
    children = [
        lambda: ActuatorPort(ScriptedEnv([3], FakeBackend(joints=2))),
        lambda: ActuatorPort(ScriptedEnv([3], FakeBackend(joints=3))),
    ]
    with pytest.raises(BackendError, match="same joints everywhere"):
        ActuatorCurriculumVecEnv(DummyVecEnv(children))


@pytest.mark.slow
def test_a_killed_child_ends_in_an_error_and_not_in_a_hang():
    import os
    import signal

    venv = ActuatorCurriculumVecEnv(SubprocVecEnv([cart] * 2), FAST)
    venv.reset()
    os.kill(venv.venv.processes[1].pid, signal.SIGKILL)
    venv.venv.processes[1].join(5)
    with pytest.raises((EOFError, ConnectionError, BrokenPipeError)):
        for _ in range(3):
            venv.step(np.zeros((2, 1)))
    venv.venv.processes[0].kill()


# --- batched envs ----------------------------------------------------------------------------------------------------


def test_a_vector_env_trains_as_it_is():
    envs = ActuatorCurriculumVectorWrapper(make_env("cartpole", backend="analytic", num_envs=4), FAST)
    venv = VecMonitor(VectorEnvAdapter(envs))
    model = small_ppo(venv)
    model.learn(512, callback=CurriculumCallback())
    assert envs.curriculum.iteration == 4 and envs.curriculum.length_ema > 0
    assert len(model.ep_info_buffer) > 0


def test_the_adapter_hands_over_the_last_observation_truncation_and_success():
    inner = make_env("cartpole", backend="analytic", num_envs=2, time_limit=4, start_angle=0.05)
    venv = VectorEnvAdapter(inner)
    venv.seed(3)
    venv.reset()
    for _ in range(4):
        observation, rewards, dones, infos = venv.step(np.full((2, 1), 0.3, np.float32))
    assert dones.all() and rewards.dtype == np.float32
    assert infos[0]["TimeLimit.truncated"] and infos[0]["terminal_observation"][0] > observation[0, 0] == 0.0
    assert infos[0]["is_success"] is False


def test_the_adapter_refuses_other_reset_modes():
    children = SyncVectorEnv([cart], autoreset_mode=AutoresetMode.NEXT_STEP)
    with pytest.raises(BackendError, match="SAME_STEP"):
        VectorEnvAdapter(children)


def test_the_adapter_and_dummy_agree():
    """The same seeds and actions give the same numbers through both."""
    batch = VectorEnvAdapter(make_env("cartpole", backend="analytic", num_envs=1))
    dummy = DummyVecEnv([cart])
    for venv in (batch, dummy):
        venv.seed(11)
    np.testing.assert_array_equal(batch.reset(), dummy.reset())
    rng = np.random.default_rng(0)
    for _ in range(100):
        action = rng.uniform(-1, 1, (1, 1)).astype(np.float32)
        for a, b in zip(batch.step(action)[:3], dummy.step(action)[:3], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


# --- learning rate ---------------------------------------------------------------------------------------------------


def test_learning_rate_follows_the_divergence_within_its_bounds():
    schedule = KLAdaptiveLearningRate(1e-3, target_kl=0.01, bounds=(5e-4, 2e-3))
    schedule.update(0.015)
    assert schedule(0.3) == 1e-3
    schedule.update(0.021)
    assert schedule(0.3) == pytest.approx(1e-3 / 1.5)
    for _ in range(5):
        schedule.update(float("nan"))
    assert schedule(0.0) == 5e-4
    for _ in range(9):
        schedule.update(0.001)
    assert schedule(1.0) == 2e-3
    schedule.update(0.0)
    assert schedule(1.0) == 2e-3
    with pytest.raises(CurriculumError, match="learning_rate"):
        KLAdaptiveLearningRate(1.0)


def test_the_callback_feeds_the_divergence_and_the_optimizer_uses_the_rate():
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2), FAST)
    schedule = KLAdaptiveLearningRate(1e-3, target_kl=1e-9)
    model = small_ppo(venv, learning_rate=schedule)
    model.learn(64 * 3, callback=[KLAdaptiveCallback(schedule), CurriculumCallback()])
    assert schedule.learning_rate == pytest.approx(1e-3 / 1.5**3)  # for the next update, should there be one
    assert model.policy.optimizer.param_groups[0]["lr"] == pytest.approx(1e-3 / 1.5**2)


# --- the task's own state in workers ---------------------------------------------------------------------------------

spot = functools.partial(make_env, "spot-handstand", backend="mujoco", preset="cpu", randomize=False)
WORKERS = [DummyVecEnv, pytest.param(SubprocVecEnv, marks=pytest.mark.slow)]
SPAWNED = pytest.param(functools.partial(AsyncVectorEnv, context="spawn"), marks=pytest.mark.slow, id="AsyncVectorEnv")


def shares(wrapper):
    return [state["stance_share"] for state in wrapper.inner_task.state_dict()["envs"]]


def stand_about(venv, steps=3):
    venv.reset()
    for _ in range(steps):
        venv.step(np.zeros((venv.num_envs, 12), np.float32))


@pytest.mark.parametrize("vec_class", WORKERS)
def test_tasks_in_workers_rest_in_evaluation_and_go_on_after_it(vec_class):
    venv = ActuatorCurriculumVecEnv(vec_class([spot] * 2))
    try:
        venv.inner_task.load_state_dict({"envs": [{"stance_share": 0.2}, {"stance_share": 0.1}]})
        with venv.evaluation():
            assert not venv.inner_task.training
            stand_about(venv)
            assert shares(venv) == [0.2, 0.1]
        assert venv.inner_task.training
        stand_about(venv)
        assert 0.0 < shares(venv)[0] < 0.2 and 0.0 < shares(venv)[1] < 0.1  # nobody is in the stance
        venv.adc_pin()
        before = shares(venv)
        stand_about(venv)
        assert shares(venv) == before
    finally:
        venv.close()


def test_an_evaluation_env_of_workers_is_judged_by_the_late_cost():
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([spot]), training=False)
    assert not venv.inner_task.training
    assert venv.venv.envs[0].task.training is False
    venv.close()


@pytest.mark.parametrize("vec_class", [SyncVectorEnv, SPAWNED])
def test_tasks_in_gymnasiums_workers_rest_too(vec_class):
    envs = ActuatorCurriculumVectorWrapper(vec_class([spot] * 2, autoreset_mode=AutoresetMode.SAME_STEP))
    try:
        envs.inner_task.load_state_dict({"envs": [{"stance_share": 0.2}, {"stance_share": 0.1}]})
        for rest in (True, False):
            with envs.evaluation() if rest else contextlib.nullcontext():
                envs.reset(seed=0)
                envs.step(np.zeros((2, 12), np.float32))
            assert (shares(envs) == [0.2, 0.1]) == rest
    finally:
        envs.close()


def test_a_state_of_other_workers_is_refused_and_envs_without_a_task_have_none():
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2))
    assert venv.inner_task.state_dict() == {"envs": [{}, {}]}
    venv.inner_task.load_state_dict({"envs": [{}, {}]})
    for state in ({"envs": [{}]}, {"stance_share": 0.1}, {}):
        with pytest.raises(CurriculumError, match="expected a list of 2 under 'envs'"):
            venv.inner_task.load_state_dict(state)
    foreign = ActuatorCurriculumVecEnv(DummyVecEnv([lambda: ActuatorPort(ScriptedEnv([3]), FakeBackend())]))
    assert foreign.inner_task is None


# --- what would go wrong in silence ----------------------------------------------------------------------------------


def quiet_learning(callback, model, steps=64):
    """Train without a single warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Training and eval env are not of the same type")
        model.learn(steps, callback=callback)


def test_a_model_that_lost_its_curriculum_says_so(tmp_path):
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2), FAST)
    model = small_ppo(venv)
    quiet_learning(CurriculumCallback(), model)
    model.save(tmp_path / "model.zip")
    venv.save(tmp_path / "curriculum.json")
    anew = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2), FAST)
    with pytest.warns(UserWarning, match=r"begins anew at K_0 = 36.*ActuatorCurriculumVecEnv\.load"):
        PPO.load(tmp_path / "model.zip", anew, device="cpu").learn(64, callback=CurriculumCallback())
    kept = ActuatorCurriculumVecEnv.load(tmp_path / "curriculum.json", DummyVecEnv([cart] * 2))
    quiet_learning(CurriculumCallback(), PPO.load(tmp_path / "model.zip", kept, device="cpu"))


def test_callbacks_that_do_not_know_the_curriculum_are_named(tmp_path):
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2), FAST)
    wrong = VecMonitor(ActuatorCurriculumVecEnv(DummyVecEnv([cart]), FAST))
    callbacks = [EvalCallback(wrong), EveryNTimesteps(10**9, CheckpointCallback(10**9, str(tmp_path)))]
    with pytest.warns(UserWarning) as found:
        small_ppo(venv).learn(64, callback=[CurriculumCallback(), *callbacks])
    texts = " ".join(str(warning.message) for warning in found)
    assert "at K_0 = 36" in texts and "TargetGainsEvalCallback" in texts
    assert "CurriculumCheckpointCallback" in texts
    right = [
        TargetGainsEvalCallback(VecMonitor(DummyVecEnv([cart]))),
        EvalCallback(VecMonitor(ActuatorCurriculumVecEnv(DummyVecEnv([cart]), FAST, training=False))),
        CurriculumCheckpointCallback(10**9, str(tmp_path)),
    ]
    fresh = VecMonitor(ActuatorCurriculumVecEnv(DummyVecEnv([cart] * 2), FAST))
    quiet_learning([CurriculumCallback(), *right], small_ppo(fresh))


def test_an_env_that_is_evaluated_beside_a_training_warns():
    """As with SB3's EvalCallback under any trainer: it resets the env before every evaluation."""
    trained = ActuatorCurriculumVecEnv(DummyVecEnv([cart]), FAST)
    other = ActuatorCurriculumVecEnv(DummyVecEnv([cart]), FAST)
    trained.reset()
    other.reset()
    other.step(np.zeros((1, 1)))
    trained.end_iteration()
    with pytest.warns(UserWarning, match=r"still at K = 36, not at the target K_\* = 6\.25"):
        other.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.reset()  # once is enough
        trained.reset()
