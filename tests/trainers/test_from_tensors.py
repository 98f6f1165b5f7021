"""From Isaac Lab or mjlab to the robot: a policy file that was trained and exported there runs everywhere else.

``tests/data/isaaclab_policy.onnx`` is what ``tests/trainers/test_isaaclab_commands.py`` makes: three iterations on four
robots, PhysX on a CPU; ``mjlab_policy.onnx`` is what ``test_mjlab_commands.py`` makes, on two robots. They can do
nothing but fall; they show the path. ``ADC_KEEP_POLICY=FILE make test-mjlab`` makes one anew.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from adc_wrappers import ActuatorCurriculumWrapper, make_env
from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.cli import main
from adc_wrappers.deploy import find_trials
from adc_wrappers.deploy.deployer import task_settings
from adc_wrappers.envs.fit import PolicyEnvError, check_env
from adc_wrappers.policy import load

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(params=["isaaclab", "mjlab"])
def simulator(request):
    return request.param


@pytest.fixture
def policy(simulator, tmp_path):
    copied = tmp_path / "policy.onnx"
    shutil.copy(DATA / f"{simulator}_policy.onnx", copied)
    return copied


def test_it_says_where_it_comes_from_and_has_our_joints(simulator, policy):
    loaded = load(policy)
    assert loaded.config.backend == simulator and loaded.config.recipe == "paper"
    assert loaded.metadata.joint_names == tuple(JOINT_NAMES)
    assert loaded.metadata.simulated_stiffness == pytest.approx((40.0,) * 12, rel=1e-5)
    assert not {"device", "engine", "source"} & set(task_settings(loaded.config, policy))


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_it_is_evaluated_in_other_simulators(simulator, policy, engine, tmp_path):
    arguments = ["eval", str(policy), "--backend", engine, "--episodes", "3", "--no-picture"]
    assert main(arguments) == 0
    summary = json.loads((tmp_path / "policy-eval" / f"eval-{engine}.json").read_text())
    assert summary["episodes"] == 3 and summary["at_target"] and summary["trained"]["backend"] == simulator
    assert summary["stiffness"] == pytest.approx([40.0] * 12)


@pytest.mark.parametrize("change", [{"action_scale": 0.5}, {"physics_step": 0.001}])
def test_another_env_than_it_was_made_for_is_refused(policy, change):
    loaded = load(policy)
    env = make_env("spot-handstand", backend="mujoco", randomize=False, **change)
    pinned = ActuatorCurriculumWrapper(env, loaded.config.curriculum, training=False)
    with pytest.raises(PolicyEnvError, match=r"action_scale|policy_step"):
        check_env(loaded, pinned)
    env.close()


@pytest.mark.slow
def test_it_is_deployed_to_the_practice_robot(policy, tmp_path, brief_preflight):
    options = ["--practice", "--clock", "lockstep", "--seconds", "0.2", "--yes", "--out", str(tmp_path / "trials")]
    assert main(["deploy", str(policy), *options]) == 0
    (trial,) = find_trials([tmp_path / "trials"])[0]
    steps = min(10, load(policy).config.settings["time_limit"])
    assert trial.source == "practice robot" and trial.outcome["steps"] == steps
