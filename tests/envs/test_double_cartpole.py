"""The double cart-pole: its equations, its two engines, its task."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from adc_wrappers import ActuatorCurriculumWrapper, BackendError, CurriculumError, make_env
from adc_wrappers.backends.cartpole import (
    CartPoleModel,
    DoubleCartPoleModel,
    DoubleCartPoleState,
    make_cartpole_backend,
)

BACKENDS = ("analytic", "pybullet")
UNEVEN = DoubleCartPoleModel(
    cart_mass=2.0, lower_mass=0.7, lower_length=0.4, upper_mass=0.3, upper_length=0.6, gravity=9.0
)


def tips(q, model):
    """Positions of cart, lower and upper mass, from the geometry alone."""
    cart = np.array([q[0], 0.0])
    lower = cart + model.lower_length * np.array([np.sin(q[1]), np.cos(q[1])])
    return cart, lower, lower + model.upper_length * np.array([np.sin(q[2]), np.cos(q[2])])


def jacobian(q, model, h=1e-6):
    """Of the three masses' positions by the coordinates, shape ``(3, 2, 3)``."""
    columns = [(np.array(tips(q + h * e, model)) - np.array(tips(q - h * e, model))) / (2 * h) for e in np.eye(3)]
    return np.stack(columns, axis=-1)


def energy(rows, model):
    q, v = rows[0::2], rows[1::2]
    masses = np.array([model.cart_mass, model.lower_mass, model.upper_mass])
    velocities = jacobian(q, model) @ v
    height = np.array(tips(q, model))[:, 1]
    return 0.5 * (masses * (velocities**2).sum(axis=1)).sum() + model.gravity * (masses * height).sum()


def test_equations_are_those_of_three_point_masses():
    """Against d'Alembert's principle: Σ m_k J_kᵀ (J_k q̈ + J̇_k q̇ − g) = Q, with Jacobians of the geometry."""
    rng = np.random.default_rng(0)
    masses = np.array([UNEVEN.cart_mass, UNEVEN.lower_mass, UNEVEN.upper_mass])
    for _ in range(20):
        rows, force = rng.normal(size=6), rng.normal()
        q, v = rows[0::2], rows[1::2]
        jac, h = jacobian(q, UNEVEN), 1e-4
        drift = (jacobian(q + h * v, UNEVEN) - jacobian(q - h * v, UNEVEN)) / (2 * h) @ v
        weight = np.array([0.0, -UNEVEN.gravity])
        matrix = np.einsum("k,kdi,kdj->ij", masses, jac, jac)
        right = np.einsum("k,kdi,kd->i", masses, jac, weight - drift) + np.array([force, 0.0, 0.0])
        found = UNEVEN.accelerations(rows[:, None], np.array([force]))[:, 0]
        np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-5, atol=1e-5)


def test_energy_is_conserved_without_force():
    backend = make_cartpole_backend("analytic", 1, UNEVEN, physics_step=0.001, decimation=2000)
    backend.set_gains(np.zeros((1, 1)), np.zeros((1, 1)))
    start = np.array([0.0, 0.3, 0.4, -1.0, -0.8, 2.0])
    backend.reset(DoubleCartPoleState(*start[:, None]))
    backend.advance(np.zeros(1))
    end = np.stack(backend.state())[:, 0]
    assert np.abs(end - start).max() > 1.0
    assert energy(end, UNEVEN) == pytest.approx(energy(start, UNEVEN), rel=1e-8)


def test_without_an_upper_mass_the_lower_pole_is_the_cartpole():
    double = DoubleCartPoleModel(lower_mass=0.3, lower_length=0.7, upper_mass=1e-12)
    single = CartPoleModel(pole_mass=0.3, pole_length=0.7)
    rows = np.random.default_rng(1).normal(size=(6, 50))
    force = np.linspace(-5, 5, 50)
    np.testing.assert_allclose(
        double.accelerations(rows, force)[:2], single.accelerations(rows[:4], force), rtol=1e-8, atol=1e-8
    )


def rollout(name, physics_step, start, model=UNEVEN):
    backend = make_cartpole_backend(name, 2, model, physics_step=physics_step, decimation=round(0.02 / physics_step))
    gains = np.array([[18.0], [200.0]])
    backend.set_gains(gains, 2 * np.sqrt(gains * model.cart_mass))
    lower, upper = start
    zero = np.zeros(2)
    backend.reset(DoubleCartPoleState(zero, zero, np.full(2, lower), zero + 0.2, np.full(2, upper), zero - 0.1))
    path = []
    for k in range(60):
        backend.advance(np.full(2, 0.3 * np.sin(0.05 * k)))
        path.append(np.stack(backend.state()))
    backend.close()
    return np.array(path)


@pytest.mark.parametrize(
    ("start", "tolerance"), [((0.1, -0.05), 0.1), ((np.pi - 0.3, np.pi + 0.2), 0.02)], ids=["falling", "hanging"]
)
def test_engines_agree_over_a_second(start, tolerance):
    """Two soft and stiff carts over 1.2 s; rad, m, rad/s and m/s at a 1 ms step.

    PyBullet's step is first-order, so its distance to the continuous-time solution halves with the step.
    """
    gaps = [
        np.abs(rollout("pybullet", step, start) - rollout("analytic", step, start)).max() for step in (0.001, 0.0005)
    ]
    assert gaps[0] < tolerance
    assert gaps[1] == pytest.approx(gaps[0] / 2, rel=0.1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_that_is_set_is_read_back_for_chosen_envs(backend):
    """PyBullet's joint angles are relative, the state's absolute."""
    physics = make_cartpole_backend(backend, 3, UNEVEN)
    state = DoubleCartPoleState(*np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8], [-0.9, 1.0], [1.1, -1.2]]))
    physics.reset(state, np.array([2, 0]))
    read = np.stack(physics.state())
    np.testing.assert_allclose(read[:, [2, 0]], np.stack(state), atol=1e-12)
    np.testing.assert_array_equal(read[:, 1], np.zeros(6))
    assert physics.effective_inertia().tolist() == [UNEVEN.cart_mass]
    physics.close()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrapped", [False, True])
def test_checkers_of_gymnasium_and_sb3_pass(backend, wrapped):
    env = gym.make("ADC/DoubleCartPole-v0", backend=backend, render_mode="rgb_array")
    if wrapped:
        env = ActuatorCurriculumWrapper(env, iteration_steps=16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env, skip_render_check=wrapped)
        env.reset()
        sb3_check_env(env)
    env.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_repeat_bit_for_bit(backend):
    def path():
        env = make_env("double-cartpole", backend=backend, num_envs=3)
        observations = [env.reset(seed=7)[0]]
        rng = np.random.default_rng(1)
        observations += [env.step(rng.uniform(-1, 1, (3, 1)).astype(np.float32))[0] for _ in range(40)]
        env.close()
        return np.array(observations)

    first = path()
    np.testing.assert_array_equal(first, path())
    assert first.shape == (41, 3, 6) and first.std() > 0


def yellow(picture):
    return np.nonzero((picture[..., 0] > 120) & (picture[..., 1] > 80) & (picture[..., 2] < 60))


@pytest.mark.parametrize("backend", BACKENDS)
def test_pictures_show_both_masses_where_they_are(backend):
    env = make_env("double-cartpole", backend=backend, render_mode="rgb_array")
    env.reset(seed=0)

    def masses(lower, upper):
        zero = np.zeros(1)
        env.task.backend.reset(DoubleCartPoleState(zero, zero, zero + lower, zero, zero + upper, zero))
        picture = env.render()
        assert picture.dtype == np.uint8 and picture.shape == (400, 640, 3)
        rows, columns = yellow(picture)
        below = rows > (rows.min() + rows.max()) / 2
        return [(columns[part].mean() - 320, rows[part].mean()) for part in (below, ~below)]

    low, high = masses(0.0, 0.0)
    assert abs(low[0]) < 5 and abs(high[0]) < 5 and low[1] - high[1] > 80
    low, high = masses(0.3, -0.3)
    assert low[0] > 15 and abs(high[0]) < 12
    env.close()


@pytest.mark.parametrize("task", ["cartpole", "double-cartpole"])
def test_a_picture_shows_one_mechanism_of_a_batch(task):
    still = {"start_angle": 0.0, "start_rate": 0.0, "backend": "pybullet", "render_mode": "rgb_array"}
    batch, single = make_env(task, num_envs=3, **still), make_env(task, **still)
    batch.reset(seed=0)
    single.reset(seed=0)
    picture = single.render().astype(int)
    for other in batch.render():
        assert (np.abs(other.astype(int) - picture) > 30).mean() < 0.001
    batch.close()
    single.close()


def test_termination_and_success_look_at_both_poles():
    env = make_env("double-cartpole", num_envs=5, time_limit=60, start_angle=0.0, start_rate=0.0)
    env.reset(seed=0)
    task = env.task
    zero = np.zeros(5)
    lower, upper = np.array([0.0, 0.25, 0.0, 0.7, 0.0]), np.array([0.0, 0.0, -0.25, 0.0, -0.7])
    task.backend.reset(DoubleCartPoleState(zero, zero, lower, zero, upper, zero))
    task._state = task.backend.state()
    assert task.terminated().tolist() == [False, False, False, True, True]
    assert task.holds().tolist() == [True, False, False, False, False]
    task.backend.reset(DoubleCartPoleState(zero + 1.01, zero, zero, zero, zero, zero), np.arange(5))
    task._state = task.backend.state()
    assert task.terminated().all() and task.holds().all()
    env.reset(seed=0)
    for _ in range(60):
        *_, terminated, truncated, infos = env.step(np.zeros((5, 1), np.float32))
    assert truncated.all() and not terminated.any() and infos["final_info"]["is_success"].all()


def test_reward_is_the_sum_of_its_terms():
    env = make_env("double-cartpole")
    env.reset(seed=0)
    _, reward, _, _, info = env.step(np.array([0.7], np.float32))
    assert set(info["reward_terms"]) == {"alive", "angle", "position", "action_rate"}
    assert reward == pytest.approx(sum(info["reward_terms"].values()))
    assert info["reward_terms"]["action_rate"] == pytest.approx(-0.05 * 0.7**2)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"upper_mass": -1.0}, BackendError, "upper_mass"),
        ({"lower_length": float("nan")}, CurriculumError, "lower_length"),
        ({"angle_limit": 0.0}, CurriculumError, "angle_limit"),
        ({"start_angle": -0.1}, CurriculumError, "start_angle"),
        ({"start_rate": float("nan")}, CurriculumError, "start_rate"),
        ({"time_limit": 0}, CurriculumError, "time_limit"),
        ({"pole_mass": 0.1}, TypeError, "upper_mass|lower_mass|no setting"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        make_env("double-cartpole", **settings)
