"""Spot in PyBullet: contacts, pushes and parameters."""

from __future__ import annotations

import itertools

import numpy as np
import pybullet
import pytest
from bullet_robot_helpers import FACING_LEFT, FEET, HEIGHT, Array, Make, bullet_robots, hold, start, stiffen

from adc_wrappers.backends.base import RobotParameters
from adc_wrappers.backends.spot_model import LINK_NAMES, SPOT

make = pytest.fixture(bullet_robots)


def test_standing_touches_with_the_feet_only_and_carries_the_weight(make: Make) -> None:
    backend = make()
    stiffen(backend, 400.0)
    forces = hold(backend, 60).contact_forces[0]
    assert set(np.flatnonzero(forces)) == set(FEET)
    assert forces.sum() == pytest.approx(SPOT.total_mass * 9.81, rel=0.1)


def test_lying_on_the_back_touches_with_the_body(make: Make) -> None:
    backend = make()
    backend.reset(start(position=(0.0, 0.0, 0.3), quaternion=(0.0, 1.0, 0.0, 0.0)))
    forces = hold(backend, 40).contact_forces[0]
    assert forces[LINK_NAMES.index("body")] > 50.0
    assert not forces[FEET].any()


@pytest.mark.parametrize("decimation", [1, 10])
def test_in_the_air_nothing_touches_even_just_after_standing(make: Make, decimation: int) -> None:
    backend = make(decimation=decimation)
    assert hold(backend, 10).contact_forces.any()
    backend.reset(start(position=(0.0, 0.0, 2.0)))
    assert not backend.state().contact_forces.any()
    assert not hold(backend, 1).contact_forces.any()


def test_contact_forces_are_the_largest_of_three_physics_steps(make: Make) -> None:
    fine, coarse = make(decimation=1), make(decimation=5)
    history: list[Array] = []
    for backend in (fine, coarse):
        backend.reset(start(position=(0.0, 0.0, HEIGHT + 0.002), velocity=(0.0, 0.0, -0.5)))
    for step in range(1, 26):
        shown = hold(fine, 1).contact_forces[0]
        now = np.zeros(17)
        for place, force in fine._batch._worlds[0]._ground_forces().items():  # type: ignore[union-attr]
            now[place] = force
        history.append(now)
        np.testing.assert_allclose(shown, np.max(history[-3:], axis=0))
        if step % 5 == 0:
            np.testing.assert_array_equal(hold(coarse, 1).contact_forces[0], shown)
    assert any((old > new).any() for old, new in itertools.pairwise(history))


def test_a_push_moves_the_robot_along_the_worlds_axes(make: Make) -> None:
    backend = make(3, gravity=0.0)
    backend.reset(start(3, position=(0.0, 0.0, 2.0), quaternion=FACING_LEFT))
    backend.push(np.array([[0.5, 0.0, 0.2]]), np.array([1]))
    np.testing.assert_allclose(backend.state().base_linear_velocity[1], (0.0, -0.5, 0.2), atol=1e-12)
    for step in (1, 2):
        state = hold(backend, 1)
        np.testing.assert_allclose(state.base_position[1], (0.01 * step, 0.0, 2.0 + 0.004 * step), atol=1e-9)
        np.testing.assert_allclose(state.base_position[[0, 2]], [(0.0, 0.0, 2.0)] * 2, atol=1e-9)


def test_a_reset_forgets_a_push(make: Make) -> None:
    backend = make(gravity=0.0)
    backend.push(np.array([[0.5, 0.0, 0.0]]), np.array([0]))
    backend.reset(start(position=(0.0, 0.0, 2.0)))
    np.testing.assert_allclose(hold(backend, 1).base_position[0], (0.0, 0.0, 2.0), atol=1e-9)


def test_friction_brakes_a_sliding_robot(make: Make) -> None:
    """On its back, at 1 m/s: it slides v²/(2 μ g)."""
    backend = make(3)
    stiffen(backend, 400.0)
    friction = np.array([0.0, 0.2, 0.4])
    backend.set_parameters(RobotParameters(friction=friction), np.arange(3))
    backend.reset(start(3, position=(0.0, 0.0, 0.075), quaternion=(0.0, 1.0, 0.0, 0.0), velocity=(1.0, 0.0, 0.0)))
    way = hold(backend, 50).base_position[:, 0]
    np.testing.assert_allclose(way, [1.0, *1.0 / (2.0 * friction[1:] * 9.81)], rtol=0.1)


def test_added_base_mass_weighs(make: Make) -> None:
    backend = make(2)
    stiffen(backend, 400.0)
    backend.set_parameters(RobotParameters(base_mass_offset=np.array([5.0])), np.array([1]))
    loads = hold(backend, 60).contact_forces[:, FEET].sum(axis=1)
    assert loads[1] - loads[0] == pytest.approx(5.0 * 9.81, rel=0.15)


def test_added_base_mass_scales_the_inertia(make: Make) -> None:
    backend = make()
    backend.set_parameters(RobotParameters(base_mass_offset=np.array([SPOT.links[0].mass])), np.array([0]))
    hold(backend, 1)
    world = backend._batch._worlds[0]  # type: ignore[union-attr]
    info = pybullet.getDynamicsInfo(world._robot.body, -1, world._client)
    assert info[0] == pytest.approx(2.0 * SPOT.links[0].mass)
    np.testing.assert_allclose(info[2], 2.0 * np.array(SPOT.links[0].inertia[:3]))


def test_parameters_not_given_stay(make: Make) -> None:
    backend = make(2)
    both = np.array([0, 1])
    backend.set_parameters(RobotParameters(friction=np.array([0.3, 0.3]), base_mass_offset=np.array([2.0, 2.0])), both)
    backend.set_parameters(RobotParameters(command_delay=np.array([2])), np.array([0]))
    backend.set_parameters(RobotParameters(command_delay=np.array([2])), np.array([1]))
    hold(backend, 1)
    for world in backend._batch._worlds:  # type: ignore[union-attr]
        info = pybullet.getDynamicsInfo(world._robot.body, world._robot.links["hr_foot"], world._client)
        assert info[1] == pytest.approx(0.3)
        assert pybullet.getDynamicsInfo(world._robot.body, -1, world._client)[0] == pytest.approx(18.70765207)
