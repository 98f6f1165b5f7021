"""Torque per action held constant, and exploration noise on a curriculum."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from helpers import FakeBackend, ScriptedEnv, TorchBatchEnv, spied_commands
from spot_helpers import make_state
from stable_baselines3.common.vec_env import DummyVecEnv

from adc_wrappers import (
    ActionNoiseCurriculum,
    ActionScaleCoupling,
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    CurriculumConfig,
    CurriculumError,
    VectorActionNoiseCurriculum,
    VectorActionScaleCoupling,
    make_env,
)
from adc_wrappers.backends.limiter import CommandLimiter, CommandLimits
from adc_wrappers.backends.spot_model import JOINT_NAMES, NOMINAL_POSE, SPOT
from adc_wrappers.core.action_term import ActionTerm
from adc_wrappers.core.actuators import Gains
from adc_wrappers.envs.spot import SpotSettings
from adc_wrappers.envs.spot.tensor_stand import TensorStand
from adc_wrappers.sb3 import ActuatorCurriculumVecEnv
from adc_wrappers.sb3.vec_env import ActionVecEnv
from adc_wrappers.training.ppo import ActionConfig

FAST = CurriculumConfig(length_max=10, ema=1.0)


def test_stiffness_times_scale_is_constant_along_the_anneal():
    inner = ScriptedEnv([5])
    curriculum = ActuatorCurriculumWrapper(inner, FAST, iteration_steps=5)
    env = ActionScaleCoupling(curriculum)
    env.reset()
    action = np.array([0.9, -0.3], np.float32)
    for _ in range(12):
        stiffness = curriculum.adc.stiffness[0]
        *_, terminated, truncated, _ = env.step(action)
        np.testing.assert_allclose(inner.actions[-1] * stiffness, action * 40.0, rtol=1e-6)
        if terminated or truncated:
            env.reset()
    assert stiffness[0] < 60.0


def test_actions_are_clipped_before_they_are_scaled_and_untouched_at_the_target():
    inner = ScriptedEnv([50])
    curriculum = ActuatorCurriculumWrapper(inner, FAST)
    env = ActionScaleCoupling(curriculum)
    env.reset()
    env.step(np.array([3.0, -3.0], np.float32))
    np.testing.assert_allclose(inner.actions[-1], [2 / 3, -2 / 3], rtol=1e-6)
    with curriculum.evaluation():
        env.reset()
        env.step(np.array([0.5, -0.25], np.float32))
    np.testing.assert_allclose(inner.actions[-1], [0.5, -0.25])


def test_joints_scale_by_their_own_stiffness():
    """Whatever the backend's order: Isaac Lab's is not that of the actions."""
    config = CurriculumConfig(start_stiffness={"j0": 80.0, "j1": 60.0})
    for order, expected in ((("j0", "j1"), [0.5, 2 / 3]), (("j1", "j0"), [2 / 3, 0.5])):
        inner = ScriptedEnv([5])
        env = ActionScaleCoupling(ActuatorCurriculumWrapper(inner, config), action_joints=order)
        env.reset()
        env.step(np.array([1.0, 1.0], np.float32))
        np.testing.assert_allclose(inner.actions[-1], expected, rtol=1e-6)


def test_an_env_that_does_not_say_its_actions_order_is_refused_where_it_matters():
    config = CurriculumConfig(start_stiffness=[80.0, 60.0])
    later = CurriculumConfig(progress_begin=[0.0, 0.5])  # alike at the start, not on the way
    for differing in (config, later, CurriculumConfig(exponent=[1.0, 2.0])):
        with pytest.raises(CurriculumError, match="pass action_joints"):
            ActionScaleCoupling(ActuatorCurriculumWrapper(ScriptedEnv([5]), differing))
    with pytest.raises(CurriculumError, match=r"unknown joint 'j2'.*j"):
        ActionScaleCoupling(ActuatorCurriculumWrapper(ScriptedEnv([5]), config), action_joints=["j0", "j2"])
    three = ActuatorCurriculumWrapper(ScriptedEnv([5]), backend=FakeBackend(joints=3))
    with pytest.raises(CurriculumError, match="one joint per action"):
        ActionScaleCoupling(three, action_joints=["j0", "j1", "j2"])
    ActionScaleCoupling(three)  # one number for all joints: their order makes no difference


def test_an_action_term_is_told_by_name():
    class Env(ScriptedEnv):
        """An env whose actions have another order than its backend, as in Isaac Lab."""

        def __init__(self):
            super().__init__([5])
            self.action_term = ActionTerm(1, ("j1", "j0"))

    inner = Env()
    config = CurriculumConfig(start_stiffness={"j0": 80.0, "j1": 60.0}, driver="fixed")
    curriculum = ActuatorCurriculumWrapper(inner, config)
    env = ActionScaleCoupling(curriculum)
    for ones in (np.ones((1, 2)), torch.ones(1, 2)):
        np.testing.assert_allclose(inner.action_term(ones, 1.0), [[2 / 3, 0.5]], rtol=1e-6)
    env.reset()
    env.step(np.array([0.9, -0.3], np.float32))
    np.testing.assert_array_equal(inner.actions[-1], np.array([0.9, -0.3], np.float32))


def test_vector_and_torch_twins_scale_each_env():
    inner = make_env("cartpole", backend="analytic", num_envs=3)
    config = CurriculumConfig(start_stiffness=36.0, target_stiffness=9.0, driver="uniform")
    curriculum = ActuatorCurriculumVectorWrapper(inner, config)
    env = VectorActionScaleCoupling(curriculum)
    env.reset(seed=0)
    expected = 9.0 / curriculum.adc.stiffness[:, 0]
    assert len(np.unique(expected)) == 3
    sent = spied_commands(inner)
    env.step(np.ones((3, 1), np.float32))
    np.testing.assert_allclose(sent[-1], expected, rtol=1e-6)

    batch = TorchBatchEnv([[9], [9]], substeps=0)
    seen = []
    step = batch.step
    batch.step = lambda action: seen.append(action) or step(action)
    tensor_env = ActionScaleCoupling(ActuatorCurriculumWrapper(batch, FAST))
    tensor_env.reset()
    tensor_env.step(torch.ones(2, 2))
    torch.testing.assert_close(seen[-1], torch.full((2, 2), 2 / 3))


def test_noise_follows_progress_and_is_off_in_evaluation():
    inner = ScriptedEnv([4])
    config = CurriculumConfig(start_stiffness=40.0, target_stiffness=40.0, length_max=16, ema=1.0)
    curriculum = ActuatorCurriculumWrapper(inner, config)
    env = ActionNoiseCurriculum(curriculum, start_std=0.8, end_std=0.2, seed=1)
    assert env.noise_std == pytest.approx(0.8)

    def played():
        inner.actions.clear()
        for _ in range(500):
            env.reset()
            for _ in range(4):
                env.step(np.zeros(2, np.float32))
        return np.array(inner.actions)

    assert played().std() == pytest.approx(0.8, rel=0.05)
    curriculum.end_iteration()
    assert curriculum.curriculum.progress == 0.25
    np.testing.assert_allclose(curriculum.adc.stiffness, 40.0)
    assert played().std() == pytest.approx(0.65, rel=0.05)
    with curriculum.evaluation():
        assert env.noise_std == 0.0
        assert not played().any()


def test_noise_is_seeded_and_has_a_vector_twin():
    def path(seed):
        inner = make_env("cartpole", backend="analytic", num_envs=2)
        env = VectorActionNoiseCurriculum(ActuatorCurriculumVectorWrapper(inner), start_std=0.3, seed=seed)
        env.reset(seed=0)
        sent = spied_commands(inner)
        env.step(np.zeros((2, 1), np.float32))
        return sent[-1]

    np.testing.assert_array_equal(path(5), path(5))
    assert (path(5) != path(6)).all()


def test_a_resumed_run_goes_on_with_the_noise_it_would_have_had():
    config = CurriculumConfig(start_stiffness=36.0, target_stiffness=6.25)

    def make():
        inner = make_env("cartpole", backend="analytic", num_envs=2)
        env = VectorActionNoiseCurriculum(ActuatorCurriculumVectorWrapper(inner, config), start_std=0.3, seed=5)
        env.reset(seed=0)
        return env, inner

    def noises(env, inner):
        sent = spied_commands(inner)
        for _ in range(3):
            env.step(np.zeros((2, 1), np.float32))
        return np.stack(sent[-3:])

    whole, inner = make()
    first = noises(whole, inner)
    whole.env.end_iteration()
    resumed, other = make()
    resumed.env.load_state_dict(whole.env.state_dict())
    second = noises(whole, inner)
    np.testing.assert_array_equal(second, noises(resumed, other))
    assert (first != second).all()


# --- in the env's action term ----------------------------------------------------------------------------------------


def coupled_spots():
    envs = make_env("spot-handstand", backend="mujoco", num_envs=2, randomize=False, preset="paper")
    curriculum = ActuatorCurriculumVectorWrapper(envs)
    return envs, curriculum, VectorActionScaleCoupling(curriculum)


def test_the_policys_own_action_is_what_is_observed_and_charged():
    envs, curriculum, env = coupled_spots()
    plain = make_env("spot-handstand", backend="mujoco", num_envs=2, randomize=False, preset="paper")
    plain.reset(seed=0)
    env.reset(seed=0)
    sent = spied_commands(envs)
    rng = np.random.default_rng(0)
    for _ in range(3):
        action = rng.uniform(-0.2, 0.2, (2, 12)).astype(np.float32)
        observation, *_, infos = env.step(action)
        observed, *_, wanted = plain.step(action)
        np.testing.assert_array_equal(observation[:, -12:], action)
        np.testing.assert_array_equal(observed[:, -12:], action)
        costs = infos["reward_terms"]["action_rate"], wanted["reward_terms"]["action_rate"]
        np.testing.assert_allclose(*costs, rtol=1e-12)
        np.testing.assert_allclose(sent[-1], envs.task.backend.nominal_pose + 0.9 * (40 / 60) * action, atol=1e-6)
    with curriculum.evaluation():  # the inner env has the target's α as well, whoever steps it
        curriculum.reset(seed=0)
        curriculum.step(action)
        np.testing.assert_allclose(sent[-1], envs.task.backend.nominal_pose + 0.9 * action, atol=1e-6)
    assert env.env is curriculum and envs.task.deployment().action_scale == (0.9,) * 12
    env.reset()
    env.step(action)
    np.testing.assert_allclose(sent[-1], envs.task.backend.nominal_pose + 0.6 * action, atol=1e-6)
    assert envs.task.deployment().action_scale == (0.9,) * 12  # α at the target, whatever it is now
    env.close()
    plain.close()


def test_noise_is_of_one_step_and_neither_observed_nor_charged():
    envs = make_env("spot-handstand", backend="mujoco", num_envs=2, randomize=False)
    curriculum = ActuatorCurriculumVectorWrapper(envs)
    env = VectorActionNoiseCurriculum(curriculum, start_std=0.3)
    env.reset(seed=0)
    sent = spied_commands(envs)
    observation, *_, infos = env.step(np.full((2, 12), 0.9, np.float32))
    np.testing.assert_array_equal(observation[:, -12:], np.float32(0.9))
    np.testing.assert_allclose(infos["reward_terms"]["action_rate"], -0.01 * 0.02 * 12 * 0.81, rtol=1e-6)
    applied = (sent[-1] - envs.task.backend.nominal_pose) / envs.task.action_scale
    assert len(np.unique(applied)) > 12 and applied.max() == pytest.approx(1.0)  # noise is within the limits too
    curriculum.step(np.zeros((2, 12), np.float32))
    np.testing.assert_array_equal(sent[-1], np.tile(envs.task.backend.nominal_pose, (2, 1)))
    env.close()


@pytest.mark.parametrize("kind", ["sync", "dummy"])
def test_children_are_told_one_by_one(kind):
    config = CurriculumConfig(start_stiffness=36.0, target_stiffness=9.0, driver="uniform")
    actions = np.full((2, 1), 0.5, np.float32)
    if kind == "sync":
        children = gym.vector.SyncVectorEnv([lambda: make_env("cartpole", backend="analytic")] * 2)
        curriculum = ActuatorCurriculumVectorWrapper(children, config)
        env = VectorActionScaleCoupling(VectorActionNoiseCurriculum(curriculum, start_std=0.1))
        inner = children.envs
        env.reset(seed=0)
    else:
        children = DummyVecEnv([lambda: make_env("cartpole", backend="analytic")] * 2)
        curriculum = ActuatorCurriculumVecEnv(children, config)
        env = ActionVecEnv(curriculum, ActionConfig(noise_std=0.1, constant_torque=True), 0)
        inner = children.envs
        env.reset()
    sent = [spied_commands(child.unwrapped) for child in inner]
    scale = 9.0 / curriculum.adc.stiffness[:, 0]
    env.step(actions)
    noise = np.random.default_rng([0, 0]).normal(0.0, 0.1, (2, 1))[:, 0]
    assert len(np.unique(scale)) == 2
    np.testing.assert_allclose([rows[-1][0] for rows in sent], scale * (0.5 + noise), rtol=1e-6)
    assert [child.unwrapped.task._action[0] for child in inner] == [0.5, 0.5]
    env.close()


def tensors(state):
    return type(state)(*(torch.as_tensor(part) for part in state))


def test_spots_of_tensors_keep_the_policys_own_action_and_scale_by_name():
    """Their backend may have its engine's joint order, their actions have the table's."""
    settings = SpotSettings(randomize=False, action_scale=0.5)
    stand = TensorStand(settings, tensors(make_state(2)), 0.02, lambda: None)
    backend = FakeBackend(num_envs=2, joints=12)
    backend.joint_names = tuple(sorted(JOINT_NAMES, key=lambda name: name[3:]))  # all hx, then all hy, then all kn
    batch = TorchBatchEnv([[9], [9]], joints=12, substeps=0)
    batch.actuator_backend, batch.action_term = backend, stand.action_term
    start = {"*_h[xy]": 80.0, "*_kn": 50.0}
    ActionScaleCoupling(ActuatorCurriculumWrapper(batch, CurriculumConfig(start_stiffness=start)))
    actions = torch.full((2, 12), 0.4, dtype=torch.float64)
    targets = stand.act(actions, tensors(make_state(2)))
    torch.testing.assert_close(stand.action, actions)
    wanted = [0.5 * 0.4 * 40.0 / (50.0 if name.endswith("kn") else 80.0) for name in JOINT_NAMES]
    np.testing.assert_allclose(targets.numpy(), np.add(NOMINAL_POSE, [wanted] * 2), rtol=1e-6)


def test_spots_of_tensors_are_limited_by_the_same_code_and_see_the_limited_target():
    pose = np.tile(NOMINAL_POSE, (2, 1))
    k = np.array([[50.0 if name.endswith("kn") else 80.0 for name in JOINT_NAMES]] * 2)
    gains = Gains(torch.as_tensor(k), torch.as_tensor(0.1 * k))
    state = make_state(2, joint_positions=pose + 0.3, joint_velocities=4.0)
    limits = {"torque_share": 0.3}
    settings = SpotSettings(randomize=False, action_scale=1.2, limiter=limits)
    stand = TensorStand(settings, tensors(state), 0.02, lambda: gains)
    targets = stand.act(torch.full((2, 12), -0.9, dtype=torch.float64), tensors(state))
    here = CommandLimiter(CommandLimits(**limits), SPOT, 0.02, pose)
    expected = here(pose - 1.08, pose + 0.3, 4.0 + 0.0 * k, k, 0.1 * k)
    np.testing.assert_allclose(targets.numpy(), expected)
    np.testing.assert_allclose(stand.action.numpy(), (expected - pose) / 1.2)
    np.testing.assert_allclose(stand.limiter.change.numpy(), expected - pose)


def test_spots_of_tensors_hold_targets_away_from_their_joints():
    settings = SpotSettings(randomize="held", action_scale=1.2, limiter="robot")
    stand = TensorStand(settings, tensors(make_state(50)), 0.02, lambda: None)
    rows = torch.arange(40)
    stand.begin(rows, stand.draw_start(40), tensors(make_state(50)))
    away = (stand.limiter.targets[:40, 1] - NOMINAL_POSE[1]).abs()
    assert 0.3 < away.max() <= 0.4
    torch.testing.assert_close(stand.action[:40], ((stand.limiter.targets - stand._nominal) / 1.2)[:40])
    assert not stand.action[40:].any()


def test_a_term_refuses_other_shapes():
    term = ActionTerm(2, ("a", "b", "c"))
    for part in (term.set_factor, term.set_noise):
        with pytest.raises(CurriculumError, match=r"expected shape \(2, 3\)"):
            part(np.ones((2, 2)))


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("std", [-0.1, float("nan")])
def test_bad_noise_is_refused(std):
    with pytest.raises(CurriculumError, match="start_std"):
        ActionNoiseCurriculum(ActuatorCurriculumWrapper(ScriptedEnv([1])), start_std=std)


@pytest.mark.parametrize("wrapper", [ActionScaleCoupling, ActionNoiseCurriculum])
def test_without_a_curriculum_inside_they_refuse(wrapper):
    with pytest.raises(CurriculumError, match="ActuatorCurriculumWrapper first"):
        wrapper(ScriptedEnv([1]))
