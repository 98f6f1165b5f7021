"""The CPU recipe for Spot's stances: the preset, the bonus for the stance, the fall cost that eases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spot_helpers import LEVEL, NOSE_DOWN, fake_task, make_state

from adc_wrappers import CurriculumError, make_env
from adc_wrappers.envs.spot.settings import FallCost
from adc_wrappers.training import PpoConfig, default_config
from adc_wrappers.training.evaluating import EvaluationSetup
from adc_wrappers.training.recipes import find_recipe
from adc_wrappers.training.trainer import find_trainer


@given(st.lists(st.integers(0, 4), max_size=200))
def test_the_cost_of_a_fall_stays_between_early_and_late(counts):
    cost = FallCost(25.0, 10.0)
    for count in counts:
        cost.note(np.arange(4) < count)
        assert 10.0 <= cost.now <= 25.0


def test_it_eases_as_the_stance_is_found_and_comes_back_when_it_is_lost():
    cost = FallCost(25.0, 10.0)
    for _ in range(3000):
        cost.note(np.array([True, False]))
    assert cost.now == 10.0
    restored = FallCost(25.0, 10.0)
    restored.load_state_dict(cost.state_dict())
    assert restored.now == cost.now
    for _ in range(6000):
        cost.note(np.array([False, False]))
    assert cost.now == pytest.approx(25.0, abs=0.1)


def test_hops_cost_more_once_the_stance_is_common_and_in_an_evaluation():
    task, _ = fake_task(preset="stepping")

    def weight(share: float, *, training: bool = True) -> float:
        task.training, task.logic.fall_cost.share = training, share
        in_air = make_state(task.backend.num_envs, projected_gravity=NOSE_DOWN)  # nothing touches the ground
        before = task.logic.moment(in_air, task.last_action)
        task.logic.look(in_air, before, task.last_action)
        return float(task.reward_terms()["support_feet_in_air"][0]) / task.policy_step

    assert [weight(share) for share in (0.0, 0.3, 0.45, 0.6, 1.0)] == pytest.approx([-5.0, -5.0, -15.0, -25.0, -25.0])
    assert weight(0.0, training=False) == pytest.approx(-25.0)
    task, _ = fake_task(preset="stepping", weights={"support_feet_in_air": -3.0})  # who gives a weight has it
    assert weight(1.0) == weight(0.0) == pytest.approx(-3.0)


@pytest.mark.parametrize("share", [None, "0.5", -0.1, 1.5])
def test_a_state_that_is_none_is_refused(share):
    with pytest.raises(CurriculumError, match="stance_share"):
        FallCost(25.0, 10.0).load_state_dict({"stance_share": share})


def test_the_preset_pays_for_the_stance():
    task, robots = fake_task(num_envs=2, preset="cpu")
    robots.now = make_state(2, touching=("fl_foot", "fr_foot"), projected_gravity=[NOSE_DOWN, LEVEL])
    task.look()
    assert task.reward_terms()["stance"].tolist() == pytest.approx([2.0 * 0.02, 0.0])
    assert task.holds().tolist() == [True, False]
    assert "stance" not in fake_task(preset="paper")[0].reward_terms()


def test_a_fall_is_charged_at_the_present_cost():
    task, robots = fake_task(num_envs=2, preset="cpu")
    robots.now = make_state(2, touching=("body",))
    still = np.zeros((2, 12), np.float32)
    task.advance(still)
    assert task.reward_terms()["fall"].tolist() == [-25.0, -25.0]
    task.load_state_dict({"stance_share": 1.0})
    for _ in range(2):
        assert task.reward_terms()["fall"].tolist() == [-10.0, -10.0]
        assert task.state_dict() == {"stance_share": 1.0}  # asking moves nothing
    task.advance(still)
    assert task.state_dict()["stance_share"] == pytest.approx(1.0 - 1 / 640)  # nobody is in the stance: it goes up
    task.training = False
    task.load_state_dict({"stance_share": 0.1})
    task.advance(still)
    assert task.reward_terms()["fall"].tolist() == [-10.0, -10.0]  # a policy is evaluated by the late cost
    assert task.state_dict()["stance_share"] == 0.1


def test_a_fall_costs_what_the_settings_say():
    for settings, early, late in (
        ({"preset": "cpu"}, 25.0, 10.0),
        ({"preset": "paper"}, 10.0, 10.0),
        ({"preset": "cpu", "fall_cost": 30.0}, 30.0, 30.0),
        ({"preset": "cpu", "late_fall_cost": 5.0}, 25.0, 5.0),
        ({"preset": "paper", "fall_cost": 30.0, "late_fall_cost": 5.0}, 30.0, 5.0),
    ):
        task, robots = fake_task(**settings)
        robots.now = make_state(touching=("body",))
        task.look()
        for share, cost in ((0.0, early), (1.0, late)):
            task.load_state_dict({"stance_share": share})
            assert task.reward_terms()["fall"][0] == pytest.approx(-cost), settings
    with pytest.raises(CurriculumError, match="late_fall_cost"):
        make_env("spot-handstand", late_fall_cost=-1.0)


def test_the_recipe_keeps_the_method():
    config = default_config("spot-handstand", "mujoco")
    curriculum = config.curriculum
    assert (curriculum.start_stiffness, curriculum.target_stiffness, curriculum.damping_ratio) == (60.0, 40.0, 1.0)
    assert curriculum.driver == "episode_length"
    assert config.trainer == "rsl_rl"
    assert curriculum.total_iterations == config.iterations
    with pytest.raises(CurriculumError, match=r"no recipe 'papr'\. Did you mean 'paper'"):
        find_recipe("spot-handstand", "papr")


def test_the_longest_episode_is_within_reach_of_the_curriculum_whatever_the_time_limit():
    assert make_env("spot-handstand", backend="mujoco").adc_config.length_max == 1000.0  # the paper's
    assert make_env("spot-handstand", backend="mujoco", time_limit=500).adc_config.length_max == 500.0
    for limit, expected in ((1000, 225.0), (500, 225.0), (100, 90.0)):  # episodes of training have 250 steps at most
        assert default_config("spot-handstand", "mujoco", {"time_limit": limit}).curriculum.length_max == expected
    for limit, expected in ((1000, 900.0), (500, 450.0)):
        assert default_config("spot-hindstand", "mujoco", {"time_limit": limit}).curriculum.length_max == expected


@pytest.mark.parametrize("trainer", ["rsl_rl", "sb3"])
def test_episodes_of_training_are_cut_short_and_those_of_an_evaluation_are_not(trainer):
    config = default_config("spot-handstand", "mujoco", {"randomize": False})
    config = replace(config, trainer=trainer, episode_steps=6, ppo=replace(config.ppo, num_envs=2))
    env = find_trainer(trainer).make_training_env(config)
    layer = env
    while not hasattr(layer, "task"):
        layer = getattr(layer, "venv", None) or getattr(layer, "env", None) or layer.envs
    assert layer.task.time_limit == 6
    env.close()
    assert config.settings == replace(config, episode_steps=None).training_settings
    assert replace(config, settings={"time_limit": 4}).training_settings["time_limit"] == 4  # never longer than its own
    assert "time_limit" not in EvaluationSetup.of(config).settings
    with pytest.raises(CurriculumError, match="episode_steps: expected at least 1, got 0"):
        replace(config, episode_steps=0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_grad_norm", 0.0), ("min_std", -1.0), ("sideways_std", -1.0), ("output_gain", np.nan), ("value_coef", np.nan),
     ("entropy_coef", -0.1), ("final_entropy_coef", np.inf), ("final_target_kl", 0.0)],
)  # fmt: skip
def test_ppo_settings_that_teach_nothing_are_refused(name, value):
    with pytest.raises(CurriculumError, match=f"ppo.{name}: expected"):
        PpoConfig(**{name: value})
