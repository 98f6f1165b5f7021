"""A bare env is the robot as identified: it stands at the target gains, and a curriculum stiffens it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from isaac_stubs import stubbed
from spot_helpers import FakeRobots

from adc_wrappers import ActuatorCurriculumVectorWrapper, ActuatorCurriculumWrapper, make_env
from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.backends.spot_model.mechanics import effective_inertia
from adc_wrappers.core import CurriculumConfig, damping_for
from adc_wrappers.envs.spot import SpotSettings
from adc_wrappers.envs.spot.task import SpotStandTask
from adc_wrappers.envs.spot.terms import HANDSTAND
from adc_wrappers.envs.task_env import TaskEnv, TaskVectorEnv

CASES = [
    ("spot-handstand", "mujoco", 40.0),
    ("spot-hindstand", "pybullet", 40.0),
    ("cartpole", "pybullet", 6.25),
    ("cartpole", "analytic", 6.25),
    ("double-cartpole", "analytic", 4.0),
]


def check(backend: Any, stiffness: float) -> None:
    live = backend.gains()
    wanted = np.full((backend.num_envs, len(backend.joint_names)), stiffness)
    np.testing.assert_allclose(live.stiffness, wanted)
    np.testing.assert_allclose(live.damping, damping_for(wanted, backend.effective_inertia()))


@pytest.mark.parametrize(("task", "backend", "stiffness"), CASES)
@pytest.mark.parametrize("num_envs", [None, 3])
def test_a_bare_env_stands_at_the_target_gains(task, backend, stiffness, num_envs):
    env = make_env(task, backend=backend, num_envs=num_envs)
    check(env.actuator_backend, stiffness)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    check(env.actuator_backend, stiffness)
    env.close()


def test_the_target_follows_the_cart():
    env = gym.make("ADC/CartPole-v0", backend="analytic", cart_mass=2.0)
    check(env.unwrapped.actuator_backend, 12.5)
    env.close()


@pytest.mark.parametrize("wrapper", [ActuatorCurriculumWrapper, ActuatorCurriculumVectorWrapper])
def test_the_curriculum_stiffens_it(wrapper):
    single = wrapper is ActuatorCurriculumWrapper
    env = wrapper(make_env("cartpole", backend="analytic", num_envs=None if single else 4))
    check(env.adc.backend, 36.0)
    with env.evaluation():
        check(env.adc.backend, 6.25)
    check(env.adc.backend, 36.0)


def test_a_bare_env_moves_as_the_pinned_one_does():
    """What the issue measured: without the wrapper a policy met other joints than the ones it was made for."""
    bare = make_env("spot-handstand", backend="mujoco", num_envs=2)
    pinned = ActuatorCurriculumVectorWrapper(make_env("spot-handstand", backend="mujoco", num_envs=2), training=False)
    first, _ = bare.reset(seed=5)
    second, _ = pinned.reset(seed=5)
    np.testing.assert_array_equal(first, second)
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (20, 2, 12)).astype(np.float32)
    for action in actions:
        first, second = bare.step(action)[0], pinned.step(action)[0]
        np.testing.assert_array_equal(first, second)
    bare.close()
    pinned.close()


class Robot(FakeRobots):
    """A robot whose gains are the commanded ones; writing any raises."""

    fixed_gains = True

    def set_gains(self, stiffness: Any, damping: Any, env_ids: Any = None) -> None:
        raise AssertionError("gains were written to a robot")


@pytest.mark.parametrize("kind", [TaskEnv, TaskVectorEnv])
def test_a_robot_keeps_its_commanded_gains(kind):
    task = SpotStandTask(Robot(1), SpotSettings(randomize=False), HANDSTAND)
    env = kind(task)
    np.testing.assert_array_equal(env.actuator_backend.gains().stiffness, 60.0)


def test_isaac_labs_config_has_the_target_gains_by_name():
    with stubbed("assets") as assets:
        groups = assets.spot_cfg("generated").actuators.values()
    stiffness = {name: value for group in groups for name, value in group.stiffness.items()}
    damping = {name: value for group in groups for name, value in group.damping.items()}
    assert stiffness == dict.fromkeys(JOINT_NAMES, 40.0) == dict.fromkeys(stiffness, 40.0)
    wanted = damping_for(np.full(12, CurriculumConfig().target_stiffness), effective_inertia())
    np.testing.assert_allclose([damping[name] for name in JOINT_NAMES], wanted)
