"""Every backend passes one suite: gains are proven by motion, for all envs, for some, and after resets."""

from __future__ import annotations

import functools

import gymnasium as gym
import mujoco
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from helpers import STILL, TorchBatchEnv
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from adc_wrappers import make_env
from adc_wrappers.core.backend_access import VectorChildrenBackend
from adc_wrappers.sb3.vec_env import _VecEnvBackend
from adc_wrappers.testing import ConformanceError, check_backend, measure, second_order_step
from examples.your_own_env import AntActuators

POLICY_STEP = 0.02


class CartProbe:
    """The carts of any batch of cart-pole envs; what stands on them is too light to matter."""

    time_step = POLICY_STEP

    def __init__(self, env, backend):
        self.env, self.backend = env, backend

    def rest(self):
        observation = self.env.reset()
        observation = observation[0] if isinstance(observation, tuple) else observation
        return observation[:, :1].astype(np.float64)

    def move(self, targets):
        return self.env.step(targets.astype(np.float32))[0][:, :1].astype(np.float64)


def cart(backend):
    return make_env("cartpole", backend=backend, **STILL)


def probe_batch(backend, task="cartpole", still=STILL):
    env = make_env(task, backend=backend, num_envs=4, **still)
    return CartProbe(env, env.actuator_backend)


def probe_double(backend):
    still = {name: value for name, value in STILL.items() if name != "pole_mass"}
    return probe_batch(backend, "double-cartpole", {**still, "lower_mass": 1e-6, "upper_mass": 1e-6})


def probe_gymnasium(vector_class, backend):
    env = vector_class([functools.partial(cart, backend)] * 3)
    return CartProbe(env, VectorChildrenBackend(env))


def probe_sb3(vec_class, backend):
    env = vec_class([functools.partial(cart, backend)] * 3)
    return CartProbe(env, _VecEnvBackend(env))


CART_PROBES = {
    "analytic": lambda: probe_batch("analytic"),
    "pybullet": lambda: probe_batch("pybullet"),
    "double-analytic": lambda: probe_double("analytic"),
    "double-pybullet": lambda: probe_double("pybullet"),
    "sync-analytic": lambda: probe_gymnasium(SyncVectorEnv, "analytic"),
    "sync-pybullet": lambda: probe_gymnasium(SyncVectorEnv, "pybullet"),
    "async-pybullet": lambda: probe_gymnasium(AsyncVectorEnv, "pybullet"),
    "dummy-pybullet": lambda: probe_sb3(DummyVecEnv, "pybullet"),
    "subproc-pybullet": lambda: probe_sb3(SubprocVecEnv, "pybullet"),
}


@pytest.mark.parametrize("name", CART_PROBES)
def test_cart_backends(name):
    probe = CART_PROBES[name]()
    try:
        assert check_backend(probe, (6.25, 36.0), tolerance=0.01) < 0.01
    finally:
        probe.env.close()


@pytest.mark.parametrize("zeta", [0.5, 2.0])
def test_cart_backends_with_other_damping(zeta):
    for name in ("analytic", "pybullet"):
        probe = CART_PROBES[name]()
        check_backend(probe, (6.25, 36.0), damping_ratio=zeta, tolerance=0.015)
        probe.env.close()


class TorchProbe:
    def __init__(self):
        self.env = TorchBatchEnv([[10**9]] * 3)
        self.backend = self.env.actuator_backend
        self.time_step = self.env.time_step * self.env.substeps

    def rest(self):
        self.env.reset()
        return self.env.position.numpy().copy()

    def move(self, targets):
        self.env.step(torch.as_tensor(targets))
        return self.env.position.numpy().copy()


def test_a_torch_batch():
    check_backend(TorchProbe(), (40.0, 60.0), tolerance=0.02)


class AntProbe:
    """The Ant of the example, floating without weight."""

    def __init__(self):
        self.env = gym.make("Ant-v5")
        self.backend = AntActuators(self.env)
        self.model, self.data = self.env.unwrapped.model, self.env.unwrapped.data
        self.model.opt.gravity[:] = 0
        self.time_step = self.model.opt.timestep
        self.joints = self.model.actuator_trnid[:, 0]

    def positions(self):
        return self.data.qpos[self.model.jnt_qposadr[self.joints]][None].copy()

    def rest(self):
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[2] = 5.0
        self.data.qpos[self.model.jnt_qposadr[self.joints]] = self.model.jnt_range[self.joints].mean(axis=1)
        return self.positions()

    def move(self, targets):
        self.data.ctrl[:] = targets[0]
        mujoco.mj_step(self.model, self.data)
        return self.positions()


def test_the_example_backend_of_a_gymnasium_mujoco_robot():
    """Its inertia is taken at one pose and the trunk gives way, so the tolerance is wider."""
    worst = check_backend(AntProbe(), (20.0, 60.0), tolerance=0.06, amplitude=0.05)
    assert worst > 0


# --- the suite itself can fail ---------------------------------------------------------------------------------------


def broken(change):
    probe = CART_PROBES["analytic"]()
    change(probe.backend)
    return probe


def ignore_physics(backend):
    """Shows new gains that the physics does not use."""
    shown = {}
    write, read = backend.set_gains, backend.gains
    backend.set_gains(np.full((4, 1), 10.0), np.full((4, 1), 6.0))
    shown["gains"] = read()

    def set_gains(stiffness, damping, env_ids=None):
        rows = slice(None) if env_ids is None else env_ids
        shown["gains"].stiffness[rows], shown["gains"].damping[rows] = stiffness, damping

    backend.set_gains, backend.gains = set_gains, lambda: type(shown["gains"])(*map(np.copy, shown["gains"]))
    assert write is not set_gains


def double_loop(backend):
    """Runs a second PD loop of its own."""
    advance, derivative = backend.advance, backend._derivative
    backend._derivative = lambda state, command: (
        derivative(state, command) + np.stack((0 * state[0], 20 * (command - state[0]), 0 * state[2], 0 * state[3]))
    )
    assert advance is not None


def forget_subset(backend):
    """Writes to all envs whatever subset was asked for."""
    write = backend.set_gains
    backend.set_gains = lambda k, b, env_ids=None: write(np.full((4, 1), k[0, 0]), np.full((4, 1), b[0, 0]))


def wrong_inertia(backend):
    backend.effective_inertia = lambda: np.array([1.5])


def lose_at_reset(backend):
    reset, write = backend.reset, backend.set_gains

    def forgetful(state, env_ids=None):
        write(np.full((4, 1), 9.0), np.full((4, 1), 6.0))
        reset(state, env_ids)

    backend.reset = forgetful


@pytest.mark.parametrize("defect", [ignore_physics, double_loop, forget_subset, wrong_inertia, lose_at_reset])
def test_the_suite_finds(defect):
    with pytest.raises(ConformanceError):
        check_backend(broken(defect), (6.25, 36.0), tolerance=0.02)


def test_the_analytic_response_solves_the_equation():
    times = np.linspace(0, 2, 4001)
    for k, b, m in [(40.0, 4.0, 0.1), (40.0, 1.0, 0.1), (40.0, 12.0, 0.1)]:
        q = second_order_step(times, k, b, m)
        v = np.gradient(q, times)
        a = np.gradient(v, times)
        residual = m * a + b * v + k * (q - 1)
        assert np.abs(residual[5:-5]).max() < 1e-2 * k
        assert q[0] == 0.0


def test_measure_reports_the_share_of_the_step():
    probe = CART_PROBES["analytic"]()
    probe.backend.set_gains(np.full((4, 1), 36.0), np.full((4, 1), 12.0))
    response = measure(probe, 0, 0.1)
    assert response.measured.shape == response.expected.shape
    assert response.measured[-1] == pytest.approx(1.0, abs=0.05)
