"""Trainings that begin with another run's policy: the same task's, or the plane's lifted into space."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import torch

from adc_wrappers import CurriculumConfig, CurriculumError, make_env
from adc_wrappers.cli.main import main
from adc_wrappers.envs.lift import lift_from_less, lift_from_plane
from adc_wrappers.rsl_rl.training import _build, begin_with, make_training_env
from adc_wrappers.runs import CheckpointError, RunFolder
from adc_wrappers.training import PpoConfig, default_config
from adc_wrappers.training.recipes import RECIPES, first_config
from adc_wrappers.training.trained import load_trained, read_tensors
from adc_wrappers.training.trainer import finish_run

SIDES = [0, 3, 6, 9]
PAIRS = np.array([[1, 4], [2, 5], [7, 10], [8, 11]])


def tiny(task, *, seed=0, preset="cpu", **changes):
    scale = {"action_scale": 1.2} if preset == "cpu" else {}  # whatever the recipe's is
    config = default_config(task, "mujoco", {"preset": preset, **scale}, seed=seed)
    hidden = changes.pop("hidden", (16, 8) if "planar" in task else (24, 16))
    ppo = dataclasses.replace(
        config.ppo, total_steps=64, num_envs=4, n_steps=8, batch_size=16, n_epochs=1, hidden=hidden, output_gain=1.0
    )
    return dataclasses.replace(config, ppo=dataclasses.replace(ppo, **changes))


def built(config):
    torch.manual_seed(3)
    env = make_training_env(config)
    return _build(config, env, None, None), env


def symmetric_observations(count=50, seed=0):
    """What a Spot sees whose left and right are alike, and what it sees of that in its plane."""
    rng = np.random.default_rng(seed)
    plane = rng.normal(size=(count, 17))
    space = np.zeros((count, 45))
    space[:, [0, 2]], space[:, 4], space[:, [6, 8]] = plane[:, :2], plane[:, 2], plane[:, 3:5]
    for part in range(3):
        for pair, joint in enumerate(PAIRS):
            space[:, 9 + 12 * part + joint] = plane[:, [5 + 4 * part + pair]]
    return plane, space


@pytest.fixture(scope="module")
def planar_run(tmp_path_factory):
    return finish_run(tiny("spot-planar-handstand"), tmp_path_factory.mktemp("plane") / "run").path


def test_the_plane_sees_the_means_of_left_and_right_and_moves_both():
    plane, space = (make_env(task).unwrapped.task.deployment() for task in ("spot-planar-handstand", "spot-handstand"))
    lift = lift_from_plane(plane, space)
    seen, observed = symmetric_observations()
    np.testing.assert_allclose(observed @ lift.observations.T, seen, atol=1e-12)
    action = np.array([0.1, 0.2, 0.3, 0.4])
    moved = lift.actions @ action
    np.testing.assert_allclose(moved[PAIRS], np.stack([action, action], axis=1))
    assert not moved[SIDES].any()
    np.testing.assert_allclose(observed @ lift.apart(), 0.0, atol=1e-12)


def test_another_action_scale_gives_the_same_targets():
    plane = make_env("spot-planar-handstand", action_scale=1.2).unwrapped.task.deployment()
    space = make_env("spot-handstand", action_scale=0.6).unwrapped.task.deployment()
    lift = lift_from_plane(plane, space)
    np.testing.assert_allclose(0.6 * (lift.actions @ np.ones(4))[PAIRS], 1.2)
    last = np.zeros(45)
    last[33:] = 1.0
    np.testing.assert_allclose((lift.observations @ last)[13:], 0.5)  # the same target is half of the plane's action


@pytest.mark.parametrize("mirrored", [True, False])
def test_a_lifted_policy_does_what_the_plane_s_does(planar_run, mirrored):
    changes = {} if mirrored else {"mirrored": False, "sideways_std": None}
    config = dataclasses.replace(tiny("spot-handstand", **changes), start_from=str(planar_run))
    runner, env = built(config)
    begin_with(runner.alg, env, config)
    seen, observed = symmetric_observations()
    expected = load_trained(RunFolder.open(planar_run))(seen.astype(np.float32))
    policy = runner.alg.get_policy().as_onnx(verbose=False)
    with torch.inference_mode():
        actions = policy(torch.tensor(observed, dtype=torch.float32)).clip(-1, 1).numpy()
    np.testing.assert_allclose(actions[:, PAIRS], np.stack([expected, expected], axis=-1), atol=2e-5)
    assert np.ptp(expected, axis=0).min() > 0.01  # it does something
    if mirrored:
        # sideways joints: left and right are alike too, and small
        np.testing.assert_allclose(actions[:, [0, 6]], -actions[:, [3, 9]], atol=1e-5)


def test_its_value_is_the_plane_s_and_what_the_plane_does_not_see_can_be_learned(planar_run):
    config = dataclasses.replace(tiny("spot-handstand"), start_from=str(planar_run))
    runner, env = built(config)
    begin_with(runner.alg, env, config)
    planar, _ = built(tiny("spot-planar-handstand"))
    weights = read_tensors(RunFolder.open(planar_run).checkpoints.load_latest(), "parameters.pt")
    planar.alg.critic.load_state_dict(weights["critic_state_dict"])
    seen, observed = symmetric_observations()
    values = [
        model.mlp(torch.tensor(values, dtype=torch.float32)).detach().numpy()
        for model, values in ((planar.alg.critic, seen), (runner.alg.critic, observed))
    ]
    np.testing.assert_allclose(values[1], values[0], atol=1e-4)
    first = next(iter(runner.alg.get_policy().mlp.mlp.parameters()))
    assert (first[:, 1].abs() > 0.0).all()  # the velocity sideways enters every unit


def test_a_run_of_the_same_task_hands_its_networks_on(planar_run, tmp_path):
    config = dataclasses.replace(tiny("spot-planar-handstand", seed=5), start_from=str(planar_run))
    runner, env = built(config)
    begin_with(runner.alg, env, config)
    weights = read_tensors(RunFolder.open(planar_run).checkpoints.load_latest(), "parameters.pt")
    for name, tensor in runner.alg.get_policy().state_dict().items():
        assert torch.equal(tensor, weights["actor_state_dict"][name])
    assert runner.alg.learning_rate == 1e-5 and {group["lr"] for group in runner.alg.optimizer.param_groups} == {1e-5}
    trained = finish_run(config, tmp_path / "on")
    assert trained.config()["start_from"] == str(planar_run)


@pytest.fixture(scope="module")
def space_run(tmp_path_factory):
    return finish_run(tiny("spot-handstand"), tmp_path_factory.mktemp("space") / "run").path


def robot(**changes):
    """What sees eight moments, acts behind a limiter, and has another α than the run that it begins with."""
    return tiny("spot-handstand", preset="robot", **changes)


@pytest.mark.parametrize("privileged", [False, True])
def test_a_policy_of_one_moment_does_the_same_where_there_are_eight(space_run, privileged):
    config = dataclasses.replace(robot(privileged_value=privileged, seed=9), start_from=str(space_run))
    runner, env = built(config)
    begin_with(runner.alg, env, config)
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(50, 45)).astype(np.float32)
    ratio = 1.2 / 1.7
    observed = rng.normal(size=(50, 360)).astype(np.float32)  # what was before does not count at first
    observed[:, :45] = seen
    observed[:, 33:45] *= ratio  # the same targets
    expected = load_trained(RunFolder.open(space_run))(seen)
    policy = runner.alg.get_policy().as_onnx(verbose=False)
    with torch.inference_mode():
        actions = policy(torch.tensor(observed)).numpy()
    free = np.abs(expected) < 1.0  # where the smaller α did not clip
    np.testing.assert_allclose(actions[free], ratio * expected[free], atol=2e-5)
    assert free.mean() > 0.5
    weights = read_tensors(RunFolder.open(space_run).checkpoints.load_latest(), "parameters.pt")
    std = runner.alg.get_policy().distribution.log_std_param.exp()
    theirs = weights["actor_state_dict"]["distribution.log_std_param"].exp()
    np.testing.assert_allclose(std.detach(), ratio * theirs, rtol=1e-5)

    smaller, _ = built(tiny("spot-handstand"))
    smaller.alg.critic.load_state_dict(weights["critic_state_dict"])
    size = len(env.unwrapped.task.privileged().scale) if privileged else 360
    view = rng.normal(size=(50, size)).astype(np.float32)
    view[:, :45] = observed[:, :45]
    values = [
        model.mlp(torch.tensor(numbers)).detach().numpy()
        for model, numbers in ((smaller.alg.critic, seen), (runner.alg.critic, view))
    ]
    np.testing.assert_allclose(values[1], values[0], atol=1e-4)


def test_the_same_observations_and_scale_need_no_lift():
    deployment = make_env("spot-handstand").unwrapped.task.deployment()
    assert lift_from_less(deployment, deployment) is None


def test_a_policy_that_sees_more_is_refused(space_run):
    robots, space = (make_env("spot-handstand", preset=name).unwrapped.task.deployment() for name in ("robot", "cpu"))
    with pytest.raises(CurriculumError, match=r"that sees .*_before_1.* cannot begin.*no fewer moments"):
        lift_from_less(robots, space)
    plane = make_env("spot-planar-handstand").unwrapped.task.deployment()
    with pytest.raises(CurriculumError, match="expected a policy of the same joints"):
        lift_from_less(plane, space)
    config = dataclasses.replace(tiny("spot-handstand", mirrored=False, sideways_std=None), start_from=str(space_run))
    runner, env = built(config)
    with pytest.raises(CurriculumError, match=r"trained with --ppo\.mirrored True"):
        begin_with(runner.alg, env, config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "spot-handstand", "hidden": (8, 8)}, "does not fit into one of"),
        ({"task": "spot-handstand", "scale_observations": False}, "scale-observations"),
        ({"task": "spot-hindstand"}, "cannot begin a training of 'spot-hindstand'"),
        ({"task": "spot-handstand", "equivariant": True}, "cannot be lifted"),
        ({"task": "spot-planar-handstand", "hidden": (4, 4)}, "expected"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(planar_run, changes, message):
    config = dataclasses.replace(tiny(changes.pop("task"), **changes), start_from=str(planar_run))
    runner, env = built(config)
    with pytest.raises((CurriculumError, CheckpointError), match=message):
        begin_with(runner.alg, env, config)


def test_only_rsl_rl_begins_with_weights():
    config = default_config("cartpole", "analytic")
    with pytest.raises(CurriculumError, match="expected trainer 'rsl_rl'"):
        dataclasses.replace(config, start_from="runs/other")


def test_the_command_begins_where_another_run_ended(planar_run, tmp_path, capsys):
    out = tmp_path / "space"
    small = ["--steps", "64", "--num-envs", "4", "--ppo.n-steps", "8", "--ppo.batch-size", "16"]
    words = ["train", "spot-handstand", *small, "--eval-episodes", "0", "--out", str(out)]
    assert main([*words, "--start-from", str(planar_run)]) == 0
    assert RunFolder.open(out).config()["start_from"] == str(planar_run)
    assert (
        main(["train", "spot-handstand", "--out", str(out), "--resume", "--steps", "96", "--eval-episodes", "0"]) == 0
    )
    capsys.readouterr()
    assert main(["train", "spot-handstand", "--out", str(tmp_path / "b"), "--start-from", str(tmp_path / "no")]) != 0
    assert "no" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


@pytest.fixture
def small_robot_recipes(monkeypatch):
    """The recipe `robot` and the one that it begins with, each a training of two iterations."""
    small = PpoConfig(
        total_steps=64, num_envs=4, n_steps=8, batch_size=16, n_epochs=1, hidden=(8, 8), scale_observations=True
    )
    for name in ("progress", "robot"):
        recipe = dataclasses.replace(RECIPES["spot-handstand"][name], ppo=small)
        monkeypatch.setitem(RECIPES["spot-handstand"], name, recipe)


def test_what_a_recipe_begins_with_can_be_left_out(tmp_path, small_robot_recipes):
    words = ["train", "spot-handstand", "--recipe", "robot", "--no-first", "--eval-episodes", "0"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert RunFolder.open(tmp_path / "run").config()["start_from"] is None
    assert not (tmp_path / "run-first").exists()


@pytest.mark.slow
def test_a_recipe_that_begins_with_another_trains_that_first(tmp_path, small_robot_recipes, monkeypatch, capsys):
    out, first = tmp_path / "run", tmp_path / "run-first"
    words = ["train", "spot-handstand", "--recipe", "robot", "--out", str(out), "--eval-episodes", "0"]
    given = ["--seed", "4", "--set", "fall_cost=20.0", "moments=2", "--curriculum.target-stiffness", "42"]
    assert main([*words, *given]) == 0
    before, after = RunFolder.open(first).config(), RunFolder.open(out).config()
    assert after["start_from"] == str(first)
    assert (before["recipe"], before["seed"], before["settings"]["fall_cost"]) == ("progress", 4, 20.0)
    assert before["curriculum"]["target_stiffness"] == 42.0
    assert before["settings"]["preset"] == "stepping" and "moments" not in before["settings"]
    assert after["settings"]["preset"] == "robot" and after["settings"]["moments"] == 2
    assert RunFolder.open(first).checkpoints.load_latest().step == 64
    capsys.readouterr()
    assert main([*words, "--resume", "--steps", "96"]) == 0
    assert "first spot-handstand" not in capsys.readouterr().out  # it is done
    assert main([*words, *given]) != 0  # both folders are in the way
    shutil.rmtree(out)
    assert main([*words, *given]) != 0  # as is the first alone
    assert f"{first} exists" in " ".join(capsys.readouterr().err.split())
    assert main([*words, *given, "--overwrite"]) == 0
    shutil.rmtree(out / "checkpoints")
    shutil.rmtree(first / "checkpoints")  # as if it had been stopped in the first
    assert main([*words, "--resume"]) == 0
    assert RunFolder.open(first).checkpoints.load_latest().step == 64
    each = CurriculumConfig(start_stiffness=[60.0] * 12, target_stiffness=[40.0] * 12, length_max=1.0)
    config = dataclasses.replace(default_config("spot-handstand", "mujoco", recipe="robot"), curriculum=each)
    assert first_config(config).curriculum.target_stiffness == each.target_stiffness
    plane = dataclasses.replace(RECIPES["spot-handstand"]["robot"], first=("spot-planar-handstand", "robot"))
    monkeypatch.setitem(RECIPES["spot-handstand"], "robot", plane)
    with pytest.raises(CurriculumError, match="one stiffness for all joints"):
        first_config(config)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([*words[:-3], str(tmp_path / "two"), "--eval-episodes", "0"]) != 0
    assert "give it with --start-from" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "two").exists()
