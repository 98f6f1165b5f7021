"""Spot in PyBullet: the contract, the torque law, frames."""

from __future__ import annotations

import numpy as np
import pytest
from bullet_robot_helpers import FACING_LEFT, HALF, LEVEL, NOSE_DOWN, Array, Make, bullet_robots, hold, start, stiffen
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotParameters
from adc_wrappers.backends.pybullet import BulletRobotBackend
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, NOMINAL_POSE, knee_torque_limit, spot_urdf
from adc_wrappers.core.actuators import ActuatorBackend, Gains, check_backend_shape
from adc_wrappers.testing import ConformanceError, check_backend

make = pytest.fixture(bullet_robots)


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
    """One joint of robots whose bases are fixed in the air, without gravity."""

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
    from adc_wrappers.backends.pybullet import world
    from adc_wrappers.backends.pybullet.world import pd_torques

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
