"""Factors on gains: a robot that makes 0.9 of its K moves as one at 0.9 K, says K, and keeps its factor."""

from __future__ import annotations

import numpy as np
import pytest

from adc_wrappers.backends.base import RobotParameters
from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.core.errors import BackendError

FACTORS = RobotParameters(stiffness_factor=np.array([0.9, 1.1]), damping_factor=np.array([1.05, 0.95]))
ROWS = np.array([0, 1])


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_a_factor_acts_and_is_not_read_as_a_gain(engine):
    one, plain = (make_robot_backend(engine, 2) for _ in range(2))
    k = np.full((2, 12), 40.0)
    b = damping_for(k, one.effective_inertia())
    one.set_parameters(FACTORS, ROWS)
    one.set_gains(k, b)  # as a curriculum does, after the factor was drawn
    np.testing.assert_allclose(one.gains().stiffness, k, rtol=1e-12)
    np.testing.assert_allclose(one.gains().damping, b, rtol=1e-12)
    plain.set_gains(k * [[0.9], [1.1]], b * [[1.05], [0.95]])
    rng = np.random.default_rng(0)
    for _ in range(10):
        targets = one.nominal_pose + rng.uniform(-0.3, 0.3, (2, 12))
        for backend in (one, plain):
            backend.advance(targets)
    np.testing.assert_allclose(one.state().joint_positions, plain.state().joint_positions, atol=1e-9)
    assert np.abs(one.state().joint_positions[0] - one.state().joint_positions[1]).max() > 1e-3
    for backend in (one, plain):
        backend.close()


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_a_factor_goes_with_the_physics_and_the_gains_stay(engine):
    one, other = (make_robot_backend(engine, 2) for _ in range(2))
    one.set_parameters(FACTORS, ROWS)
    k = np.full((2, 12), 44.0)
    b = damping_for(k, one.effective_inertia())
    for backend in (one, other):
        backend.set_gains(k, b)
    other.load_physics_state(one.physics_state())
    for backend in (one, other):
        np.testing.assert_allclose(backend.gains().stiffness, k, rtol=1e-12)
        backend.advance(np.tile(backend.nominal_pose + 0.2, (2, 1)))
    np.testing.assert_array_equal(one.state().joint_positions, other.state().joint_positions)
    with pytest.raises(BackendError, match="stiffness_factor"):
        one.set_parameters(RobotParameters(stiffness_factor=np.array([0.0, 1.0])), ROWS)
    for backend in (one, other):
        backend.close()


def with_short_history(state):
    """As it was saved when commands could be late by 4 physics steps at most."""
    state = {**state, "commands": {**state["commands"], "history": state["commands"]["history"][:, -4:]}}
    parameters = {name: value for name, value in state["parameters"].items() if name != "factors"}
    return {**state, "parameters": parameters}


def test_states_of_older_checkpoints_load():
    """MuJoCo's and PyBullet's, whose delays were shorter and whose gains had no factors."""
    for engine in ("mujoco", "pybullet"):
        one, other = (make_robot_backend(engine, 2) for _ in range(2))
        one.set_parameters(RobotParameters(command_delay=np.array([4, 0])), ROWS)
        one.advance(np.tile(one.nominal_pose + 0.1, (2, 1)))
        state = one.physics_state()
        if engine == "mujoco":
            old = with_short_history(state)
        else:
            old = {name: value for name, value in state.items() if name != "gain_factors"}
            begin, missing = 1 + 13 + 24, 16 * 12
            old["saved"] = np.delete(state["saved"], np.s_[begin : begin + missing], axis=1)
        other.load_physics_state(old)
        for backend in (one, other):
            backend.advance(np.tile(backend.nominal_pose - 0.1, (2, 1)))
        np.testing.assert_array_equal(one.state().joint_positions, other.state().joint_positions)
        for backend in (one, other):
            backend.close()
