"""Simulators of tensors by the same interface: arrays for evaluation, tensors for RSL-RL, settings that stay apart."""

from __future__ import annotations

import configparser
import dataclasses
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import FakeBackend
from isaac_stubs import fake_spots
from spot_helpers import NOSE_DOWN, make_state

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig, CurriculumError
from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.core.errors import MissingExtraError, UnknownSettingError, install_command
from adc_wrappers.envs.fit import MadeFor, PolicyEnvError, check_env
from adc_wrappers.envs.registry import find_task, make_env
from adc_wrappers.envs.spot import SpotSettings
from adc_wrappers.envs.spot.tensors import check_model
from adc_wrappers.envs.tensor_env import TensorTaskEnv
from adc_wrappers.rsl_rl.vec_env import TensorVecEnv
from adc_wrappers.runs import evaluate
from adc_wrappers.training import TrainConfig, default_config
from adc_wrappers.training.evaluating import EvaluationSetup

COUNT, LIMIT = 3, 4
ROOT = Path(__file__).parents[2]
SPEC = find_task("spot-handstand")


def spots(**parts):
    state = RobotState(*(torch.as_tensor(np.asarray(p), dtype=torch.float32) for p in make_state(COUNT, **parts)))
    env = fake_spots(state, LIMIT, time_limit=LIMIT)
    backend = FakeBackend(COUNT, joints=12)
    backend.joint_names = tuple(JOINT_NAMES)
    env.actuator_backend = backend
    return env


def zeros(observation):
    return np.zeros((len(observation), 12), np.float32)


def test_an_evaluation_counts_the_episodes_of_tensors():
    result = evaluate(zeros, TensorTaskEnv(spots()), CurriculumConfig(), episodes=7, seed=0)
    assert result.lengths.tolist() == [LIMIT] * 7
    assert result.stiffness == (40.0,) * 12
    assert result.mode_counts()["never lifted"] == 7
    assert result.rows[0].reward == pytest.approx(sum(result.rows[0].reward_terms.values()))
    fallen = evaluate(zeros, TensorTaskEnv(spots(touching=("body",))), CurriculumConfig(), episodes=3, seed=0)
    assert fallen.lengths.tolist() == [1] * 3 and all(row.terminated for row in fallen.rows)


def test_a_step_gives_gymnasiums_shapes_and_the_end_of_an_episode():
    envs = TensorTaskEnv(spots(touching=("fl_foot", "fr_foot"), projected_gravity=NOSE_DOWN))
    observation, _ = envs.reset(seed=0)
    assert observation.shape == (COUNT, 45) and observation.dtype == np.float32
    for _ in range(LIMIT):
        observation, reward, terminated, truncated, infos = envs.step(zeros(observation))
    assert truncated.all() and not terminated.any() and reward.dtype == np.float64
    assert infos["holds"].all() and infos["progress"].tolist() == [1.0] * COUNT
    assert infos["_final_obs"].all() and infos["final_obs"][0].shape == (45,)
    with pytest.raises(ValueError, match="reset_mask"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})


def test_rsl_rls_view_keeps_returns_on_the_device_until_they_are_asked_for():
    env = ActuatorCurriculumWrapper(spots(touching=("fl_foot", "fr_foot"), projected_gravity=NOSE_DOWN))
    view = TensorVecEnv(env, reward_scale=0.5)
    total = torch.zeros(COUNT)
    for _ in range(LIMIT):
        observation, reward, done, extras = view.step(torch.zeros(COUNT, 12))
        total += 2.0 * reward
    assert observation["policy"].shape == (COUNT, 45)
    assert done.tolist() == [1] * COUNT and extras["time_outs"].all()
    assert list(view.recent_returns) == pytest.approx(total.tolist())
    assert view.holding == pytest.approx(LIMIT)
    view.holding = 0.0
    assert view.holding == 0.0
    view.episode_length_buf = torch.tensor([1, 2, 3])
    assert env.unwrapped.episode_length_buf.tolist() == [1, 2, 3]


class Policy:
    def __init__(self, made_for):
        self.made_for = made_for


@pytest.mark.parametrize("change", ["action_scale", "nominal_pose", "joint_names", "stiffness", "observation"])
def test_a_policy_from_tensors_is_refused_where_anything_differs(change):
    """What comes from Isaac Lab meets MuJoCo with the same joints, pose, α, observation and gains, or not at all."""
    pinned = ActuatorCurriculumWrapper(TensorTaskEnv(spots()), CurriculumConfig(), training=False)
    made = MadeFor.of(pinned)
    assert made.deployment.joint_names == tuple(JOINT_NAMES)
    assert check_env(Policy(made), pinned) == []
    deployment = made.deployment
    turned = {
        "action_scale": (0.5,) * 12,
        "nominal_pose": tuple(q + 0.1 for q in deployment.nominal_pose),
        "joint_names": deployment.joint_names[::-1],
        "observation": deployment.observation[::-1],
    }
    if change in turned:
        made = dataclasses.replace(made, deployment=dataclasses.replace(deployment, **{change: turned[change]}))
    else:
        made = dataclasses.replace(made, stiffness=(60.0,) * 12)
    with pytest.raises(PolicyEnvError, match="joints" if change == "joint_names" else change):
        check_env(Policy(made), pinned)


def test_the_paper_is_exact_and_its_device_is_no_setting_of_the_task(monkeypatch):
    config = default_config("spot-handstand", "isaaclab", {"device": "cuda:1", "engine": "newton"}, recipe="paper")
    ppo = config.ppo
    assert (ppo.num_envs, config.iterations, ppo.n_steps, ppo.minibatches, ppo.hidden) == (
        4096, 10_000, 24, 4, (512, 256, 128),
    )  # fmt: skip
    curriculum = config.curriculum
    assert (curriculum.start_stiffness, curriculum.target_stiffness, curriculum.length_max) == (60.0, 40.0, 1000.0)
    assert config.on_tensors and config.device == "cuda:1"
    assert TrainConfig.from_dict(config.to_dict()) == config
    assert config.moved_to("cpu").device == "cpu" and config.moved_to(None) is config
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert config.device == "cuda:3" and config.moved_to("cpu").device == "cpu"
    assert default_config("spot-handstand", "mujoco").device == "cpu"
    with pytest.raises(CurriculumError, match="steps all envs together"):
        TrainConfig.from_dict({**config.to_dict(), "workers": "dummy", "trainer": "sb3"})


def test_an_evaluation_elsewhere_leaves_the_simulators_options_behind():
    settings = {"device": "cuda:0", "engine": "physx", "source": "generated", "time_limit": 500}
    config = default_config("spot-handstand", "isaaclab", settings, recipe="paper")
    there = EvaluationSetup.of(config, backend="mujoco")
    assert there.settings == {"time_limit": 500} and there.name == "eval-mujoco"
    here = EvaluationSetup.of(config, settings={"device": "cpu"})
    assert here.settings == {**settings, "device": "cpu"} and here.name == "eval"


def test_a_policy_of_the_plane_is_lifted_into_tensors_as_into_arrays():
    view = TensorVecEnv(ActuatorCurriculumWrapper(spots(), CurriculumConfig()))
    plane = make_env("spot-planar-handstand").unwrapped.task.deployment()
    lift = view.unwrapped.task.lift(plane)
    expected = make_env("spot-handstand").unwrapped.task.lift(plane)
    np.testing.assert_allclose(lift.observations, expected.observations)
    np.testing.assert_allclose(lift.actions, expected.actions)
    assert view.unwrapped.task.lift(view.unwrapped.task.deployment()) is None


def test_mistyped_settings_are_answered_before_a_simulator_is_imported():
    with pytest.raises(UnknownSettingError, match="Did you mean 'time_limit'"):
        make_env("spot-handstand", backend="isaaclab", time_limt=5)
    with pytest.raises(UnknownSettingError, match="no setting 'engine'"):
        make_env("spot-handstand", backend="mjlab", engine="newton")
    with pytest.raises(CurriculumError, match="has no backend 'isaclab'"):
        make_env("spot-handstand", backend="isaclab")
    assert SPEC.simulators == ("mujoco", "pybullet", "spot", "isaaclab", "mjlab")


def test_a_model_of_ones_own_is_refused_where_it_would_not_be_simulated():
    with pytest.raises(CurriculumError, match="'mjlab' simulates its own model of Spot"):
        check_model(SpotSettings(model="my.xml"), "mjlab")
    check_model(SpotSettings(), "mjlab")


def test_mjlab_has_the_papers_recipe_and_another_simulators_options_stay_behind():
    config = default_config("spot-handstand", "mjlab", {"device": "cuda:1"}, recipe="paper")
    assert (config.trainer, config.workers, config.ppo.num_envs, config.device) == ("rsl_rl", "batch", 4096, "cuda:1")
    there = EvaluationSetup.of(config, backend="isaaclab")
    assert there.settings == {"device": "cuda:1"} and there.name == "eval-isaaclab"
    settings = {"engine": "physx", "time_limit": 500}
    from_isaac = default_config("spot-handstand", "isaaclab", settings, recipe="paper")
    assert EvaluationSetup.of(from_isaac, backend="mjlab").settings == {"time_limit": 500}
    with pytest.raises(CurriculumError, match="has no backend 'mjlab'"):
        make_env("spot-hindstand", backend="mjlab")


def test_without_mjlab_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mjlab", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_command("mjlab"))):
        make_env("spot-handstand", backend="mjlab", num_envs=1)


def test_mjlab_is_told_where_the_task_is():
    """By an entry point, whose module is there; that mjlab finds it, tests/trainers/test_mjlab_commands.py shows."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    (line,) = filter(None, config["options.entry_points"]["mjlab.tasks"].splitlines())
    assert (ROOT / (line.split(" = ")[1].replace(".", "/") + ".py")).exists()
