"""The curriculum of the paper's authors' code: fixed damping, and an average that moves per batch of resets."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from helpers import FakeBackend, ScriptedEnv, TorchBatchEnv
from stable_baselines3.common.vec_env import DummyVecEnv

from adc_wrappers import (
    ActuatorCurriculum,
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    CurriculumConfig,
    CurriculumError,
    EpisodeTotals,
    make_env,
)
from adc_wrappers.core.config import AUTHORS
from adc_wrappers.core.counters import ArrayCounter, TensorCounter
from adc_wrappers.sb3 import ActuatorCurriculumVecEnv

PER_RESETS = CurriculumConfig(average="resets", ema=0.5, length_max=100.0)


def ema(*means):
    value = 0.0
    for mean in means:
        value = 0.5 * value + 0.5 * mean
    return value


# --- damping ---------------------------------------------------------------------------------------------------------


def test_fixed_damping_stays_while_stiffness_falls():
    backend = FakeBackend()
    config = CurriculumConfig(**AUTHORS, ema=1.0, length_max=10.0)
    env = ActuatorCurriculumWrapper(ScriptedEnv([5], backend), config)
    np.testing.assert_array_equal(backend.damping, 1.5)
    for _ in range(2):
        env.reset()
        for _ in range(5):
            env.step(np.zeros(2, np.float32))
        report = env.end_iteration()
    assert report["stiffness"] == pytest.approx(50.0) and report["damping_mean"] == 1.5
    np.testing.assert_array_equal(backend.damping, 1.5)
    with env.evaluation():
        np.testing.assert_array_equal(backend.stiffness, 40.0)
        np.testing.assert_array_equal(backend.damping, 1.5)


def test_fixed_damping_by_joint():
    backend = FakeBackend()
    config = CurriculumConfig(damping="fixed", fixed_damping={"j1": 2.0, "j0": 1.0})
    ActuatorCurriculumWrapper(ScriptedEnv([5], backend), config)
    np.testing.assert_array_equal(backend.damping, [[1.0, 2.0]])
    with pytest.raises(CurriculumError, match="fixed_damping: unknown joint 'j2'"):
        wrong = CurriculumConfig(damping="fixed", fixed_damping={"j2": 2.0, "j0": 1.0})
        ActuatorCurriculumWrapper(ScriptedEnv([5], FakeBackend()), wrong)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"damping": "fixed"}, "together with fixed_damping"),
        ({"fixed_damping": 1.5}, "together with fixed_damping"),
        ({"damping": "fixed", "fixed_damping": 0.0}, "positive"),
        ({"damping": "fixed", "fixed_damping": float("nan")}, "finite"),
        ({"damping": "criticl"}, "Did you mean 'critical'"),
        ({"average": "reset"}, "Did you mean 'resets'"),
    ],
)
def test_what_does_not_fit_together_is_refused(settings, complaint):
    with pytest.raises(CurriculumError, match=complaint):
        CurriculumConfig(**settings)


def test_fixed_damping_that_an_explicit_step_cannot_hold_is_refused():
    backend = FakeBackend(inertia=0.001)
    backend.explicit_time_step = 0.002
    with pytest.raises(CurriculumError, match="unstable"):
        ActuatorCurriculumWrapper(ScriptedEnv([5], backend), CurriculumConfig(**AUTHORS))
    assert not backend.writes


def test_spot_trains_at_the_authors_damping():
    envs = ActuatorCurriculumVectorWrapper(
        make_env("spot-handstand", backend="mujoco", num_envs=2, preset="authors"), CurriculumConfig(**AUTHORS)
    )
    live = envs.adc.backend.gains()
    assert (live.stiffness == 60.0).all() and (live.damping == 1.5).all()
    envs.close()


# --- the average -----------------------------------------------------------------------------------------------------


def test_the_average_moves_once_per_batch_of_resets():
    curriculum = ActuatorCurriculum(PER_RESETS)
    curriculum.update(EpisodeTotals(3, 60.0, batches=(10.0, 25.0)))
    assert curriculum.length_ema == ema(10.0, 25.0) and curriculum.iteration == 1
    curriculum.update([])
    assert curriculum.length_ema == ema(10.0, 25.0)
    curriculum.update([30.0, 50.0])  # plain lengths are one batch
    assert curriculum.length_ema == ema(10.0, 25.0, 40.0)
    plain = ActuatorCurriculum(CurriculumConfig(ema=0.5, length_max=100.0))
    plain.update(EpisodeTotals(3, 60.0, batches=(10.0, 25.0)))
    assert plain.length_ema == ema(20.0)


def test_lengths_that_were_only_added_up_are_refused():
    curriculum = ActuatorCurriculum(PER_RESETS)
    with pytest.raises(CurriculumError, match="ended together"):
        curriculum.update(EpisodeTotals(3, 60.0))
    assert curriculum.iteration == 0 and curriculum.length_ema == 0.0


def test_counters_of_arrays_and_tensors_keep_the_same_batches():
    from gymnasium.vector import AutoresetMode

    rng = np.random.default_rng(0)
    done = rng.random((100, 5)) < 0.05
    arrays = ArrayCounter(5, AutoresetMode.SAME_STEP, batches=True)
    tensors = TensorCounter(torch.zeros(5), batches=True)
    plain = TensorCounter(torch.zeros(5))
    for part in (done[:70], done[70:]):
        for row in part:
            arrays.step(row)
            for counter in (tensors, plain):
                counter.step(torch.from_numpy(row), torch.zeros(5, dtype=torch.bool))
        want, have, without = arrays.collect(), tensors.collect(), plain.collect()
        assert want == have == without and not without.batches
        assert len(want.batches) == int(part.any(axis=1).sum())
        np.testing.assert_allclose(have.batches, want.batches, rtol=1e-6)
    assert tensors.collect_with([torch.tensor(7.0)]) == (EpisodeTotals(), [7.0])


def test_batches_are_in_a_counters_state_and_protected_totals_are_one_batch():
    from gymnasium.vector import AutoresetMode

    counter = ArrayCounter(2, AutoresetMode.SAME_STEP, batches=True)
    for done in ([False, True], [True, False]):
        counter.step(np.array(done))
    other = ArrayCounter(2, AutoresetMode.SAME_STEP, batches=True)
    other.load_state_dict(counter.state_dict())
    assert other.collect().batches == counter.collect().batches == (1.0, 2.0)
    tensors = TensorCounter(torch.zeros(2), batches=True)
    for protected in (other, tensors):
        protected.protect(100.0)
    for done in ([False, True], [True, False], [True, True]):
        other.step(np.array(done))
        tensors.step(torch.tensor(done), torch.zeros(2, dtype=torch.bool))
    have, want = tensors.collect(), other.collect()
    assert have.batches == (have.mean_length,) and want.batches == (want.mean_length,)


def test_every_wrapper_counts_batches():
    single = ActuatorCurriculumWrapper(ScriptedEnv([2, 4]), PER_RESETS)
    for _ in range(2):
        single.reset()
        while not any(single.step(np.zeros(2, np.float32))[2:4]):
            pass
    single.end_iteration()
    assert single.curriculum.length_ema == ema(2.0, 4.0)

    batch = ActuatorCurriculumWrapper(TorchBatchEnv([[3], [3], [4]], substeps=0), PER_RESETS)
    batch.reset()
    for _ in range(6):
        batch.step(torch.zeros(3, 2))
    batch.end_iteration()
    assert batch.curriculum.length_ema == pytest.approx(ema(3.0, 4.0, 3.0))

    limit = {"backend": "analytic", "time_limit": 5, "start_angle": 0.0, "start_rate": 0.0}
    vector = ActuatorCurriculumVectorWrapper(make_env("cartpole", num_envs=2, **limit), PER_RESETS)
    vector.reset(seed=0)
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([lambda: make_env("cartpole", **limit)] * 2), PER_RESETS)
    venv.reset()
    for _ in range(10):
        vector.step(np.zeros((2, 1), np.float32))
        venv.step(np.zeros((2, 1), np.float32))
    for env in (vector, venv):
        env.end_iteration()
        assert env.curriculum.length_ema == ema(5.0, 5.0)


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_the_settings_are_in_the_state_and_a_difference_is_refused():
    config = CurriculumConfig(**AUTHORS)
    curriculum = ActuatorCurriculum(config)
    curriculum.update([500.0])
    state = json.loads(json.dumps(curriculum.state_dict()))
    other = ActuatorCurriculum(config)
    other.load_state_dict(state)
    assert other.length_ema == curriculum.length_ema
    with pytest.raises(CurriculumError, match="average: saved 'resets', now 'iteration'"):
        ActuatorCurriculum().load_state_dict(state)


def test_a_state_of_an_older_version_still_loads_into_the_papers_rule_and_into_no_other():
    state = ActuatorCurriculum().state_dict()
    for name in ("damping", "fixed_damping", "average"):
        del state["config"][name]
    ActuatorCurriculum().load_state_dict(state)
    with pytest.raises(CurriculumError, match="damping: saved 'critical', now 'fixed'"):
        ActuatorCurriculum(CurriculumConfig(**AUTHORS)).load_state_dict(state)


# --- a run, by command -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_recipe_trains_resumes_and_is_exported_at_its_own_gains(tmp_path):
    from adc_wrappers.cli.main import main
    from adc_wrappers.policy import load
    from adc_wrappers.runs import RunFolder

    words = ["train", "spot-handstand", "--recipe", "authors", "--num-envs", "4", "--ppo.batch-size", "48"]
    words += ["--eval-episodes", "0", "--out", str(tmp_path / "run")]
    main([*words, "--steps", "96"])
    main([*words, "--steps", "192", "--resume"])
    columns = RunFolder.open(tmp_path / "run").metrics.read()
    assert list(columns["iteration"]) == [1, 2] and set(columns["damping_mean"]) == {1.5}
    main(["export", str(tmp_path / "run"), "--out", str(tmp_path / "policy.onnx")])
    metadata = load(tmp_path / "policy.onnx").metadata
    assert metadata.simulated_stiffness == (40.0,) * 12 and metadata.simulated_damping == (1.5,) * 12
    assert metadata.action_scale == (0.2,) * 12  # α at the target: in training it began at 0.2 · 40/60
