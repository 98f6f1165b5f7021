"""The cart-pole: its equations, its two engines, its task."""

from __future__ import annotations

import os
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from adc_wrappers import (
    ActionNoiseCurriculum,
    ActionScaleCoupling,
    ActuatorCurriculumWrapper,
    ActuatorPort,
    BackendError,
    CurriculumError,
    make_env,
)
from adc_wrappers.backends.cartpole import CartPoleModel, CartPoleState, make_cartpole_backend
from adc_wrappers.backends.cartpole.model import accelerations

BACKENDS = ("analytic", "pybullet")


def test_equations_conserve_energy_without_force_and_fall_the_right_way():
    model = CartPoleModel(cart_mass=2.0, pole_mass=0.7, pole_length=0.4)
    state = np.array([0.0, 0.3, 0.4, -1.0])

    def energy(s):
        x_dot, theta, theta_dot = s[1], s[2], s[3]
        vx = x_dot + model.pole_length * theta_dot * np.cos(theta)
        vy = -model.pole_length * theta_dot * np.sin(theta)
        kinetic = 0.5 * model.cart_mass * x_dot**2 + 0.5 * model.pole_mass * (vx**2 + vy**2)
        return kinetic + model.pole_mass * model.gravity * model.pole_length * np.cos(theta)

    def derivative(s):
        x_acc, theta_acc = accelerations(CartPoleState(*s.reshape(4, 1)), np.zeros(1), model)
        return np.array([s[1], x_acc[0], s[3], theta_acc[0]])

    before = energy(state)
    for _ in range(2000):
        k1 = derivative(state)
        k2 = derivative(state + 0.5e-3 * k1)
        k3 = derivative(state + 0.5e-3 * k2)
        state = state + 1e-3 / 6 * (k1 + 2 * k2 + 2 * k3 + derivative(state + 1e-3 * k3))
    assert energy(state) == pytest.approx(before, rel=1e-8)
    leaning = CartPoleState(*np.array([[0.0], [0.0], [0.1], [0.0]]))
    x_acc, theta_acc = accelerations(leaning, np.zeros(1), CartPoleModel())
    assert theta_acc[0] > 0 and x_acc[0] < 0


def rollout(name, physics_step, start, stiffness):
    backend = make_cartpole_backend(
        name, 2, CartPoleModel(), physics_step=physics_step, decimation=round(0.02 / physics_step)
    )
    gains = np.array(stiffness)[:, None]
    backend.set_gains(gains, 2 * np.sqrt(gains))
    backend.reset(CartPoleState(np.zeros(2), np.zeros(2), np.full(2, start), np.zeros(2)))
    path = []
    for k in range(100):
        backend.advance(np.full(2, 0.3 * np.sin(0.05 * k)))
        path.append(np.stack(backend.state()))
    backend.close()
    return np.array(path)


@pytest.mark.parametrize(("start", "tolerance"), [(0.1, 0.02), (np.pi - 0.3, 0.004)])
def test_engines_agree_over_two_seconds(start, tolerance):
    """From an almost upright pole that falls, and from a hanging one; rad, m, rad/s and m/s at a 1 ms step.

    PyBullet's step is first-order, so its distance to the continuous-time solution halves with the step.
    """
    gaps = []
    for step in (0.001, 0.0005):
        gap = rollout("pybullet", step, start, (6.25, 36.0)) - rollout("analytic", step, start, (6.25, 36.0))
        gaps.append(np.abs(gap).max())
    assert gaps[0] < tolerance
    assert gaps[1] == pytest.approx(gaps[0] / 2, rel=0.1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_repeat_bit_for_bit_and_envs_do_not_disturb_each_other(backend):
    def path(num_envs):
        env = make_env("cartpole", backend=backend, num_envs=num_envs)
        observations = [env.reset(seed=7)[0][:2]]
        rng = np.random.default_rng(1)
        for _ in range(30):
            action = rng.uniform(-1, 1, (4, 1)).astype(np.float32)[:num_envs]
            observations.append(env.step(action)[0][:2])
        env.close()
        return np.array(observations)

    np.testing.assert_array_equal(path(4), path(4))
    one, other = make_env("cartpole", backend=backend), make_env("cartpole", backend=backend)
    a, b = one.reset(seed=3)[0], other.reset(seed=3)[0]
    for _ in range(20):
        np.testing.assert_array_equal(a, b)
        a, b = one.step(np.array([0.3]))[0], other.step(np.array([0.3]))[0]


WRAPPINGS = {
    "bare": lambda env: env,
    "curriculum": lambda env: ActuatorCurriculumWrapper(env, iteration_steps=16),
    "port": ActuatorPort,
    "scale": lambda env: ActionScaleCoupling(ActuatorCurriculumWrapper(env, iteration_steps=16)),
    "noise": lambda env: ActionNoiseCurriculum(
        ActuatorCurriculumWrapper(env, iteration_steps=16), start_std=0.0, end_std=0.0
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_checkers_of_gymnasium_and_sb3_pass(backend, wrapping):
    env = WRAPPINGS[wrapping](gym.make("ADC/CartPole-v0", backend=backend, render_mode="rgb_array"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env, skip_render_check=wrapping != "bare")
        env.reset()
        sb3_check_env(env)
    env.close()


def test_wrapped_envs_keep_a_spec_that_makes_them_again():
    env = ActuatorCurriculumWrapper(gym.make("ADC/CartPole-v0", backend="analytic"), iteration_steps=7)
    again = gym.make(env.spec)
    assert isinstance(again, ActuatorCurriculumWrapper)
    again.reset(seed=0)
    again.step(again.action_space.sample())


def test_gymnasium_ids_make_single_and_vector_envs():
    single = gym.make("ADC/CartPole-v0", backend="analytic", start_angle=0.0, start_rate=0.0)
    np.testing.assert_array_equal(single.reset(seed=0)[0], np.zeros(4))
    batch = gym.make_vec("ADC/CartPole-v0", num_envs=3, vectorization_mode="vector_entry_point", backend="analytic")
    assert batch.reset(seed=0)[0].shape == (3, 4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pictures_show_the_pole(backend):
    env = make_env("cartpole", backend=backend, render_mode="rgb_array", start_angle=0.0, start_rate=0.0)
    env.reset(seed=0)
    picture = env.render()
    assert picture.dtype == np.uint8 and picture.shape == (400, 640, 3)
    yellow = (picture[..., 0] > 120) & (picture[..., 2] < 60)
    rows, columns = np.nonzero(yellow)
    assert len(rows) > 100 and abs(columns.mean() - 320) < 5 and rows.mean() < 200
    env.actuator_backend.set_gains(np.array([[1.0]]), np.array([[2.0]]))  # so soft that it lives for 40 steps
    for _ in range(40):
        env.step(np.array([-1.0], np.float32))
    moved = env.render()
    columns_after = np.nonzero((moved[..., 0] > 120) & (moved[..., 2] < 60))[1]
    assert abs(columns_after.mean() - 320) > 20
    env.close()


def test_a_window_shows_every_step():
    os.environ["SDL_VIDEODRIVER"] = "dummy"
    import pygame

    env = make_env("cartpole", backend="analytic", render_mode="human")
    env.reset(seed=0)
    env.step(np.array([0.5], np.float32))
    assert pygame.display.get_surface().get_size() == (640, 400)
    shown = pygame.surfarray.array3d(pygame.display.get_surface())
    assert shown.std() > 10
    env.close()
    assert pygame.display.get_surface() is None


def test_termination_time_limit_and_success():
    env = make_env("cartpole", backend="analytic", time_limit=60, start_angle=0.0, start_rate=0.0)
    env.reset(seed=0)
    for step in range(60):
        *_, terminated, truncated, info = env.step(np.zeros(1, np.float32))
        assert not terminated and truncated == (step == 59)
    assert info["is_success"] is True
    env.reset(seed=0)
    lived = 0
    while not terminated:
        *_, terminated, truncated, info = env.step(np.ones(1, np.float32))
        lived += 1
    assert lived < 60 and not truncated and info["is_success"] is False


def test_reward_is_the_sum_of_its_terms():
    env = make_env("cartpole", backend="analytic")
    env.reset(seed=0)
    _, reward, _, _, info = env.step(np.array([0.7], np.float32))
    assert set(info["reward_terms"]) == {"alive", "angle", "position", "action_rate"}
    assert reward == pytest.approx(sum(info["reward_terms"].values()))


def test_the_batch_resets_in_the_same_step_with_the_last_observation_kept():
    env = make_env("cartpole", backend="analytic", num_envs=2, time_limit=5, start_angle=0.1)
    env.reset(seed=0)
    for _ in range(5):
        observation, _, terminated, truncated, infos = env.step(np.full((2, 1), 0.2, np.float32))
    assert truncated.all() and not terminated.any()
    assert (np.abs(observation[:, 0]) == 0.0).all()
    assert np.abs(infos["final_obs"][0][0]) > 0.0
    assert infos["final_info"]["_is_success"].all()


def test_broken_physics_ends_its_env_alone():
    env = make_env("cartpole", backend="analytic", num_envs=3)
    env.reset(seed=0)
    env.task.backend._state[1, 1] = np.nan
    observation, reward, terminated, _, infos = env.step(np.zeros((3, 1), np.float32))
    assert terminated.tolist() == [False, True, False]
    assert np.isfinite(observation).all() and np.isfinite(reward).all()
    assert np.isfinite(infos["final_obs"][1]).all()
    assert infos["final_info"]["broken_physics"].tolist() == [False, True, False]
    assert env._runner.broken_episodes == 1
    assert not env.step(np.zeros((3, 1), np.float32))[2].any()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("cartpol",), ValueError, "Did you mean 'cartpole'"),
        (("cartpole", "bullet"), ValueError, "Did you mean 'pybullet'"),
        (("cartpole", "analytic", {"start_angel": 1}), TypeError, "Did you mean 'start_angle'"),
        (("cartpole", "analytic", {"num_envs": 0}), ValueError, "num_envs"),
        (("cartpole", "analytic", {"render_mode": "rgb"}), ValueError, "rgb_array"),
        (("cartpole", "analytic", {"num_envs": 2, "render_mode": "human"}), ValueError, "no window"),
        (("cartpole", "analytic", {"cart_mass": -1.0}), BackendError, "cart_mass"),
        (("cartpole", "analytic", {"time_limit": 0}), ValueError, "time_limit"),
        (("cartpole", "analytic", {"physics_step": float("nan")}), CurriculumError, "physics_step"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    task, backend, extra = (*arguments, None, {})[:3] if len(arguments) < 3 else arguments
    with pytest.raises(error, match=message):
        make_env(task, backend=backend, **(extra or {}))


def test_a_step_without_a_reset_is_refused():
    from gymnasium.error import ResetNeeded

    for env in (make_env("cartpole", backend="analytic"), make_env("cartpole", backend="analytic", num_envs=2)):
        with pytest.raises(ResetNeeded):
            env.step(env.action_space.sample())
