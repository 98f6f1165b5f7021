"""Spot in its plane of symmetry: held to the Spot that it is made from."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from adc_wrappers import ActuatorCurriculumVectorWrapper, make_env
from adc_wrappers.backends.base import RobotParameters, RobotStart
from adc_wrappers.backends.bullet_robot import BulletRobotBackend
from adc_wrappers.backends.mujoco_robot import MujocoRobotBackend
from adc_wrappers.backends.spot_model import (
    PLANAR_SPOT,
    SPOT,
    foot_positions,
    knee_torque_limit,
    planar_spot,
    spot_mjcf,
    standing_height,
)
from adc_wrappers.backends.spot_model.inertia import effective_inertia
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.core.errors import BackendError
from adc_wrappers.envs.spot.body import PLANAR, SPATIAL
from adc_wrappers.envs.spot.terms import in_stance
from adc_wrappers.testing import check_backend

LEFT, RIGHT, SIDEWAYS = [1, 2, 7, 8], [4, 5, 10, 11], [0, 3, 6, 9]
POSE = np.array(PLANAR_SPOT.nominal_pose)
STEPS = 25  # half a second


def in_space(values: np.ndarray) -> np.ndarray:
    """The twelve joints of a Spot whose left and right are alike and whose legs hang straight."""
    joints = np.zeros(12)
    joints[LEFT] = joints[RIGHT] = values
    return joints


def make(robot: Any, stiffness: float, **settings: Any) -> MujocoRobotBackend:
    backend = MujocoRobotBackend(1, robot=robot, nthread=1, **settings)
    k = np.full((1, len(backend.joint_names)), stiffness)
    if robot is SPOT:
        k[:, SIDEWAYS] = 1000.0  # the planar robot has no sideways joints: hold them
    backend.set_gains(k, damping_for(k, backend.effective_inertia()))
    return backend


def start(joints: np.ndarray, height: float, pitch: float = 0.0, forward: float = 0.0, rate: float = 0.0) -> RobotStart:
    return RobotStart(
        np.array([[0.0, 0.0, height]]),
        np.array([[np.cos(pitch / 2), 0.0, np.sin(pitch / 2), 0.0]]),
        np.array([[forward, 0.0, 0.0]]),
        np.array([[0.0, rate, 0.0]]),
        joints[None],
        np.zeros((1, len(joints))),
    )


def pitch_of(state: Any) -> float:
    return float(2.0 * np.arctan2(state.base_quaternion[0, 2], state.base_quaternion[0, 0]))


def paths(stiffness: float, seed: int, *, air: bool, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Four joints, pitch, x and z of the planar robot and of the other, after each policy step of half a second."""
    rng = np.random.default_rng(seed)
    planar, spatial = make(PLANAR_SPOT, stiffness), make(SPOT, stiffness)
    joints = POSE + rng.uniform(-0.2, 0.2, 4)
    height = 3.0 if air else standing_height(joints, PLANAR_SPOT)
    turn = {"pitch": rng.uniform(-0.5, 0.5), "rate": rng.uniform(-0.5, 0.5)} if air else {}
    forward = rng.uniform(-0.5, 0.5)
    planar.reset(start(joints, height, forward=forward, **turn))
    spatial.reset(start(in_space(joints), height, forward=forward, **turn))
    found: tuple[list[Any], list[Any]] = ([], [])
    for _ in range(STEPS):
        targets = POSE + reach * rng.uniform(-1.0, 1.0, 4)
        planar.advance(targets[None])
        spatial.advance(in_space(targets)[None])
        for path, state, chosen in zip(found, (planar.state(), spatial.state()), ([0, 1, 2, 3], LEFT), strict=True):
            place = state.base_position[0, [0, 2]]
            path.append([*state.joint_positions[0, chosen], pitch_of(state), *place])
    return np.array(found[0]), np.array(found[1])


# The model


def test_mass_and_effective_inertia_are_spots() -> None:
    assert PLANAR_SPOT.total_mass == pytest.approx(SPOT.total_mass, rel=1e-12)
    np.testing.assert_allclose(effective_inertia(robot=PLANAR_SPOT), effective_inertia()[LEFT], rtol=1e-12)
    np.testing.assert_allclose(
        MujocoRobotBackend(1, robot=PLANAR_SPOT).effective_inertia(), effective_inertia(robot=PLANAR_SPOT), rtol=1e-9
    )


def test_a_table_that_changes_changes_the_planar_robot() -> None:
    heavy = tuple(
        dataclasses.replace(link, mass=link.mass + 1.0) if link.name.endswith("_lleg") else link for link in SPOT.links
    )
    assert planar_spot(dataclasses.replace(SPOT, links=heavy)).total_mass == pytest.approx(SPOT.total_mass + 4.0)


def test_a_robot_that_is_not_symmetric_is_refused() -> None:
    lame = tuple(dataclasses.replace(link, mass=0.5) if link.name == "hr_lleg" else link for link in SPOT.links)
    with pytest.raises(ValueError, match="hl_lleg and hr_lleg differ"):
        planar_spot(dataclasses.replace(SPOT, links=lame))


def test_feet_are_where_those_of_straight_legs_are() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        joints = POSE + rng.uniform(-0.5, 0.5, 4)
        planar, spatial = foot_positions(joints, PLANAR_SPOT), foot_positions(in_space(joints))
        np.testing.assert_allclose(planar[:, [0, 2]], spatial[[0, 2]][:, [0, 2]], atol=1e-12)
        np.testing.assert_allclose(PLANAR.feet_in_body(joints[None])[0], planar, atol=1e-12)
        np.testing.assert_allclose(SPATIAL.feet_in_body(in_space(joints)[None])[0], spatial, atol=1e-12)


# Motion


@pytest.mark.parametrize("stiffness", [40.0, 60.0])
def test_in_the_air_it_moves_as_spot_does(stiffness: float) -> None:
    """Within 1 % of how far joints, pitch and base go in half a second; the rest is the sideways joints giving way."""
    pairs = [paths(stiffness, seed, air=True, reach=0.2) for seed in range(4)]
    off = np.max([np.abs(one - two).max(axis=0) for one, two in pairs], axis=0)
    travel = np.max([np.ptp(two, axis=0) for _, two in pairs], axis=0)
    assert (off <= 0.01 * np.concatenate((np.full(4, travel[:4].max()), travel[4:]))).all()


def test_on_the_ground_it_moves_as_spot_does() -> None:
    """Within 0.01 rad and 2 mm after half a second of targets within 0.2 rad at K = 40."""
    for seed in range(4):
        one, two = paths(40.0, seed, air=False, reach=0.2)
        assert np.abs(one - two)[:, :5].max() < 0.01
        assert np.abs(one - two)[:, 5:].max() < 0.002


def test_its_weight_is_too_much_for_soft_joints_and_not_for_stiff_ones() -> None:
    """What makes the task narrow: a zero action falls at K_* and stands at K_0."""
    for stiffness, falls in ((40.0, True), (60.0, False)):
        backend = make(PLANAR_SPOT, stiffness)
        backend.reset(start(POSE, standing_height(POSE, PLANAR_SPOT)))
        links = [list(backend.link_names).index(name) for name in ("body", "f_uleg", "h_uleg")]
        fallen = False
        for _ in range(200):
            backend.advance(POSE[None])
            fallen |= bool((backend.state().contact_forces[0, links] > 1.0).any())
        assert fallen == falls


# The backend


class Probe:
    """One joint of a planar robot on a stand without gravity; the others carry so much rotor inertia that they rest."""

    def __init__(self, joint: int) -> None:
        name = PLANAR_SPOT.joint_names[joint]
        joints = tuple(
            spec if spec.axis is None or spec.name == name else dataclasses.replace(spec, armature=1e3)
            for spec in PLANAR_SPOT.joints
        )
        self.backend: Any = MujocoRobotBackend(
            3, robot=PLANAR_SPOT, model=spot_mjcf(dataclasses.replace(PLANAR_SPOT, joints=joints)),
            physics_step=2.5e-4, decimation=8, fixed_base=True, gravity=False,
        )  # fmt: skip
        self.time_step = self.backend.policy_step

    def rest(self) -> np.ndarray:
        one = start(POSE, 1.0)
        self.backend.reset(RobotStart(*(np.repeat(part, 3, axis=0) for part in one)))
        return np.array(self.backend.state().joint_positions)

    def move(self, targets: np.ndarray) -> np.ndarray:
        self.backend.advance(targets)
        return np.array(self.backend.state().joint_positions)


@pytest.mark.parametrize("joint", range(4), ids=PLANAR_SPOT.joint_names)
def test_joints_move_as_the_gains_of_one_leg_say(joint: int) -> None:
    assert check_backend(Probe(joint), (20.0, 60.0), joints=(joint,)) < 0.01


def test_torques_are_those_of_one_leg_and_end_at_its_limits() -> None:
    backend = make(PLANAR_SPOT, 60.0)
    backend.reset(start(POSE, 3.0))
    backend.advance(POSE[None] + [[2.0, 3.0, -2.0, -3.0]])
    torque = np.abs(backend.state().joint_torques[0])
    assert (torque[[0, 2]] <= 45.0 + 1e-9).all()
    assert (torque[[1, 3]] <= knee_torque_limit(backend.state().joint_positions[0, [1, 3]]) + 5.0).all()
    first = make(PLANAR_SPOT, 60.0, decimation=1)
    first.reset(start(POSE, 3.0))
    first.advance(POSE[None] + [[2.0, 3.0, 0.1, 0.0]])
    expected = [45.0, float(knee_torque_limit(POSE[1])), 6.0, 0.0]
    np.testing.assert_allclose(first.state().joint_torques[0], expected, atol=1e-9)


def test_a_start_reads_back_and_one_outside_the_plane_is_refused() -> None:
    backend = make(PLANAR_SPOT, 40.0)
    begin = start(POSE, 2.0, pitch=0.7, forward=1.0, rate=0.3)
    backend.reset(begin)
    state = backend.state()
    np.testing.assert_allclose(state.base_quaternion, begin.base_quaternion, atol=1e-12)
    np.testing.assert_allclose(state.base_linear_velocity[0], [np.cos(0.7), 0.0, np.sin(0.7)], atol=1e-12)
    np.testing.assert_allclose(state.projected_gravity[0], [np.sin(0.7), 0.0, -np.cos(0.7)], atol=1e-12)
    backend.push(np.array([[0.5, 0.0, 0.25]]), np.array([0]))
    assert backend.state().base_linear_velocity[0, 0] == pytest.approx(1.5 * np.cos(0.7) - 0.25 * np.sin(0.7))
    sideways = begin._replace(base_linear_velocity=np.array([[0.0, 0.1, 0.0]]))
    with pytest.raises(BackendError, match="along x and z"):
        backend.reset(sideways)
    with pytest.raises(BackendError, match="sideways"):
        backend.push(np.array([[0.0, 0.5, 0.0]]), np.array([0]))


def test_a_broken_robot_reads_nan_and_is_whole_after_its_reset() -> None:
    backend = make(PLANAR_SPOT, 40.0)
    backend.reset(start(POSE, 1.0))
    backend.advance(np.full((1, 4), np.nan))
    assert all(np.isnan(values).all() for values in backend.state())
    backend.reset(start(POSE, 1.0))
    assert all(np.isfinite(values).all() for values in backend.state())
    assert backend.state().base_position[0].tolist() == [0.0, 0.0, 1.0]


def test_parameters_are_said_per_leg() -> None:
    """The same joint friction and armature slow one leg of either robot alike."""
    found = []
    for robot, joints in ((PLANAR_SPOT, POSE), (SPOT, in_space(POSE))):
        backend = make(robot, 40.0, fixed_base=True, gravity=False)
        count = len(backend.joint_names)
        for name, value in (("joint_viscous", 2.0), ("joint_coulomb", 1.0), ("joint_armature", 0.1)):
            backend.set_parameters(RobotParameters(**{name: np.full((1, count), value)}), np.array([0]))
        backend.reset(start(joints, 1.0))
        targets = POSE + np.array([0.3, -0.2, 0.1, 0.4])
        for _ in range(5):
            backend.advance((targets if robot is PLANAR_SPOT else in_space(targets))[None])
        found.append(backend.state().joint_positions[0, slice(None) if robot is PLANAR_SPOT else LEFT].copy())
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


# PyBullet


def bullet(num_envs: int = 1, **settings: Any) -> BulletRobotBackend:
    return BulletRobotBackend(num_envs, robot=PLANAR_SPOT, workers=0, **settings)


@pytest.mark.parametrize("air", [True, False], ids=["air", "ground"])
def test_both_engines_move_alike(air: bool) -> None:
    """Within 0.03 rad and 5 mm after half a second of targets within 0.2 rad."""
    rng = np.random.default_rng(1)
    robots = (bullet(), MujocoRobotBackend(1, robot=PLANAR_SPOT, nthread=1))
    joints = POSE + rng.uniform(-0.1, 0.1, 4)
    begin = start(joints, 3.0 if air else standing_height(joints, PLANAR_SPOT), forward=0.3)
    for robot in robots:
        k = np.full((1, 4), 40.0)
        robot.set_gains(k, damping_for(k, robot.effective_inertia()))
        robot.reset(begin)
    for _ in range(STEPS):
        targets = POSE[None] + 0.2 * rng.uniform(-1.0, 1.0, (1, 4))
        for robot in robots:
            robot.advance(targets)
        one, two = (robot.state() for robot in robots)
        assert np.abs(one.joint_positions - two.joint_positions).max() < 0.03
        assert np.abs(one.base_position - two.base_position).max() < 0.005
        assert np.abs(one.projected_gravity - two.projected_gravity).max() < 0.01
    robots[0].close()


class BulletProbe:
    """All joints of a planar robot on a stand without gravity, of which one is moved."""

    def __init__(self) -> None:
        self.backend: Any = bullet(3, fixed_base=True, gravity=0.0, physics_step=0.0005, decimation=8)
        self.time_step = self.backend.policy_step

    def rest(self) -> np.ndarray:
        self.backend.reset(RobotStart(*(np.repeat(part, 3, axis=0) for part in start(POSE, 2.0))))
        return np.array(self.backend.state().joint_positions)

    def move(self, targets: np.ndarray) -> np.ndarray:
        self.backend.advance(targets)
        return np.array(self.backend.state().joint_positions)


def test_a_knee_in_pybullet_moves_as_the_gains_of_one_leg_say() -> None:
    assert check_backend(BulletProbe(), (30.0, 60.0), joints=(1,), tolerance=0.05) > 0.0


def test_pybullet_refuses_what_leaves_the_plane_and_models_of_others() -> None:
    backend = bullet()
    with pytest.raises(BackendError, match="along x and z"):
        backend.reset(start(POSE, 1.0)._replace(base_position=np.array([[0.0, 0.1, 1.0]])))
    with pytest.raises(BackendError, match="sideways"):
        backend.push(np.array([[0.0, 0.5, 0.0]]), np.array([0]))
    backend.push(np.array([[0.5, 0.0, 0.0]]), np.array([0]))
    assert backend.state().base_linear_velocity[0, 0] == pytest.approx(0.5)
    backend.advance(POSE[None])
    assert backend.state().base_position[0, 0] > 0.004
    backend.close()
    with pytest.raises(BackendError, match="generated"):
        bullet(model="<robot/>")


# The task


@pytest.mark.parametrize("backend", ["mujoco", "pybullet"])
def test_checkers_of_gymnasium_and_sb3_pass(backend: str) -> None:
    env = gym.make("ADC/SpotPlanarHandstand-v0", backend=backend, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env)
        env.reset()
        sb3_check_env(env)
    env.close()


def test_a_planar_task_has_17_observations_4_actions_and_spots_stiffness() -> None:
    env = ActuatorCurriculumVectorWrapper(make_env("spot-planar-handstand", num_envs=3))
    observation, _ = env.reset(seed=0)
    assert observation.shape == (3, 17) and env.single_action_space.shape == (4,)
    np.testing.assert_allclose(env.unwrapped.actuator_backend.gains().stiffness, 60.0)
    layout = env.unwrapped.task.deployment().observation
    assert sum(part.size for part in layout) == 17
    assert [part.size for part in layout] == [2, 1, 2, 4, 4, 4]
    env.close()


def test_the_same_symmetric_state_has_the_same_reward_in_the_plane_and_in_space() -> None:
    """All terms that count joints count those of both legs of a pair."""
    tasks = {
        name: make_env(name, num_envs=1, preset="authors", randomize=False).unwrapped.task
        for name in ("spot-planar-handstand", "spot-handstand")
    }
    terms = {}
    actions = np.array([[0.3, -0.2, 0.1, 0.4]], dtype=np.float32)
    for name, task in tasks.items():
        planar = name == "spot-planar-handstand"
        task.begin(np.array([0]), np.random.default_rng(0))
        pose = POSE if planar else in_space(POSE)
        task.backend.reset(start(pose, 3.0))
        stiffness = np.full((1, len(task.backend.joint_names)), 40.0)
        task.backend.set_gains(stiffness, damping_for(stiffness, task.backend.effective_inertia()))
        offset = np.zeros(12) if planar else -task.backend.nominal_pose / task.action_scale
        chosen = actions if planar else in_space(actions[0])[None]
        if not planar:  # sideways joints straight: the nominal pose has them at 0.1 rad
            chosen = chosen.astype(np.float32)
            chosen[0, SIDEWAYS] = offset[SIDEWAYS]
            task._action[0, SIDEWAYS] = offset[SIDEWAYS]
        task.advance(chosen)
        terms[name] = {term: float(value[0]) for term, value in task.reward_terms().items()}
    assert set(terms["spot-handstand"]) == set(terms["spot-planar-handstand"])
    for term, value in terms["spot-handstand"].items():
        assert terms["spot-planar-handstand"][term] == pytest.approx(value, rel=0.01, abs=1e-6), term


def test_a_step_in_a_handstand_leaves_the_ground_in_the_plane_and_counts() -> None:
    """Both feet of a pair are one: without a foot on the ground the stance goes on, with a hind foot it does not."""
    task = make_env("spot-planar-handstand", num_envs=1, randomize=False).unwrapped.task
    links = list(task.backend.link_names)
    state = task.backend.state()
    found = {}
    for name in ("", "f_foot", "h_foot", "f_lleg"):
        forces = np.array([[50.0 if link == name else 0.0 for link in links]])
        gravity = np.array([[1.0, 0.0, 0.0]])
        there = state._replace(contact_forces=forces, projected_gravity=gravity)
        support = [links.index("f_foot")]
        found[name] = bool(in_stance(there, (1.0, 0.0, 0.0), support, PLANAR)[0])
        level = there._replace(projected_gravity=np.array([[0.0, 0.0, -1.0]]))
        assert not in_stance(level, (1.0, 0.0, 0.0), support, PLANAR)[0]
    assert found == {"": True, "f_foot": True, "h_foot": False, "f_lleg": False}
    assert not in_stance(state._replace(contact_forces=0.0 * forces, projected_gravity=gravity), (1.0, 0.0, 0.0), [3])[
        0
    ]
