"""Policies that were trained behind a command limiter: what their files say, and where they are refused."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from policy_helpers import describe, make_metadata, make_model

from adc_wrappers import ActuatorCurriculumVectorWrapper, make_env
from adc_wrappers.backends.limiter import LIMITERS, CommandLimits
from adc_wrappers.envs import Deployment
from adc_wrappers.envs.fit import MadeFor
from adc_wrappers.policy import Policy, PolicyEnvError, PolicyFileError, PolicyMetadata, check_env, load
from adc_wrappers.training.recipes import default_config

SETTINGS = {"preset": "robot", "randomize": False}


@pytest.fixture(scope="module")
def env():
    made = make_env("spot-handstand", num_envs=2, **SETTINGS)
    yield ActuatorCurriculumVectorWrapper(made, made.adc_config, training=False)
    made.close()


@pytest.fixture(scope="module")
def policy(env):
    """A linear policy of the robot's preset, from hand to file and back."""
    made = MadeFor.of(env)
    deployment = {field.name: getattr(made.deployment, field.name) for field in dataclasses.fields(Deployment)}
    size = made.deployment.observation_size
    weights = np.random.default_rng(0).normal(0.0, 0.5, (size, 12)).astype(np.float32)
    gains = {"simulated_stiffness": made.stiffness, "simulated_damping": made.damping}
    return Policy(describe(make_model(weights, inputs=size), **deployment, **gains))


def test_the_file_names_the_limiter_and_what_the_last_action_is(policy):
    values = json.loads(policy.metadata.to_json())
    assert values["limiter"]["slew"] == [0.29, 0.29, 0.34]
    assert "limiter let through" in values["observation"][-1]["meaning"]
    assert PolicyMetadata.from_json(policy.metadata.to_json()) == policy.metadata
    assert policy.metadata.limiter == LIMITERS["robot"]


def test_a_file_without_a_limiter_is_written_as_ever_and_a_broken_limiter_is_refused(policy):
    assert "limiter" not in json.loads(make_metadata().to_json())
    for change in ({"slew": 0.0}, {"slow": 1.0}, {"margin": "wide"}):
        values = json.loads(policy.metadata.to_json())
        values["limiter"].update(change)
        with pytest.raises(PolicyFileError, match=f"limiter|{next(iter(change))}"):
            PolicyMetadata.from_json(json.dumps(values))
    values = json.loads(policy.metadata.to_json())
    del values["limiter"]["reach"]
    with pytest.raises(PolicyFileError, match=r"limiter\.reach"):
        PolicyMetadata.from_json(json.dumps(values))


def test_it_runs_in_its_own_env_and_is_refused_where_there_is_no_limiter_or_another(policy, env):
    assert check_env(policy, env) == []
    for limiter, word in ((False, "the env has none"), ({"slew": 0.1}, r"slew 0\.1")):
        other = make_env("spot-handstand", num_envs=1, **SETTINGS, limiter=limiter)
        with pytest.raises(PolicyEnvError, match=word):
            check_env(policy, other, gains=False, asked=("limiter",))  # no wish makes it acceptable
        other.close()


def test_its_targets_do_not_go_anywhere_without_the_limiter(policy):
    with pytest.raises(PolicyFileError, match="limited_targets"):
        policy.targets(np.zeros(12))
    foreign = policy.limiter(np.zeros((1, 12)))
    foreign.limits = CommandLimits(margin=0.5)
    with pytest.raises(PolicyFileError, match="trained behind"):
        policy.limited_targets(np.zeros((1, 12)), foreign, np.zeros((1, 12)), np.zeros((1, 12)))
    plain = Policy(describe(make_model()))
    with pytest.raises(PolicyFileError, match="without a command limiter"):
        plain.limiter(np.zeros((1, 2)))


def test_the_runtimes_limiter_is_the_envs(policy, env):
    """A loop of one's own, with nothing of the env but what a robot measures."""
    observation, _ = env.reset(seed=0)
    backend = env.unwrapped.actuator_backend
    limiter = policy.limiter(backend.state().joint_positions)
    for _ in range(12):
        action = policy(observation)
        state = backend.state()
        targets, last = policy.limited_targets(action, limiter, state.joint_positions, state.joint_velocities)
        observation, *_ = env.step(action)
        np.testing.assert_allclose(env.unwrapped.task.limiter.targets, targets, atol=1e-12)
        np.testing.assert_allclose(observation[:, 33:45], last, atol=1e-6)
    assert np.abs(targets - policy.metadata.nominal_pose).max() > 0.2


def test_what_it_was_made_for_survives_json(env):
    made = MadeFor.of(env)
    assert MadeFor.from_dict(json.loads(json.dumps(made.to_dict()))) == made


@pytest.mark.parametrize("task", ["spot-handstand", "spot-planar-handstand"])
def test_the_recipe_for_a_robot(task):
    config = default_config(task, "mujoco", recipe="robot")
    curriculum = config.curriculum
    assert curriculum.driver == "task_progress" and curriculum.monotone and curriculum.hold_share == 0.4
    assert (curriculum.task_progress_min, curriculum.task_progress_max) == (0.0, 0.5)
    assert config.settings["preset"] == "robot" and curriculum.total_iterations == config.iterations


def test_the_shipped_policy_has_no_limiter_and_loads():
    from pathlib import Path

    shipped = load(Path(__file__).parents[2] / "examples" / "policies" / "spot_handstand.onnx")
    assert shipped.metadata.limiter is None and shipped.targets(np.zeros(12)).shape == (12,)
