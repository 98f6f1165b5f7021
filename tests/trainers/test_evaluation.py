"""Evaluations: fair, repeatable, at the gains they say, with every episode accounted for."""

from __future__ import annotations

import csv
import dataclasses
import json

import gymnasium as gym
import numpy as np
import pytest
from helpers import FakeBackend
from hypothesis import given, settings
from hypothesis import strategies as st

from adc_wrappers import CurriculumConfig, CurriculumError, make_env
from adc_wrappers.envs.task import EpisodeMonitor
from adc_wrappers.runs import evaluate
from adc_wrappers.runs.episode_log import BROKEN, EpisodeLog
from adc_wrappers.runs.evaluation import _Outcome
from adc_wrappers.training import default_config
from adc_wrappers.training.evaluating import EvaluationSetup, draw_evaluation, evaluate_policy
from adc_wrappers.training.trained import env_of

CONFIG = CurriculumConfig(start_stiffness=36.0, target_stiffness=36.0)


def lean_back(observation):
    """A hand-made balancer for a cart of stiffness 36."""
    return np.clip(observation @ np.array([[0.67], [0.78], [3.79], [0.71]], np.float32), -1.0, 1.0)


class HandMade:
    """A policy as the commands see one."""

    steps = 7

    def __init__(self, backend="analytic", task="cartpole", act=lean_back, **options):
        base = default_config(task, backend, options)
        target = 36.0 if task == "cartpole" else 40.0
        curriculum = dataclasses.replace(base.curriculum, target_stiffness=target)
        self.config = dataclasses.replace(base, curriculum=curriculum)
        self.made_for = env_of(self.config)
        self.act = act

    def __call__(self, observation):
        return self.act(observation)


def play(policy, episodes=12, seed=3, num_envs=4, **setup):
    where = EvaluationSetup.of(policy.config, **setup)
    return evaluate_policy(policy, where, episodes=episodes, seed=seed, num_envs=num_envs)


# --- counting ---------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(num_envs=st.integers(1, 6), episodes=st.integers(1, 30), seed=st.integers(0, 10**6))
def test_every_env_counts_its_share_whatever_the_lengths(num_envs, episodes, seed):
    """Episodes of env i last i + 1 steps; without a quota the short ones would crowd out the long."""
    log = EpisodeLog(num_envs, episodes, None)
    clock, rng = np.zeros(num_envs, int), np.random.default_rng(seed)
    never = np.zeros(num_envs, bool)
    while log.missing:
        clock += 1
        ended = clock > np.arange(num_envs)
        lost = ended & (rng.random(num_envs) < 0.5)
        log.step(_Outcome(np.ones(num_envs), {"one": np.ones(num_envs)}, lost, ended & ~lost, ended & ~lost, never))
        log.begin(np.flatnonzero(ended))
        clock[ended] = 0
    counts = np.bincount([row.env for row in log.rows], minlength=num_envs)
    assert counts.sum() == episodes and counts.max() - counts.min() <= 1
    for row in log.rows:
        assert row.length == row.env + 1 == row.reward == row.reward_terms["one"]
        assert row.mode == ("terminated" if row.terminated else "success") and row.success != row.terminated


def test_modes_of_a_task_that_has_none_of_its_own():
    monitor = EpisodeMonitor()
    assert [monitor.failure(0, terminated=flag) for flag in (True, False)] == list(monitor.failures)


def test_a_vector_env_of_somebody_else_is_evaluated_by_its_flags():
    class Others(gym.vector.VectorEnv):
        metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}  # noqa: RUF012
        num_envs = 3
        single_observation_space = observation_space = gym.spaces.Box(-1, 1, (3, 2))
        single_action_space = action_space = gym.spaces.Box(-1, 1, (3, 2))
        actuator_backend = FakeBackend(3)
        clock = 0

        def reset(self, *, seed=None, options=None):
            return np.zeros((3, 2), np.float32), {}

        def step(self, actions):
            self.clock += 1
            done = np.full(3, self.clock % 5 == 0)
            infos = {"final_info": {"is_success": np.array([True, False, True])}} if done.any() else {}
            return np.zeros((3, 2), np.float32), np.ones(3), np.zeros(3, bool), done, infos

    result = evaluate(lambda o: np.zeros((3, 2)), Others(), CONFIG, episodes=6, seed=0)
    assert result.mode_counts() == {"success": 4, "terminated": 0, "timed out": 2, BROKEN: 0}
    assert result.lengths.tolist() == [5] * 6 and result.returns.tolist() == [5.0] * 6 and not result.clips


def test_broken_physics_is_a_mode_of_its_own():
    log = EpisodeLog(1, 1, None)
    yes, no = np.ones(1, bool), np.zeros(1, bool)
    log.step(_Outcome(np.zeros(1), {}, yes, no, no, yes))
    assert log.rows[0].mode == BROKEN


# --- results ----------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_episodes_and_terms_add_up_to_the_return(tmp_path):
    policy = HandMade(start_angle=0.7, time_limit=120)
    (first, summary), (second, again) = play(policy), play(policy)
    assert first.rows == second.rows and summary == again
    assert play(policy, seed=4)[0].rows != first.rows
    for row in first.rows:
        assert sum(row.reward_terms.values()) == pytest.approx(row.reward)
    assert 0 < summary["modes"]["success"] < 12 and sum(summary["modes"].values()) == 12
    assert summary["num_envs"] == 4 and summary["at_target"] and summary["stiffness"] == [36.0]
    assert sum(summary["reward_terms"].values()) == pytest.approx(summary["return_mean"])
    assert json.loads(json.dumps(summary)) == summary
    first.write_csv(tmp_path / "eval.csv")
    with (tmp_path / "eval.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["return"]) for row in rows] == first.returns.tolist()
    assert [row["mode"] for row in rows] == [row.mode for row in first.rows]
    assert "reward_alive" in rows[0] and rows[5]["env"] == "1"


def test_watchers_leave_when_the_evaluation_is_over():
    envs = make_env("cartpole", backend="analytic", num_envs=2, time_limit=20)
    evaluate(lean_back, envs, CONFIG, episodes=2, seed=0)
    assert envs.watchers == []
    with pytest.raises(RuntimeError, match="boom"):
        evaluate(lambda o: (_ for _ in ()).throw(RuntimeError("boom")), envs, CONFIG, episodes=2, seed=0)
    assert envs.watchers == []


def test_clips_end_with_the_episode_and_come_from_the_first_env():
    policy = HandMade(act=lambda o: np.ones((len(o), 1), np.float32))
    result, _ = play(policy, episodes=8)
    clip = result.clips["terminated"]
    number = result.episode_number(clip)
    assert (clip.env_id, number) == (0, 0) and clip.length == result.rows[0].length
    assert len(clip.poses) == min(clip.length, 150)
    final_x, final_angle = clip.poses[-1][[0, 2]]
    assert abs(final_x) > 1.0 or abs(final_angle) > np.pi / 2  # the state that ended it
    assert np.abs(clip.poses[:-1, 0]).max() <= 1.0 and np.abs(clip.poses[:-1, 2]).max() <= np.pi / 2


def test_the_picture_shows_the_failures(tmp_path):
    import imageio.v2 as imageio

    policy = HandMade(start_angle=0.9, time_limit=120)
    result, _ = play(policy)
    path = draw_evaluation(result, EvaluationSetup.of(policy.config), tmp_path / "plots" / "eval.png", "title")
    with_frames = imageio.imread(path)
    assert path.stat().st_size < 300_000
    perfect = dataclasses.replace(result, clips={})
    without = imageio.imread(draw_evaluation(perfect, EvaluationSetup.of(policy.config), tmp_path / "two.png", "title"))
    assert with_frames.shape[0] > without.shape[0] > 100


# --- setups -----------------------------------------------------------------------------------------------------------


def test_setups_are_named_after_what_differs_from_the_training():
    config = HandMade(start_angle=0.3).config
    assert EvaluationSetup.of(config).name == "eval"
    assert EvaluationSetup.of(config, backend="analytic", settings={"start_angle": 0.3}, stiffness=36.0).name == "eval"
    other = EvaluationSetup.of(config, backend="pybullet", settings={"time_limit": 50}, stiffness=20.0)
    assert other.name == "eval-pybullet-time_limit=50-K20" and not other.at_target
    assert other.settings == {"start_angle": 0.3, "time_limit": 50}
    spot = default_config("spot-handstand", "mujoco", {"randomize": True})
    assert EvaluationSetup.of(spot, settings={"randomize": False}).name == "eval-no-randomize"
    assert EvaluationSetup.of(spot, settings={"randomize": ("friction", "push")}).name == (
        "eval-randomize=_friction_push"
    )
    assert EvaluationSetup.of(spot, settings={"randomize": True}).name == "eval"


def test_nonsense_is_refused():
    config = HandMade().config
    with pytest.raises(ValueError, match="Did you mean 'pybullet'"):
        EvaluationSetup.of(config, backend="pybulet")
    with pytest.raises(TypeError, match="no setting 'randomize'"):
        EvaluationSetup.of(config, settings={"randomize": False})
    for stiffness in (0.0, -1.0, float("nan")):
        with pytest.raises(CurriculumError, match="positive"):
            EvaluationSetup.of(config, stiffness=stiffness)
    for wrong in (0, 13):
        with pytest.raises(ValueError, match="num_envs: expected 1 to 12"):
            play(HandMade(), num_envs=wrong)
    with pytest.raises(ValueError, match="episodes"):
        play(HandMade(), episodes=0)


def test_another_stiffness_and_another_engine_are_really_used():
    policy = HandMade(start_angle=0.5, time_limit=60)
    stiff, summary = play(policy, stiffness=50.0)
    assert stiff.stiffness == (50.0,) and not summary["at_target"] and summary["target_stiffness"] == 36.0
    assert stiff.returns.mean() != play(policy)[0].returns.mean()
    bullet, summary = play(policy, episodes=4, backend="pybullet")
    assert summary["backend"] == "pybullet" and summary["trained"]["backend"] == "analytic"
    assert bullet.stiffness == (36.0,)


@pytest.mark.slow
def test_spot_in_two_engines_with_modes_and_randomization(tmp_path):
    policy = HandMade("mujoco", "spot-handstand", lambda o: np.zeros((len(o), 12), np.float32), time_limit=150)
    for backend in ("mujoco", "pybullet"):
        result, summary = play(policy, episodes=6, num_envs=3, backend=backend)
        assert result.stiffness == (40.0,) * 12
        assert summary["modes"]["success"] == 0 and "fell back" in summary["modes"]
        assert set(summary["means"]) == {"attempts", "stance_seconds", "least_tilt_deg"}
        assert all(0.3 <= row.randomization["friction"] <= 1.0 for row in result.rows)
        path = draw_evaluation(
            result, EvaluationSetup.of(policy.config, backend=backend), tmp_path / f"{backend}.png", "zero action"
        )
        assert path.stat().st_size > 20_000
    plain, _ = play(policy, episodes=2, num_envs=2, settings={"randomize": False})
    assert plain.rows[0].randomization == {} and plain.rows[0].reward == pytest.approx(plain.rows[1].reward)
