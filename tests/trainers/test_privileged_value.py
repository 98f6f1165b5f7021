"""A value network that sees what only a simulator knows, while the policy sees what a robot does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from resume_helpers import assert_same_run, run, tiny_config

from adc_wrappers import ActuatorCurriculumVectorWrapper, CurriculumError, make_env
from adc_wrappers.backends.base import RobotStart
from adc_wrappers.envs.spot.body import spot_mirror
from adc_wrappers.envs.spot.terms import touching_links
from adc_wrappers.rsl_rl import CurriculumRunner, RslRlVecEnv, runner_config
from adc_wrappers.rsl_rl.training import begin_with, make_training_env
from adc_wrappers.training import PpoConfig, load_trained
from adc_wrappers.training.trained import read_tensors

ROBOT = {"preset": "robot", "eases_in": False, "time_limit": 19}


def privileged_config(**changes):
    config = tiny_config("spot-handstand", "mujoco", "rsl_rl", **changes)
    networks = {"privileged_value": True, "mirrored": True, "scale_observations": True, "hidden": (16, 8)}
    return replace(config, settings=ROBOT, ppo=replace(config.ppo, **networks))


@pytest.mark.parametrize("task", ["spot-handstand", "spot-planar-handstand"])
def test_the_view_is_true_where_the_observation_is_noisy(task):
    envs = make_env(task, num_envs=5, **ROBOT)
    inner, body = envs.unwrapped.task, envs.unwrapped.task.body
    envs.reset(seed=0)
    envs.step(np.zeros(envs.action_space.shape, dtype=np.float32))
    view = inner.privileged()
    seen, state = view.observe(), inner.backend.state()
    linear, angular = len(body.linear_axes), len(body.angular_axes)
    frame = seen[:, : 2 * linear + angular + 3 * len(inner.backend.joint_names)]
    np.testing.assert_allclose(frame[:, :linear], state.base_linear_velocity[:, list(body.linear_axes)], rtol=1e-5)
    assert np.abs(frame[:, :linear] - envs.unwrapped.task.observe()[:, :linear]).max() > 0.01
    feet = [i for i, name in enumerate(inner.backend.link_names) if name.endswith("foot")]
    rest = seen[:, frame.shape[1] :]
    np.testing.assert_array_equal(rest[:, : len(feet)], touching_links(state)[:, feet])
    height, *drawn, level, stiffness = rest[:, len(feet) :].T
    np.testing.assert_allclose(height, state.base_position[:, 2], rtol=1e-6)
    described = inner.describe()
    np.testing.assert_allclose(drawn[1], described["mass"] / 2.5, rtol=1e-5)
    np.testing.assert_allclose(drawn[2], (described["stiffness_factor"] - 1.0) / 0.1, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(0.02 * drawn[5], described["state_latency"], rtol=1e-5)
    assert np.abs(drawn).max() <= 1.0 + 1e-6
    assert (level == 1.0).all() and (stiffness == 40.0).all()
    assert len(view.scale) == seen.shape[1]
    envs.close()


def test_the_mirrored_robot_has_the_mirrored_view():
    envs = make_env("spot-handstand", num_envs=2, randomize=False)
    task, backend = envs.unwrapped.task, envs.unwrapped.task.backend
    envs.reset(seed=0)
    view, rng = task.privileged(), np.random.default_rng(0)
    pair = spot_mirror(backend.joint_names)
    joints = backend.nominal_pose + rng.uniform(-0.3, 0.3, 12)
    at = np.tile([0.0, 0.0, 0.46], (2, 1))
    tilted, other = np.array([0.995, 0.09, 0.03, 0.0]), np.array([0.995, -0.09, 0.03, 0.0])
    still = np.zeros((2, 3))
    both = np.stack([joints, pair.actions(joints)])
    backend.reset(RobotStart(at, np.stack([tilted, other]), still, still, both, np.zeros((2, 12))))
    some_feet_only = False
    for _ in range(12):
        action = rng.uniform(-0.3, 0.3, 12)
        task.advance(np.stack([action, pair.actions(action)]).astype(np.float32))
        one, two = view.observe()
        np.testing.assert_allclose(two, np.array(view.mirror_sign) * one[list(view.mirror_index)], atol=2e-3)
        some_feet_only |= one[45] != one[46] or one[47] != one[48]
    assert some_feet_only  # or the feet's mirror would not have been seen
    envs.close()


def test_a_stopped_run_resumes_to_the_same_end_and_its_policy_is_the_robots(tmp_path):
    config = privileged_config()
    whole = run(config, tmp_path / "whole")
    run(config, tmp_path / "stopped", stop_at=5)
    assert_same_run(whole, run(config, tmp_path / "stopped", resume=True))
    policy = load_trained(whole)
    assert policy(np.zeros((3, 360), dtype=np.float32)).shape == (3, 12)


def test_what_shows_no_more_is_refused():
    envs = ActuatorCurriculumVectorWrapper(make_env("cartpole", backend="analytic", num_envs=2))
    with pytest.raises(CurriculumError, match=r"ppo\.privileged_value: expected a task that shows"):
        RslRlVecEnv(envs, privileged=True)
    with pytest.raises(CurriculumError, match="needs an env"):
        runner_config(PpoConfig(privileged_value=True))
    envs.close()


def test_a_value_network_that_sees_something_else_begins_anew(tmp_path):
    """The policy is the other run's all the same; a run that sees the same gives both networks."""
    config = privileged_config()
    plain = run(replace(config, ppo=replace(config.ppo, privileged_value=False)), tmp_path / "plain")
    same = run(config, tmp_path / "same")
    for other, kept in ((plain, False), (same, True)):
        following = replace(config, seed=5, start_from=str(other.path))
        env = make_training_env(following)
        algorithm = CurriculumRunner(env, runner_config(following.ppo, env)).alg
        made = {name: weights.clone() for name, weights in algorithm.critic.state_dict().items()}
        begin_with(algorithm, env, following)
        found = read_tensors(other.checkpoints.load_latest(), "parameters.pt")
        for name, weights in algorithm.get_policy().state_dict().items():
            torch.testing.assert_close(weights, found["actor_state_dict"][name])
        for name, weights in algorithm.critic.state_dict().items():
            torch.testing.assert_close(weights, found["critic_state_dict"][name] if kept else made[name])
        env.close()
