"""One truth: a run's settings are its checkpoint's, and a policy's env is the one that it was made for."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from adc_wrappers import ActuatorCurriculumWrapper, make_env
from adc_wrappers.cli.main import main
from adc_wrappers.envs.fit import MadeFor
from adc_wrappers.policy import PolicyEnvError, check_env, env_differences, load
from adc_wrappers.runs import CheckpointError, RunFolder, RunFolderError
from adc_wrappers.study.results import read_results
from adc_wrappers.training import load_trained

QUICK = ["--backend", "analytic", "--workers", "batch", "--num-envs", "4", "--ppo.n-steps", "32", "--ppo.hidden", "8"]
POLICY = Path(__file__).parents[2] / "examples" / "policies" / "spot_handstand.onnx"


def adc(*words):
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A study of one run, trained and evaluated."""
    study = tmp_path_factory.mktemp("study")
    run = study / "adc" / "seed0"
    assert adc("train", "cartpole", *QUICK, "--steps", 256, "--out", run, "--eval-episodes", 0) == 0
    assert adc("eval", run, "--episodes", 4, "--no-picture") == 0
    return study


@pytest.fixture
def run(trained, tmp_path):
    """A copy of it, to be tampered with."""
    shutil.copytree(trained, tmp_path / "study")
    return tmp_path / "study" / "adc" / "seed0"


def edit(run, change):
    path = run / "config.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def commands(run):
    return {
        "eval": ["eval", run, "--episodes", "4"],
        "play": ["play", run, "--out", run / "film.gif"],
        "export": ["export", run],
        "view": ["view", run, "--seconds", "0"],
        "resume": ["train", "cartpole", "--out", run, "--resume", "--steps", "512"],
        "report": ["study", "report", run.parents[1], "--no-films"],
    }


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["eval", "play", "export", "view", "resume", "report"])
def test_a_target_stiffness_that_was_edited_is_refused_everywhere(run, command, capsys):
    edit(run, lambda values: values["curriculum"].update(target_stiffness=16.0))
    before = sorted(path for path in run.parents[1].rglob("*"))
    assert adc(*commands(run)[command]) == 1
    said = capsys.readouterr().err
    assert "curriculum.target_stiffness: the checkpoint has 6.25, config.json 16.0" in said and "--stiffness" in said
    assert sorted(path for path in run.parents[1].rglob("*")) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda values: values.update(settings={"action_scale": 3.0}),
            "settings.action_scale: the checkpoint has None",
        ),
        (lambda values: values.update(backend="pybullet"), "backend: the checkpoint has 'analytic'"),
        (lambda values: values["curriculum"].update(damping_ratio=0.5), "curriculum.damping_ratio"),
        (lambda values: values["actions"].update(noise_std=0.5), "actions.noise_std"),
    ],
)
def test_every_setting_is_the_checkpoints(run, change, words):
    edit(run, change)
    with pytest.raises(RunFolderError, match=r"is not what step_000000000256\.ckpt was trained with") as caught:
        load_trained(RunFolder.open(run))
    assert words in str(caught.value)


def test_the_length_of_a_training_may_change(run):
    edit(run, lambda values: (values["ppo"].update(total_steps=512), values.update(checkpoint_every=2)))
    assert load_trained(RunFolder.open(run)).steps == 256


def test_a_checkpoint_of_an_older_version_knows_its_curriculum(run):
    folder = RunFolder.open(run)
    newest = folder.checkpoints.load_latest()
    parts = {name: content for name, content in newest.files.items() if name not in ("config.json", "made_for.json")}
    folder.checkpoints.save(newest.step, parts)
    policy = load_trained(folder)
    assert policy.made_for.stiffness == (6.25,) and policy.made_for.deployment.policy_step > 0
    edit(run, lambda values: values["curriculum"].update(target_stiffness=16.0))
    with pytest.raises(RunFolderError, match=r"target_stiffness: the checkpoint has 6\.25"):
        load_trained(folder)


@pytest.mark.parametrize("content", [b"[]", b"{}", b'{"deployment": 3}', b"nonsense"])
def test_parts_that_say_nothing_are_a_broken_checkpoint(run, content):
    folder = RunFolder.open(run)
    newest = folder.checkpoints.load_latest()
    for name in ("made_for.json", "config.json"):
        folder.checkpoints.save(newest.step, {**newest.files, name: content})
        with pytest.raises(CheckpointError, match=r"cannot be read|Expecting|expected a JSON object"):
            load_trained(folder)


def test_an_evaluation_of_another_target_is_no_result(run):
    shutil.rmtree(run / "checkpoints")  # as results that are kept without their checkpoints
    assert len(read_results(run.parents[1]).runs) == 1
    edit(run, lambda values: values["curriculum"].update(target_stiffness=16.0))
    with pytest.raises(RunFolderError, match=r"eval\.json is of a target stiffness of 6\.25, config\.json of 16"):
        read_results(run.parents[1])


# --- envs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped():
    return load(POLICY)


def test_the_shipped_policy_refuses_the_plain_env_with_another_scale(shipped):
    env = make_env("spot-handstand")
    with pytest.raises(PolicyEnvError, match=r"action_scale: the policy was made for 1\.2, the env has 0\.9"):
        check_env(shipped, env)
    env.close()


def test_an_env_of_its_own_settings_is_accepted_at_its_gains_and_refused_at_others(shipped):
    config = shipped.config
    env = make_env(config.task, **config.settings)
    assert check_env(shipped, ActuatorCurriculumWrapper(env, config.curriculum, training=False)) == []
    stiff = dataclasses.replace(config.curriculum, start_stiffness=60.0)
    trained = ActuatorCurriculumWrapper(env, stiff)
    with pytest.raises(PolicyEnvError, match="live stiffness: the policy was made for 40, the env has 60"):
        check_env(shipped, trained)
    assert check_env(shipped, trained, gains=False) == []
    env.close()


class _Seen(gym.ObservationWrapper):
    def observation(self, observation):
        return observation * 2.0


def cart(**settings):
    return make_env("cartpole", backend="analytic", **settings)


class _Made:
    def __init__(self, made_for):
        self.made_for = made_for


def changed(env, **changes):
    """A policy for the env of this one, but for what is given."""
    own = MadeFor.of(env)
    return _Made(dataclasses.replace(own, deployment=dataclasses.replace(own.deployment, **changes)))


def test_each_difference_is_named():
    env = cart()
    own = MadeFor.of(env)
    parts = own.deployment.observation
    assert env_differences(_Made(own), env) == {}
    assert list(env_differences(changed(env, joint_names=("wheel",)), env)) == ["joint_names"]
    assert list(env_differences(changed(env, nominal_pose=(0.3,)), env)) == ["nominal_pose"]
    assert list(env_differences(changed(env, action_limit=2.0), env)) == ["action_limit"]
    assert list(env_differences(changed(env, policy_step=0.5), env)) == ["policy_step"]
    assert list(env_differences(changed(env, observation=parts[::-1]), env)) == ["observation"]
    assert "_Seen changes what the policy sees" in env_differences(_Made(own), _Seen(env))["observation"]
    worded = tuple(dataclasses.replace(part, meaning="In other words.") for part in parts)
    assert env_differences(changed(env, observation=worded), env) == {}
    env.actuator_backend.set_gains(np.full((1, 1), 9.0), np.full((1, 1), 5.0))
    assert "made for 6.25, the env has 9" in env_differences(_Made(own), env)["stiffness"]


def test_what_was_asked_for_is_said_and_what_cannot_work_is_refused_all_the_same():
    env = cart()
    policy = changed(env, action_scale=(7.0,))
    with pytest.warns(UserWarning, match="action_scale: the policy was made for 7"):
        assert len(check_env(policy, env, asked=("action_scale",))) == 1
    with pytest.raises(PolicyEnvError, match="joints: the policy was made for wheel"):
        check_env(changed(env, joint_names=("wheel",)), env, asked=("joint_names",))


def test_what_a_policy_was_made_for_survives_json():
    own = MadeFor.of(cart())
    assert MadeFor.from_dict(json.loads(json.dumps(own.to_dict()))) == own


def test_an_evaluation_with_another_scale_says_so_in_words_and_in_its_file(run, capsys):
    assert adc("eval", run, "--episodes", 4, "--no-picture", "--set", "command_limit=0.5") == 0
    assert "warning: the env is not the one that the policy was made for: action_scale" in capsys.readouterr().err
    (path,) = run.glob("eval-command_limit*.json")
    assert "the env has 0.5" in json.loads(path.read_text())["differs_from_training"][0]
    assert "differs_from_training" not in json.loads((run / "eval.json").read_text())


@pytest.mark.parametrize("command", ["eval", "play", "export", "view"])
def test_a_task_whose_own_numbers_changed_since_the_training_is_refused(run, command, capsys, monkeypatch):
    """As with a later version of the library that has another default."""
    from adc_wrappers.envs.cartpole import CartTask

    plain = CartTask.deployment
    monkeypatch.setattr(
        CartTask, "deployment", lambda task: dataclasses.replace(plain(task), nominal_pose=(0.25,)), raising=True
    )
    assert adc(*commands(run)[command]) == 1
    assert "nominal_pose: the policy was made for 0, the env has 0.25" in capsys.readouterr().err
