"""The Isaac Lab backend against fakes of 2.x; what runs on Isaac Lab 3 itself is in the other test_isaaclab files."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fakes_isaaclab2 import (
    ActuatorNetMLP,
    FakeArticulation,
    FakeIsaacEnv,
    IdealPDActuator,
    ImplicitActuator,
    randomize_actuator_gains,
)

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig
from adc_wrappers.backends.isaaclab import IsaacLabBackend, randomize_gain_factors
from adc_wrappers.core.actuators import to_numpy
from adc_wrappers.core.errors import BackendError
from adc_wrappers.testing import check_backend

INERTIA = [0.2, 0.3, 0.25]
ARMATURE = 0.05
CONFIG = CurriculumConfig(start_stiffness=60.0, target_stiffness=40.0, length_max=900)


def robot_with(groups, floating=True, num_envs=4):
    robot = FakeArticulation(num_envs, INERTIA, ARMATURE, floating)
    for name, (kind, joints, stiffness) in groups.items():
        robot.add(name, kind, joints, stiffness)
    return robot


MIXED = {"hips": (IdealPDActuator, [2, 0], 60.0), "knees": (ImplicitActuator, [1], 60.0)}
LAYOUTS = {
    "explicit": {"all": (IdealPDActuator, [0, 1, 2], 60.0)},
    "implicit": {"all": (ImplicitActuator, [0, 1, 2], 60.0)},
    "aliased": {"all": (IdealPDActuator, [0, 1, 2], None)},
    "aliased implicit": {"all": (ImplicitActuator, [0, 1, 2], None)},
    "mixed": MIXED,
}


class Probe:
    def __init__(self, env, backend):
        self.env, self.backend = env, backend
        self.robot = env.scene.articulations["robot"]
        self.time_step = env.physics_dt * env.decimation

    def rest(self):
        self.env.reset()
        return self.robot.data.joint_pos.double().numpy().copy()

    def move(self, targets):
        self.env.step(torch.as_tensor(targets, dtype=torch.float32))
        return self.robot.data.joint_pos.double().numpy().copy()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gains_are_proven_by_motion(layout):
    env = FakeIsaacEnv(robot_with(LAYOUTS[layout]))
    backend = IsaacLabBackend(env)
    assert check_backend(Probe(env, backend), (30.0, 60.0), tolerance=0.03) > 0


def test_explicit_groups_never_get_a_second_loop_and_implicit_ones_no_stale_tensor():
    robot = robot_with(MIXED)
    env = ActuatorCurriculumWrapper(FakeIsaacEnv(robot), CONFIG, backend=IsaacLabBackend)
    view = robot.root_physx_view
    assert view.stiffness[:, [0, 2]].eq(0).all() and view.stiffness[:, 1].eq(60).all()
    robot.write_joint_stiffness_to_sim(40.0, torch.tensor([0]))
    with pytest.raises(BackendError, match="'j0' should be 60 and reads 100"):
        env.adc.verify()
    robot.write_joint_stiffness_to_sim(0.0, torch.tensor([0]))
    env.adc.verify()
    robot.actuators["knees"].stiffness[1, 0] = 50.0  # telemetry no longer tells the truth
    with pytest.raises(BackendError, match="'j1' should be 60 and reads nan"):
        env.adc.verify()


def test_the_defaults_stay_as_they_are():
    """A gain left out of the config is the defaults' own tensor: writing to it would move the baseline."""
    robot = robot_with(LAYOUTS["aliased"])
    assert robot.actuators["all"].stiffness is robot.data.default_joint_stiffness
    backend = IsaacLabBackend(FakeIsaacEnv(robot))
    backend.set_gains(np.full((4, 3), 40.0), np.full((4, 3), 2.0))
    assert robot.data.default_joint_stiffness.eq(60.0).all()
    assert robot.actuators["all"].stiffness.eq(40.0).all()


@pytest.mark.parametrize("floating", [True, False])
def test_effective_inertia_skips_the_base_and_adds_armature(floating):
    robot = robot_with(MIXED, floating)
    robot.data.joint_pos[:] = 0.7
    backend = IsaacLabBackend(FakeIsaacEnv(robot))
    np.testing.assert_allclose(backend.effective_inertia(), np.array(INERTIA) + ARMATURE, rtol=1e-6)
    assert robot.data.joint_pos.eq(0.7).all()


def test_joints_are_in_the_robots_order():
    robot = robot_with(MIXED)
    backend = IsaacLabBackend(FakeIsaacEnv(robot))
    assert backend.joint_names == ("j0", "j1", "j2")
    stiffness = np.tile([10.0, 20.0, 30.0], (4, 1))
    backend.set_gains(stiffness, stiffness / 10)
    assert robot.actuators["hips"].stiffness[0].tolist() == [30.0, 10.0]
    assert robot.root_physx_view.stiffness[0].tolist() == [0.0, 20.0, 0.0]
    np.testing.assert_allclose(to_numpy(backend.gains().stiffness), stiffness)


def test_writes_work_inside_and_outside_inference_mode():
    robot = robot_with(MIXED)
    tensor = robot.actuators["hips"].stiffness
    backend = IsaacLabBackend(FakeIsaacEnv(robot))
    with torch.inference_mode():
        backend.set_gains(np.full((4, 3), 50.0), np.full((4, 3), 2.0))
        assert to_numpy(backend.gains().stiffness).tolist() == [[50.0] * 3] * 4
    backend.set_gains(torch.full((2, 3), 45.0), torch.full((2, 3), 2.0), np.array([1, 3]))
    assert robot.actuators["hips"].stiffness is tensor  # in place
    assert not tensor.is_inference()
    assert tensor[:, 0].tolist() == [50.0, 45.0, 50.0, 45.0]


def test_a_tensor_made_under_inference_mode_is_written_too():
    with torch.inference_mode():
        robot = robot_with(MIXED)
        env = FakeIsaacEnv(robot)
    backend = IsaacLabBackend(env)
    backend.set_gains(np.full((4, 3), 50.0), np.full((4, 3), 2.0))
    assert robot.actuators["hips"].stiffness.eq(50.0).all()


def event(mode, robot):
    return {"gains": (mode, randomize_actuator_gains(robot, 0.5), {})}


@pytest.mark.parametrize("mode", ["reset", "interval"])
def test_randomized_gains_are_refused_with_the_way_to_combine(mode):
    robot = robot_with(MIXED)
    with pytest.raises(BackendError, match=r"'gains'.*overwrite.*randomize_gain_factors"):
        IsaacLabBackend(FakeIsaacEnv(robot, events=event(mode, robot)))


def test_the_refusal_is_right_such_an_event_overwrites_the_curriculum():
    robot = robot_with(LAYOUTS["explicit"])
    env = FakeIsaacEnv(robot)
    wrapped = ActuatorCurriculumWrapper(env, CONFIG, backend=IsaacLabBackend)
    randomize_actuator_gains(robot, 0.5)(env, torch.arange(2))
    with pytest.raises(BackendError, match="changed behind"):
        wrapped.adc.verify()


def test_a_startup_event_is_lost_and_said_so():
    robot = robot_with(MIXED)
    with pytest.warns(UserWarning, match="no effect"):
        IsaacLabBackend(FakeIsaacEnv(robot, events=event("startup", robot)))


def test_an_event_for_another_robot_is_none_of_our_business():
    from types import SimpleNamespace

    robot = robot_with(MIXED)
    events = {"gains": ("reset", randomize_actuator_gains(robot, 0.5), {"asset_cfg": SimpleNamespace(name="arm")})}
    IsaacLabBackend(FakeIsaacEnv(robot, events=events))


def test_a_factor_per_env_combines_with_the_curriculum():
    robot = robot_with(MIXED)
    params = {"stiffness_range": (0.5, 2.0), "damping_range": (0.9, 1.1)}
    env = FakeIsaacEnv(robot, episode=3, events={"factors": ("reset", randomize_gain_factors, params)})
    wrapped = ActuatorCurriculumWrapper(env, CONFIG, backend=IsaacLabBackend, iteration_steps=2)
    wrapped.reset()
    first = robot.actuators["hips"].stiffness.clone()
    assert ((first > 29.9) & (first < 120.1)).all() and first.std() > 1
    for _ in range(8):
        wrapped.step(torch.zeros(4, 3))  # verifies at every iteration
    assert not torch.equal(robot.actuators["hips"].stiffness, first)
    np.testing.assert_allclose(to_numpy(wrapped.adc.backend.gains().stiffness), wrapped.adc.stiffness, rtol=1e-5)


def test_a_factor_drawn_at_startup_is_not_lost():
    """Isaac Lab has its startup events behind it before anybody can wrap the env."""
    robot = robot_with(MIXED)
    params = {"stiffness_range": (0.5, 2.0)}
    env = FakeIsaacEnv(robot, events={"factors": ("startup", randomize_gain_factors, params)})
    env.event_manager.apply(env, "startup", None)
    assert robot.actuators["hips"].stiffness.eq(60.0).all()
    wrapped = ActuatorCurriculumWrapper(env, CONFIG, backend=IsaacLabBackend)
    wrapped.reset()
    live = robot.actuators["hips"].stiffness
    assert ((live > 29.9) & (live < 120.1)).all() and live.std() > 1
    np.testing.assert_allclose(robot.actuators["hips"].damping, wrapped.adc._damping[:, [2, 0]], rtol=1e-5)
    wrapped.adc.verify()


def test_factors_before_the_first_gains_multiply_what_is_live():
    robot = robot_with(MIXED)
    env = FakeIsaacEnv(robot)
    backend = IsaacLabBackend(env)
    randomize_gain_factors(env, torch.tensor([1, 2]), stiffness_range=(2.0, 2.0))
    assert robot.actuators["hips"].stiffness[:, 0].tolist() == [60.0, 120.0, 120.0, 60.0]
    assert robot.root_physx_view.stiffness[:, 1].tolist() == [60.0, 120.0, 120.0, 60.0]
    assert robot.actuators["hips"].damping.eq(1.5).all()
    np.testing.assert_allclose(to_numpy(backend.gains().stiffness), 60.0)


@pytest.mark.parametrize("joints", [[1], torch.tensor([1])])
def test_a_gain_event_on_joints_outside_the_groups_may_stay(joints):
    from types import SimpleNamespace

    robot = robot_with(MIXED)
    entity = SimpleNamespace(name="robot", joint_ids=joints)
    events = {"gains": ("reset", randomize_actuator_gains(robot, 0.5), {"asset_cfg": entity})}
    assert IsaacLabBackend(FakeIsaacEnv(robot, events=events), groups=["hips"]).joint_names == ("j0", "j2")
    with pytest.raises(BackendError, match="'gains'"):
        IsaacLabBackend(FakeIsaacEnv(robot, events=events), groups=["knees"])
    entity.joint_ids = slice(None)
    with pytest.raises(BackendError, match="'gains'"):
        IsaacLabBackend(FakeIsaacEnv(robot, events=events), groups=["hips"])


class LazyData:
    """Isaac Lab 2: the tensors of a state are made when they are first asked for, and kept."""

    def __init__(self, data):
        self._data, self._made = data, {}

    def __getattr__(self, name):
        if name not in ("joint_pos", "joint_vel"):
            return getattr(self._data, name)
        return self._made.setdefault(name, torch.zeros_like(getattr(self._data, name)))


@pytest.mark.parametrize("inside", [False, True])
def test_the_state_of_a_robot_is_not_first_read_under_inference_mode(inside):
    robot = robot_with(MIXED)
    robot.data = LazyData(robot.data)
    env = FakeIsaacEnv.__new__(FakeIsaacEnv)
    FakeIsaacEnv.__init__(env, robot_with(MIXED))
    env.scene.articulations["robot"] = robot
    with torch.inference_mode(inside):
        IsaacLabBackend(env)
    assert not robot.data.joint_pos.is_inference()
    robot.write_joint_state_to_sim(0.1, 0.0, None, torch.arange(2))  # what a reset outside of it does


def test_joints_come_in_the_order_that_is_asked_for():
    robot = robot_with(MIXED)
    backend = IsaacLabBackend(FakeIsaacEnv(robot), joint_names=("j2", "j0", "j1"))
    assert backend.joint_names == ("j2", "j0", "j1")
    np.testing.assert_allclose(backend.effective_inertia(), np.array([0.25, 0.2, 0.3]) + ARMATURE, rtol=1e-6)
    stiffness = np.tile([30.0, 10.0, 20.0], (4, 1))
    backend.set_gains(stiffness, stiffness / 10)
    assert robot.actuators["hips"].stiffness[0].tolist() == [30.0, 10.0]
    assert robot.root_physx_view.stiffness[0].tolist() == [0.0, 20.0, 0.0]
    np.testing.assert_allclose(to_numpy(backend.gains().stiffness), stiffness)
    with pytest.raises(BackendError, match="joint_names: expected"):
        IsaacLabBackend(FakeIsaacEnv(robot), joint_names=("j2", "j0"))


@pytest.mark.parametrize("limits", [(0.0, 1.0), (2.0, 1.0), (-1.0, 1.0)])
def test_factors_are_positive(limits):
    backend = IsaacLabBackend(FakeIsaacEnv(robot_with(MIXED)))
    with pytest.raises(BackendError, match="positive factors"):
        backend.draw_factors(None, limits)


def test_what_cannot_be_controlled_is_refused_or_left_out():
    robot = robot_with({**MIXED})
    robot.add("net", ActuatorNetMLP, [0])
    with pytest.raises(BackendError, match=r"'net'.*has no stiffness"):
        IsaacLabBackend(FakeIsaacEnv(robot))
    assert IsaacLabBackend(FakeIsaacEnv(robot), groups=["knees"]).joint_names == ("j1",)
    torque = robot_with({"all": (IdealPDActuator, [0, 1, 2], 0.0)})
    with pytest.raises(BackendError, match="stiffness of zero"):
        IsaacLabBackend(FakeIsaacEnv(torque))


def test_mistakes_name_what_is_there():
    env = FakeIsaacEnv(robot_with(MIXED))
    with pytest.raises(BackendError, match="Did you mean 'robot'"):
        IsaacLabBackend(env, asset="robt")
    with pytest.raises(BackendError, match="Did you mean 'hips'"):
        IsaacLabBackend(env, groups=["hip"])
    backend = IsaacLabBackend(env)
    with pytest.raises(BackendError, match=r"stiffness: expected shape \(4, 3\)"):
        backend.set_gains(np.ones((4, 2)), np.ones((4, 3)))


def test_random_episode_lengths_do_not_reach_the_average():
    """RSL-RL overwrites the env's clocks at the start of training: what is cut short by that does not count."""
    robot = robot_with(LAYOUTS["explicit"])
    env = ActuatorCurriculumWrapper(FakeIsaacEnv(robot, episode=20), CONFIG, backend=IsaacLabBackend)
    env.reset()
    env.unwrapped.episode_length_buf = torch.tensor([19, 15, 10, 0])
    for _ in range(20):
        *_, extras = env.step(torch.zeros(4, 3))
    assert extras["log"]["adc/stiffness"] == 60.0
    totals = env._counter.collect()
    assert (totals.episodes, totals.length_sum) == (1, 20)
    for _ in range(20):
        env.step(torch.zeros(4, 3))
    totals = env._counter.collect()
    assert (totals.episodes, totals.length_sum) == (4, 80)  # those that follow are whole
    env.watch_clocks()  # as before another call of learn()
    env.unwrapped.episode_length_buf = torch.tensor([19, 5, 0, 0])
    for _ in range(41):
        env.step(torch.zeros(4, 3))
    totals = env._counter.collect()
    # clocks 1 and 2 stood elsewhere: what ran there is left out; whole ones end after 1, 21, 41; 35; 40; 20, 40 steps
    assert (totals.episodes, totals.length_sum) == (7, 7 * 20)


def test_unstable_gains_are_refused_before_they_are_written():
    robot = FakeArticulation(2, [1e-5])
    robot.add("all", IdealPDActuator, [0])
    with pytest.raises(ValueError, match="unstable at an explicit physics step"):
        ActuatorCurriculumWrapper(FakeIsaacEnv(robot), CONFIG, backend=IsaacLabBackend)
    soft = FakeArticulation(2, [1e-5])
    soft.add("all", ImplicitActuator, [0])
    ActuatorCurriculumWrapper(FakeIsaacEnv(soft), CONFIG, backend=IsaacLabBackend)
