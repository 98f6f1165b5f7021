"""The double cart-pole is narrow at the target gains, and can be solved there."""

from __future__ import annotations

import numpy as np

from adc_wrappers import make_env
from adc_wrappers.backends.cartpole import DoubleCartPoleState, make_cartpole_backend


def set_stiffness(backend, stiffness):
    gains = np.full((backend.num_envs, 1), float(stiffness))
    backend.set_gains(gains, 2.0 * np.sqrt(gains * backend.effective_inertia()))


def lqr(stiffness):
    """State feedback by Riccati iteration on one policy step, linearised about upright with the PD law inside."""
    backend = make_cartpole_backend("analytic", 14, make_env("double-cartpole").task.backend.model)
    set_stiffness(backend, stiffness)
    nudges = 1e-6 * np.concatenate((np.eye(7), -np.eye(7)), axis=1)
    backend.reset(DoubleCartPoleState(*nudges[:6]))
    backend.advance(nudges[6])
    ends = np.stack(backend.state())
    step = (ends[:, :7] - ends[:, 7:]) / 2e-6
    a, b = step[:, :6], step[:, 6:]
    cost = value = np.diag([1.0, 0.1, 10.0, 1.0, 10.0, 1.0])
    for _ in range(1500):
        gain = np.linalg.solve(np.eye(1) + b.T @ value @ b, b.T @ value @ a)
        value = cost + a.T @ value @ (a - b @ gain)
    assert np.abs(np.linalg.eigvals(a - b @ gain)).max() < 1.0 < np.abs(np.linalg.eigvals(a)).max()
    return gain


def share_that_survives(stiffness, policy, **settings):
    env = make_env("double-cartpole", num_envs=200, **settings)
    set_stiffness(env.actuator_backend, stiffness)
    observation, _ = env.reset(seed=0)
    running, success = np.ones(200, bool), np.zeros(200, bool)
    for _ in range(env.task.time_limit):
        observation, _, terminated, truncated, infos = env.step(policy(observation))
        if "final_info" in infos:
            success |= running & infos["final_info"]["is_success"]
        running &= ~(terminated | truncated)
        if not running.any():
            break
    return success.mean()


def recommended():
    config = make_env("double-cartpole").adc_config
    return config.start_stiffness, config.target_stiffness


def test_lqr_solves_the_task_at_the_target_gains_from_its_starts():
    _, target = recommended()
    gain = lqr(target)
    assert share_that_survives(target, lambda o: (-o @ gain.T).astype(np.float32)) >= 0.98


def test_soft_joints_are_narrower_than_stiff_ones():
    """From starts six times as wide, the same design saves almost all at K_0 and less than half at K_*."""
    shares = []
    for stiffness in recommended():
        gain = lqr(stiffness)
        shares.append(
            share_that_survives(
                stiffness, lambda o, g=gain: (-o @ g.T).astype(np.float32), start_angle=0.12, start_rate=0.12
            )
        )
    assert shares[0] > 0.98 and shares[1] < 0.5


def test_exploring_at_the_target_gains_never_succeeds():
    rng = np.random.default_rng(0)
    _, target = recommended()
    assert share_that_survives(target, lambda o: rng.uniform(-1, 1, (len(o), 1)).astype(np.float32)) == 0.0
