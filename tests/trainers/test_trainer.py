"""One way to train: a protocol with two libraries behind it, and runs that are brought to their end."""

from __future__ import annotations

import inspect
import threading
from contextlib import contextmanager
from dataclasses import replace

import gymnasium as gym
import pytest
import torch
from resume_helpers import ITERATIONS, Reporter, StoppedError, assert_same_run, run, tiny_config

from adc_wrappers import CurriculumError
from adc_wrappers.runs import RunFolder
from adc_wrappers.training import TrainConfig, Trainer, find_trainer, trainer_module
from adc_wrappers.training.config import TRAINERS
from adc_wrappers.training.deterministic import DeterministicPolicy
from adc_wrappers.training.evaluating import EvaluationSetup, evaluate_and_keep, evaluate_policy
from adc_wrappers.training.metrics import Pace
from adc_wrappers.training.trained import load_trained
from adc_wrappers.training.trainer import finish_run, steps_done, stored_config


@pytest.mark.parametrize("name", TRAINERS)
def test_every_trainer_has_what_the_protocol_asks_for(name):
    trainer = find_trainer(name)
    for method in ("make_training_env", "train", "load_module"):
        wanted = list(inspect.signature(getattr(Trainer, method)).parameters)[1:]
        assert list(inspect.signature(getattr(trainer, method)).parameters) == wanted


def test_an_unknown_trainer_is_refused_and_the_old_name_still_works():
    with pytest.raises(CurriculumError, match="Did you mean 'rsl_rl'"):
        find_trainer("rslrl")
    with pytest.warns(DeprecationWarning, match="find_trainer"):
        assert trainer_module("sb3") is find_trainer("sb3")


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_run_is_brought_to_its_end_from_wherever_it_is(tmp_path, trainer):
    config = tiny_config("cartpole", "analytic", trainer)
    whole = run(config, tmp_path / "whole")
    seen = []

    @contextmanager
    def show(done):
        seen.append(done)
        yield Reporter(None if done else 5)

    with pytest.raises(StoppedError):
        finish_run(config, tmp_path / "run", show)
    assert_same_run(whole, finish_run(config, tmp_path / "run", show))
    assert seen == [0, 4 * config.ppo.iteration_steps]  # the checkpoint of the fourth iteration
    finish_run(config, tmp_path / "run", show)
    assert len(seen) == 2  # nothing was left to do


@pytest.mark.parametrize("stop_at", [None, 3])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_no_thread_outlives_a_training_however_it_ends(tmp_path, trainer, stop_at):
    """TensorBoard's writer has one, with a file: a search or a study trains many times in one process."""
    before = set(threading.enumerate())
    folder = run(tiny_config("cartpole", "analytic", trainer), tmp_path / "run", stop_at=stop_at)
    assert list(folder.tensorboard.iterdir())
    assert set(threading.enumerate()) <= before


def test_a_run_with_other_settings_is_not_gone_on_with(tmp_path):
    config = tiny_config("cartpole", "analytic", "sb3")
    folder = RunFolder.create(tmp_path / "run", config.to_dict())
    assert steps_done(folder) == 0 and TrainConfig.from_dict(stored_config(folder.path)) == config
    with pytest.raises(CurriculumError, match="other settings"):
        finish_run(replace(config, seed=config.seed + 1), folder.path)


def test_an_evaluation_is_kept_as_the_setup_is_called(tmp_path):
    config = tiny_config("cartpole", "analytic", "sb3")
    folder = finish_run(config, tmp_path / "run")
    policy = load_trained(folder)
    assert policy.steps == ITERATIONS * config.ppo.iteration_steps
    setup = EvaluationSetup.of(config, stiffness=20.0)
    _, kept = evaluate_and_keep(policy, setup, folder.path, episodes=3, seed=1)
    assert kept == evaluate_policy(policy, setup, episodes=3, seed=1)[1]
    assert {"eval-K20.json", "eval-K20.csv"} <= {path.name for path in folder.path.iterdir()}


COLUMNS = [
    "iteration", "steps", "stiffness", "damping_mean", "progress", "episode_length_ema", "episode_length_mean",
    "episodes", "success_ema", "holding", "return_mean", "action_std", "learning_rate", "steps_per_second",
]  # fmt: skip


@pytest.mark.parametrize("trainer", TRAINERS)
def test_rows_checkpoints_and_policies_are_alike_whoever_trains(tmp_path, trainer):
    folder = finish_run(tiny_config("cartpole", "analytic", trainer), tmp_path / "run")
    known = [name for name in COLUMNS if trainer == "rsl_rl" or name not in ("holding", "action_std")]
    assert list(folder.metrics.read()) == known
    checkpoint = folder.checkpoints.load_latest()
    assert {"state.json", "parameters.pt", "torch_rng.pt", "envs.json", "envs.bin"} <= set(checkpoint.files)
    state = {"num_timesteps", "curriculum", "task", "learning_rate", "python_rng", "numpy_rng"}
    assert set(checkpoint.json("state.json")) == state
    assert type(load_trained(folder).module) is DeterministicPolicy


@pytest.mark.parametrize("trainer", TRAINERS)
def test_how_strict_a_world_is_that_grows_strict_is_in_the_rows(tmp_path, trainer):
    config = tiny_config("spot-planar-handstand", "mujoco", trainer)
    config = replace(config, settings={**config.settings, "preset": "robot"})
    folder = finish_run(config, tmp_path / "run")
    assert folder.metrics.read()["strictness"] == [0.0] * ITERATIONS
    assert folder.checkpoints.load_latest().json("state.json")["task"]["level"] == 0.0


def test_a_policy_without_a_box_of_actions_is_refused():
    with pytest.raises(TypeError, match="box of actions"):
        DeterministicPolicy(torch.nn.Identity(), gym.spaces.Discrete(3))


def test_the_pace_counts_from_where_it_was_last_asked(monkeypatch):
    now = iter([0.0, 10.0, 12.0, 16.0])
    monkeypatch.setattr("adc_wrappers.training.metrics.time.perf_counter", lambda: next(now))
    pace = Pace()
    pace.restart(100)
    assert (pace.at(120), pace.at(160)) == (10.0, 10.0)
