"""Spot in PyBullet: the contract, the torque law, repeatability, and what happens when things break."""

from __future__ import annotations

import gc
import itertools
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pybullet
import pytest
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.base import RobotBackend, RobotParameters, RobotStart, RobotState
from adc_wrappers.backends.bullet_robot import BulletRobotBackend
from adc_wrappers.backends.spot_model import (
    FOOT_NAMES,
    JOINT_NAMES,
    LINK_NAMES,
    NOMINAL_POSE,
    SPOT,
    knee_torque_limit,
    spot_urdf,
    standing_height,
)
from adc_wrappers.core.actuators import ActuatorBackend, Gains, check_backend_shape, damping_for
from adc_wrappers.core.errors import BackendError, MissingExtraError
from adc_wrappers.testing import ConformanceError, check_backend

Array = NDArray[np.float64]
Make = Callable[..., BulletRobotBackend]

HEIGHT = standing_height(NOMINAL_POSE)
LEVEL = (1.0, 0.0, 0.0, 0.0)
HALF = math.sqrt(0.5)
NOSE_DOWN = (HALF, 0.0, HALF, 0.0)
FACING_LEFT = (HALF, 0.0, 0.0, HALF)
FEET = [LINK_NAMES.index(name) for name in FOOT_NAMES]
NO_ENVS = np.array([], dtype=np.int64)


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes backends and closes them after the test."""
    made: list[BulletRobotBackend] = []

    def build(num_envs: int = 1, **settings: Any) -> BulletRobotBackend:
        made.append(BulletRobotBackend(num_envs, **{"workers": 0, **settings}))
        return made[-1]

    yield build
    for backend in made:
        backend.close()


def start(
    num_envs: int = 1,
    *,
    position: ArrayLike = (0.0, 0.0, HEIGHT),
    quaternion: ArrayLike = LEVEL,
    velocity: ArrayLike = (0.0, 0.0, 0.0),
    rates: ArrayLike = (0.0, 0.0, 0.0),
    joints: ArrayLike = NOMINAL_POSE,
    speeds: ArrayLike = (0.0,) * 12,
) -> RobotStart:
    parts = (position, quaternion, velocity, rates, joints, speeds)
    return RobotStart(*(np.tile(np.asarray(part, dtype=np.float64), (num_envs, 1)) for part in parts))


def hold(backend: RobotBackend, steps: int, targets: ArrayLike = NOMINAL_POSE) -> RobotState:
    commands = np.tile(np.asarray(targets, dtype=np.float64), (backend.num_envs, 1))
    for _ in range(steps):
        backend.advance(commands)
    return backend.state()


def stiffen(backend: RobotBackend, stiffness: float) -> None:
    values = np.full((backend.num_envs, 12), stiffness)
    backend.set_gains(values, damping_for(values, backend.effective_inertia()))


def rollout(backend: RobotBackend, steps: int, seed: int, size: float = 0.4) -> Array:
    """Advance under the same random targets for all envs; return every state, ``(steps, num_envs, numbers)``."""
    generator = np.random.default_rng(seed)
    path = []
    for _ in range(steps):
        hold(backend, 1, backend.nominal_pose + generator.uniform(-size, size, 12))
        path.append(np.concatenate(backend.state(), axis=1))
    return np.stack(path)


def running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


# --- contract ---------------------------------------------------------------------------------------------------------


def test_shapes_names_and_first_state(make: Make) -> None:
    backend = make(3)
    assert isinstance(backend, ActuatorBackend)
    check_backend_shape(backend)
    assert tuple(backend.joint_names) == JOINT_NAMES
    assert tuple(backend.link_names) == LINK_NAMES
    assert backend.policy_step == pytest.approx(0.02)
    assert backend.explicit_time_step == 0.002
    for _ in range(2):
        shapes = [values.shape for values in backend.state()]
        assert shapes == [(3, 3), (3, 4), (3, 3), (3, 3), (3, 3), (3, 12), (3, 12), (3, 12), (3, 17)]
        assert all(np.isfinite(values).all() for values in backend.state())
        hold(backend, 1)


def test_effective_inertia(make: Make) -> None:
    leg = {"f": [0.09398, 0.09538, 0.01718], "h": [0.08061, 0.09538, 0.01718]}
    expected = leg["f"] + leg["f"] + leg["h"] + leg["h"]
    np.testing.assert_allclose(make().effective_inertia(), expected, atol=6e-6)


def test_a_reset_of_chosen_envs_is_shown_at_once_and_leaves_the_others_and_the_gains(make: Make) -> None:
    backend = make(3)
    backend.set_gains(np.full((1, 12), 33.0), np.full((1, 12), 2.0), np.array([1]))
    hold(backend, 3)
    before = [values.copy() for values in backend.state()]
    pose = np.asarray(NOMINAL_POSE) + 0.1
    backend.reset(start(position=(1.0, 2.0, 3.0), quaternion=NOSE_DOWN, joints=pose), np.array([1]))
    after = backend.state()
    np.testing.assert_array_equal(after.base_position[1], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(after.joint_positions[1], pose)
    assert not after.joint_torques[1].any()
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old[[0, 2]], new[[0, 2]])
    assert (backend.gains().stiffness[:, 0] == [60.0, 33.0, 60.0]).all()


class OneJoint:
    """A backend seen through one joint, the others held 500 times as stiff: in their linkage a joint moves alone."""

    def __init__(self, backend: BulletRobotBackend, joint: int) -> None:
        self.num_envs = backend.num_envs
        self.joint_names = (JOINT_NAMES[joint],)
        self._backend, self._joint = backend, joint
        stiffen(backend, 20_000.0)

    def effective_inertia(self) -> Array:
        return self._backend.effective_inertia()[[self._joint]]

    def gains(self) -> Gains:
        return Gains(*(values[:, [self._joint]] for values in self._backend.gains()))

    def set_gains(self, stiffness: Array, damping: Array, env_ids: NDArray[np.int64] | None = None) -> None:
        rows = np.arange(self.num_envs) if env_ids is None else env_ids
        everything = self._backend.gains()
        for whole, part in zip(everything, (stiffness, damping), strict=True):
            whole[rows, self._joint] = part[:, 0]
        self._backend.set_gains(everything.stiffness[rows], everything.damping[rows], env_ids)


class Probe:
    """Moves one joint of robots whose bases are fixed in the air, without gravity."""

    def __init__(self, backend: BulletRobotBackend, joint: int) -> None:
        self.backend: ActuatorBackend = OneJoint(backend, joint)
        self.time_step = backend.policy_step
        self._robots, self._joint = backend, joint

    def rest(self) -> Array:
        self._robots.reset(start(self._robots.num_envs, position=(0.0, 0.0, 2.0)))
        return np.asarray(self._robots.state().joint_positions[:, [self._joint]]).copy()

    def move(self, targets: Array) -> Array:
        everything = np.tile(NOMINAL_POSE, (self._robots.num_envs, 1))
        everything[:, [self._joint]] = targets
        self._robots.advance(everything)
        return np.asarray(self._robots.state().joint_positions[:, [self._joint]]).copy()


def still_robots(make: Make, num_envs: int) -> BulletRobotBackend:
    return make(num_envs, fixed_base=True, gravity=0.0, physics_step=0.0005, decimation=8)


@pytest.mark.parametrize("joint", range(12), ids=JOINT_NAMES)
def test_every_joint_moves_as_its_gains_say(make: Make, joint: int) -> None:
    assert check_backend(Probe(still_robots(make, 3), joint), (30.0, 60.0), tolerance=0.02) > 0.0


def test_the_conformance_check_sees_a_second_pd_loop(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from adc_wrappers.backends.bullet_robot import world
    from adc_wrappers.backends.bullet_robot.actuation import pd_torques

    law = pd_torques
    monkeypatch.setattr(world, "pd_torques", lambda *a: [1.5 * torque for torque in law(*a) or ()])
    with pytest.raises(ConformanceError, match="another PD loop"):
        check_backend(Probe(still_robots(make, 2), 1), (30.0, 60.0), tolerance=0.02)


# --- torque law -------------------------------------------------------------------------------------------------------


def test_torques_are_the_law_within_the_limits(make: Make) -> None:
    generator = np.random.default_rng(1)
    backend = make(decimation=1, gravity=0.0)
    angles = np.tile(NOMINAL_POSE, (40, 1)) + generator.uniform(-0.3, 0.3, (40, 12))
    angles[:, 2::3] = generator.uniform(-2.75, -0.3, (40, 4))
    speeds = generator.uniform(-3.0, 3.0, (40, 12))
    targets = angles + generator.uniform(-2.5, 2.5, (40, 12))
    stiffness, damping = generator.uniform(20.0, 80.0, (40, 12)), generator.uniform(0.5, 3.0, (40, 12))
    torques = []
    for case in range(40):
        backend.set_gains(stiffness[[case]], damping[[case]])
        backend.reset(start(position=(0.0, 0.0, 2.0), joints=angles[case], speeds=speeds[case]))
        torques.append(hold(backend, 1, targets[case]).joint_torques[0].copy())
    limit = np.full((40, 12), 45.0)
    limit[:, 2::3] = knee_torque_limit(angles[:, 2::3])
    raw = stiffness * (targets - angles) - damping * speeds
    np.testing.assert_allclose(torques, np.clip(raw, -limit, limit), rtol=1e-12, atol=1e-12)
    for group in (slice(0, None, 3), slice(1, None, 3), slice(2, None, 3)):
        clipped = np.abs(raw[:, group]) > limit[:, group]
        assert clipped.any()
        assert not clipped.all()


def test_delayed_targets_act_late_and_a_reset_forgets_them(make: Make) -> None:
    backend = make(2, decimation=1, fixed_base=True, gravity=0.0)
    backend.set_parameters(RobotParameters(command_delay=np.array([3])), np.array([1]))
    gains = backend.gains()
    for episode in range(2):
        backend.reset(start(2, position=(0.0, 0.0, 2.0)))
        commands = [np.asarray(NOMINAL_POSE) + 0.02 * (step + 1) * (1 - 2 * episode) for step in range(8)]
        for step, command in enumerate(commands):
            before = [values.copy() for values in backend.state()]
            hold(backend, 1, command)
            for env, delay in ((0, 0), (1, 3)):
                acting = commands[step - delay] if step >= delay else np.asarray(NOMINAL_POSE)
                q, speed = before[5][env], before[6][env]
                expected = gains.stiffness[env] * (acting - q) - gains.damping[env] * speed
                np.testing.assert_allclose(backend.state().joint_torques[env], expected, atol=1e-12)


def test_a_delay_reaches_over_policy_steps(make: Make) -> None:
    fine, coarse = (make(decimation=n, gravity=0.0, fixed_base=True) for n in (1, 2))
    for backend in (fine, coarse):
        backend.set_parameters(RobotParameters(command_delay=np.array([3])), np.array([0]))
    for shift in (0.0, 0.2, -0.1, 0.3):
        hold(fine, 2, np.asarray(NOMINAL_POSE) + shift)
        hold(coarse, 1, np.asarray(NOMINAL_POSE) + shift)
        np.testing.assert_array_equal(fine.state().joint_positions, coarse.state().joint_positions)


# --- frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quaternion", "expected"),
    [
        (LEVEL, (0.0, 0.0, -1.0)),
        (FACING_LEFT, (0.0, 0.0, -1.0)),
        (NOSE_DOWN, (1.0, 0.0, 0.0)),
        ((HALF, 0.0, -HALF, 0.0), (-1.0, 0.0, 0.0)),
        ((HALF, HALF, 0.0, 0.0), (0.0, -1.0, 0.0)),
    ],
    ids=["level", "level, turned left", "nose down", "nose up", "on the right side"],
)
def test_projected_gravity(make: Make, quaternion: tuple[float, ...], expected: tuple[float, ...]) -> None:
    backend = make(fixed_base=True)
    backend.reset(start(position=(0.0, 0.0, 2.0), quaternion=quaternion))
    np.testing.assert_allclose(backend.state().projected_gravity[0], expected, atol=1e-12)
    state = hold(backend, 1)
    np.testing.assert_allclose(state.projected_gravity[0], expected, atol=1e-9)
    np.testing.assert_allclose(state.base_position[0], (0.0, 0.0, 2.0), atol=1e-9)
    np.testing.assert_allclose(state.base_quaternion[0], quaternion, atol=1e-9)


def test_velocities_are_in_the_body_frame_under_yaw(make: Make) -> None:
    backend = make(gravity=0.0)
    backend.reset(start(position=(0.0, 0.0, 2.0), quaternion=FACING_LEFT, velocity=(1.0, 2.0, 3.0)))
    for _ in range(2):  # as shown by the reset, then as read from the engine
        np.testing.assert_allclose(backend.state().base_linear_velocity[0], (2.0, -1.0, 3.0), atol=1e-9)
        hold(backend, 1)


def test_velocities_are_those_of_the_links_origin(make: Make) -> None:
    """Against differences of positions; the centre of mass, 5 mm off, would miss by 0.02 m/s."""
    backend = make(gravity=0.0, decimation=1, physics_step=1e-4)
    backend.reset(
        start(position=(0.0, 0.0, 2.0), quaternion=FACING_LEFT, velocity=(0.3, 0.1, 0.0), rates=(3.0, 4.0, 0))
    )
    shown = [values.copy() for values in backend.state()]
    after = hold(backend, 1)
    moved = (after.base_position[0] - shown[0][0]) / 1e-4
    np.testing.assert_allclose(moved, (0.3, 0.1, 0.0), atol=3e-3)
    x, y, z = after.base_linear_velocity[0]
    np.testing.assert_allclose((-y, x, z), moved, atol=3e-3)
    np.testing.assert_allclose(after.base_linear_velocity[0], shown[2][0], atol=3e-3)
    np.testing.assert_allclose(after.base_angular_velocity[0], (3.0, 4.0, 0.0), atol=3e-2)


def test_a_base_with_tilted_principal_axes_is_reported_as_its_link(make: Make) -> None:
    skewed = spot_urdf().replace('ixy="0" ixz="0" iyz="0"', 'ixy="0.01" ixz="0.03" iyz="0"', 1)
    assert skewed != spot_urdf()
    backend = make(gravity=0.0, model=skewed)
    backend.reset(start(position=(0.0, 0.0, 2.0), quaternion=NOSE_DOWN, velocity=(0.5, 0.0, 0.0)))
    state = hold(backend, 1)
    np.testing.assert_allclose(state.base_position[0], (0.01, 0.0, 2.0), atol=1e-9)
    np.testing.assert_allclose(state.base_quaternion[0], NOSE_DOWN, atol=1e-7)  # the axes are 3° off the link's
    np.testing.assert_allclose(state.base_linear_velocity[0], (0.0, 0.0, 0.5), atol=1e-7)


# --- contacts, pushes, parameters -------------------------------------------------------------------------------------


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


# --- repeatability ----------------------------------------------------------------------------------------------------


def test_rollouts_repeat_whatever_happened_before_the_reset(make: Make) -> None:
    """Resets amid old contact points: without care PyBullet starts from their old impulses."""
    backend = make()
    begin = start(position=(0.0, 0.0, 0.50))
    backend.reset(begin)
    fresh = rollout(backend, 40, seed=0)
    assert fresh[:, 0, -17:].any()
    for seed in range(1, 9):
        backend.reset(begin)
        rollout(backend, 2 * seed, seed, size=0.02 * (seed - 1))
        backend.reset(begin)
        np.testing.assert_array_equal(rollout(backend, 40, seed=0), fresh)


def test_envs_do_not_depend_on_each_other(make: Make) -> None:
    alone, many = make(1), make(3)
    expected = rollout(alone, 20, seed=3)
    commands = np.random.default_rng(9).uniform(-1.0, 1.0, (20, 3, 12))
    generator = np.random.default_rng(3)
    for step in range(20):
        commands[step, 1] = generator.uniform(-0.4, 0.4, 12)
        many.advance(many.nominal_pose + commands[step])
        np.testing.assert_array_equal(np.concatenate(many.state(), axis=1)[1], expected[step, 0])


def eventful_run(backend: BulletRobotBackend) -> Array:
    """Resets, pushes, parameters, gains and a robot that goes NaN."""
    path = [rollout(backend, 8, seed=0)]
    backend.set_parameters(
        RobotParameters(friction=np.array([0.3, 0.9]), command_delay=np.array([4, 1])), np.array([0, 4])
    )
    backend.push(np.array([[0.0, 0.5, 0.1], [0.3, -0.5, 0.0]]), np.array([2, 4]))
    path.append(rollout(backend, 8, seed=1))
    backend.reset(start(2, velocity=(0.1, 0.0, 0.0)), np.array([1, 3]))
    backend.set_gains(np.full((1, 12), 40.0), np.full((1, 12), 1.5), np.array([3]))
    path.append(rollout(backend, 8, seed=2))
    targets = np.tile(NOMINAL_POSE, (5, 1))
    targets[2, 4] = np.nan
    backend.advance(targets)
    path.append(rollout(backend, 2, seed=3))
    backend.reset(start(), np.array([2]))
    path.append(rollout(backend, 8, seed=4))
    return np.concatenate(path)


def test_workers_give_the_same_bits(make: Make) -> None:
    here, there = eventful_run(make(5, workers=0)), eventful_run(make(5, workers=2))
    assert np.isnan(here).any()
    assert not np.isnan(here[-8:]).any()
    np.testing.assert_array_equal(here, there)


def test_default_number_of_workers(make: Make) -> None:
    assert make(3, workers=None).workers == 0
    assert make(4, workers=None).workers == min(4, len(os.sched_getaffinity(0)))


# --- numbers that are not finite --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", ["command", "physics"])
def test_a_robot_that_is_not_finite_is_alone_and_recovers(make: Make, cause: str) -> None:
    backend, witness = make(3), make(3)
    for robots in (backend, witness):
        robots.set_parameters(RobotParameters(base_mass_offset=np.array([3.0])), np.array([1]))
        hold(robots, 5)
    targets = np.tile(NOMINAL_POSE, (3, 1))
    if cause == "command":
        targets[1, 7] = np.nan
    else:
        backend.push(np.array([[1e300, 1e300, 0.0]]), np.array([1]))
    backend.advance(targets)
    hold(backend, 4)
    hold(witness, 5)
    for values, expected in zip(backend.state(), witness.state(), strict=True):
        assert np.isnan(values[1]).all()
        np.testing.assert_array_equal(values[[0, 2]], expected[[0, 2]])
    for robots in (backend, witness):
        robots.reset(start(), np.array([1]))
        hold(robots, 20)
    for values, expected in zip(backend.state(), witness.state(), strict=True):
        np.testing.assert_array_equal(values, expected)
    assert backend.state().contact_forces[1].any()


# --- worker processes -------------------------------------------------------------------------------------------------


def test_a_killed_worker_is_reported_at_once_and_nothing_stays(make: Make) -> None:
    backend = make(4, workers=2)
    hold(backend, 1)
    pids = backend._batch.pids  # type: ignore[union-attr]
    os.kill(pids[1], signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(BackendError, match=r"exit code -9 \(SIGKILL\).*make a new one"):
        hold(backend, 3)
    assert time.monotonic() - begin < 5.0
    assert not any(map(running, pids))
    with pytest.raises(BackendError, match="closed"):
        hold(backend, 1)


def test_close_twice_leaves_no_process_and_no_name_in_shared_memory() -> None:
    backend = BulletRobotBackend(4, workers=2)
    pids = backend._batch.pids  # type: ignore[union-attr]
    assert all(map(running, pids))
    folder = Path("/dev/shm")
    assert not [path for path in folder.iterdir() if str(os.getpid()) in path.name] if folder.is_dir() else True
    backend.close()
    backend.close()
    assert not any(map(running, pids))
    with pytest.raises(BackendError, match="closed"):
        backend.reset(start(4))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_forgotten_backend_cleans_up(workers: int) -> None:
    def clients() -> int:
        return sum(pybullet.isConnected(client) for client in range(1024))

    before = clients()
    backend = BulletRobotBackend(2, workers=workers)
    pids = backend._batch.pids if workers else []  # type: ignore[union-attr]
    backend.render()
    assert clients() > before
    del backend
    gc.collect()
    assert clients() == before
    assert not any(map(running, pids))


def test_a_failing_constructor_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from adc_wrappers.backends.bullet_robot import workers

    started: list[int] = []
    monkeypatch.setattr(
        workers,
        "_answer",
        lambda worker: started.append(worker.process.pid) or "it did not start",  # type: ignore[func-returns-value]
    )
    with pytest.raises(BackendError, match="it did not start"):
        BulletRobotBackend(2, workers=2)
    assert started
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not set(map(str, started)) & {pid for pid in children if running(int(pid))}


def test_a_worker_hands_its_error_to_the_caller(tmp_path: Path) -> None:
    model = tmp_path / "spot.urdf"
    model.write_text(spot_urdf())
    backend = BulletRobotBackend(2, workers=1, model=model)
    model.unlink()
    targets = np.tile(NOMINAL_POSE, (2, 1))
    targets[1] = np.nan
    backend.advance(targets)
    backend.reset(start(), np.array([1]))  # builds the world anew, from a file that is gone
    with pytest.raises(BackendError, match="which is no file"):
        hold(backend, 1)


def test_an_interrupted_step_is_waited_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from adc_wrappers.backends.bullet_robot import workers

    backend, witness = make(2, workers=2), make(2)
    answer = workers._answer
    with monkeypatch.context() as patch:
        patch.setattr(workers, "_answer", lambda worker: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            hold(backend, 1)
    assert workers._answer is answer
    hold(witness, 1)
    np.testing.assert_array_equal(rollout(backend, 3, seed=0), rollout(witness, 3, seed=0))


def run_script(folder: Path, body: str) -> subprocess.Popen[str]:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(body))
    return subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    script = run_script(
        tmp_path,
        """
        from adc_wrappers.backends.bullet_robot import BulletRobotBackend
        backend = BulletRobotBackend(2, workers=2)
        print("workers:", *backend._batch.pids)
        """,
    )
    out, err = script.communicate(timeout=60)
    assert script.returncode == 0, err
    assert out.count("workers:") == 1
    assert "leaked" not in err
    pids = [int(pid) for pid in out.split("workers:")[1].split("\n")[0].split()]
    assert wait_until(lambda: not any(map(running, pids)))


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = run_script(
        tmp_path,
        """
        import time
        from adc_wrappers.backends.bullet_robot import BulletRobotBackend
        backend = BulletRobotBackend(2, workers=2)
        print("workers:", *backend._batch.pids, flush=True)
        time.sleep(60)
        """,
    )
    assert script.stdout is not None
    line = next(line for line in script.stdout if "workers:" in line)
    pids = [int(pid) for pid in line.split("workers:")[1].split()]
    assert all(map(running, pids))
    script.kill()
    script.wait()
    assert wait_until(lambda: not any(map(running, pids)))


# --- pictures ---------------------------------------------------------------------------------------------------------


def yellow(picture: NDArray[np.uint8]) -> NDArray[np.bool_]:
    red, green, blue = np.moveaxis(picture.astype(int), 2, 0)
    return np.asarray((red > 120) & (green > 80) & (blue < 60) & (red > green))


def test_a_picture_shows_the_robot_and_follows_it(make: Make) -> None:
    backend = make(2)
    backend.reset(start(position=(30.0, -17.0, HEIGHT)), np.array([1]))
    for env in (0, 1):
        picture = backend.render(env)
        assert picture.shape == (400, 640, 3)
        assert picture.dtype == np.uint8
        assert 2_000 < yellow(picture).sum() < 60_000
        rows, columns = np.nonzero(yellow(picture))
        assert abs(columns.mean() - 320) < 80
        assert abs(rows.mean() - 200) < 80


def test_a_picture_shows_the_pose_and_does_not_disturb_the_physics(make: Make) -> None:
    backend, witness = make(), make()
    level = backend.render()
    rollout(backend, 5, seed=0)
    backend.render()
    np.testing.assert_array_equal(rollout(backend, 5, seed=1), rollout_after(witness))
    backend.reset(start(position=(0.0, 0.0, 0.8), quaternion=NOSE_DOWN))
    upended = backend.render()
    height, width = (np.ptp(axis) for axis in np.nonzero(yellow(upended)))
    assert height > width
    assert np.ptp(np.nonzero(yellow(level))[1]) > np.ptp(np.nonzero(yellow(level))[0])


def rollout_after(witness: RobotBackend) -> Array:
    rollout(witness, 5, seed=0)
    return rollout(witness, 5, seed=1)


# --- models and settings ----------------------------------------------------------------------------------------------


def test_a_users_urdf_by_text_and_by_path(make: Make, tmp_path: Path) -> None:
    heavy = spot_urdf().replace('<mass value="16.70765207"', '<mass value="26.70765207"', 1)
    assert heavy != spot_urdf()
    path = tmp_path / "heavy.urdf"
    path.write_text(heavy)
    rollouts = [rollout(make(model=model), 10, seed=0) for model in (heavy, path, str(path), None)]
    np.testing.assert_array_equal(rollouts[0], rollouts[1])
    np.testing.assert_array_equal(rollouts[0], rollouts[2])
    assert not np.array_equal(rollouts[0], rollouts[3])


def test_unusable_models_say_what_is_missing(tmp_path: Path) -> None:
    renamed = spot_urdf().replace('"fl_kn"', '"left_front_knee"')
    loose = spot_urdf().replace('name="fl_ankle" type="fixed"', 'name="fl_ankle" type="continuous"')
    for model, message in (
        (renamed, "lacks the moving joints fl_kn; it has .*left_front_knee"),
        (loose, "further moving joints.*fl_ankle"),
        (tmp_path / "none.urdf", "which is no file"),
        ("<robot", "cannot load the given URDF text"),
    ):
        with pytest.raises(BackendError, match=message):
            BulletRobotBackend(1, model=model)


def test_bad_settings_and_inputs_are_refused(make: Make) -> None:
    for settings in ({"decimation": 0}, {"physics_step": 0.0}, {"physics_step": math.nan}, {"workers": -1}):
        with pytest.raises(BackendError, match="expected"):
            BulletRobotBackend(1, **settings)
    with pytest.raises(BackendError, match="num_envs"):
        BulletRobotBackend(0)
    backend = make(2)
    one = np.array([0])
    calls: list[tuple[str, Callable[[], None]]] = [
        ("targets: expected shape", lambda: backend.advance(np.zeros((1, 12)))),
        ("env_ids", lambda: backend.push(np.zeros((1, 3)), np.array([2]))),
        ("env_ids", lambda: backend.push(np.zeros((1, 3)), np.array([-1]))),
        ("velocity_change", lambda: backend.push(np.zeros((2, 3)), one)),
        ("stiffness", lambda: backend.set_gains(np.full((2, 12), -1.0), np.ones((2, 12)))),
        ("damping", lambda: backend.set_gains(np.ones((2, 12)), np.full((2, 12), np.nan))),
        ("unit length", lambda: backend.reset(start(quaternion=(2.0, 0.0, 0.0, 0.0)), one)),
        ("joint_positions", lambda: backend.reset(start(joints=[np.nan] * 12), one)),
        ("friction", lambda: backend.set_parameters(RobotParameters(friction=np.array([-0.1])), one)),
        ("base_mass", lambda: backend.set_parameters(RobotParameters(base_mass_offset=np.array([-20.0])), one)),
        ("whole", lambda: backend.set_parameters(RobotParameters(command_delay=np.array([1.5])), one)),
    ]
    for message, call in calls:
        with pytest.raises(BackendError, match=message):
            call()
    assert (backend.gains().stiffness == 60.0).all()
    backend.reset(start(0), NO_ENVS)
    hold(backend, 1)


def test_without_pybullet_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pybullet", None)
    with pytest.raises(MissingExtraError, match=r"adc-wrappers\[pybullet\]"):
        BulletRobotBackend(1)
