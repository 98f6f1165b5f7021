"""Gymnasium's MuJoCo robots become position-controlled, with the torques they had, or are refused in a sentence."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

from adc_wrappers import ActuatorCurriculumWrapper, BackendError, CurriculumConfig
from adc_wrappers.backends.gymnasium_mujoco import GymnasiumMujocoBackend
from adc_wrappers.backends.mujoco import MujocoProbe
from adc_wrappers.testing import check_backend

ARM = """<mujoco><option timestep="0.002" integrator="{integrator}"/><worldbody><body><joint name="hinge" {joint}/>
<geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/><body pos="0.3 0 0"><joint name="elbow" axis="0 1 0"/>
<geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/></body></body></worldbody>{more}
<actuator>{actuator}</actuator></mujoco>"""
BOTH = '<motor joint="hinge" gear="20" ctrlrange="-1 1" ctrllimited="true"/><motor joint="elbow" gear="5"/>'


class Arm(gym.Env[Any, Any]):
    """A model behind a Gymnasium env without Gymnasium's own base class, as gymnasium-robotics has them."""

    def __init__(
        self, actuator: str, *, joint: str = 'axis="0 1 0"', more: str = "", integrator: str = "Euler"
    ) -> None:
        text = ARM.format(actuator=actuator, joint=joint, more=more, integrator=integrator)
        self.model = mujoco.MjModel.from_xml_string(text)
        self.data = mujoco.MjData(self.model)
        limits = np.where(self.model.actuator_ctrllimited[:, None], self.model.actuator_ctrlrange, [-np.inf, np.inf])
        self.action_space = gym.spaces.Box(*limits.T.astype(np.float32))


@pytest.mark.parametrize("name", ["Ant-v5", "Walker2d-v5", "HalfCheetah-v5", "Hopper-v5"])
def test_robots_of_gymnasium_move_as_their_gains_say(name: str) -> None:
    env = gym.make(name)
    strength = env.unwrapped.model.actuator_gear[:, 0].copy()
    backend = GymnasiumMujocoBackend(env)
    np.testing.assert_allclose(backend.torque_limits, strength)
    np.testing.assert_allclose(env.action_space.low, backend.joint_range[:, 0], rtol=1e-6)
    joints = (0, len(backend.joint_names) - 1)
    tolerance = 0.05 if backend.explicit_time_step else 1e-3  # Euler is late by a third of ω dt
    assert check_backend(MujocoProbe(backend, backend.model), (5.0, 15.0), joints=joints, tolerance=tolerance) > 0.0


def test_a_curriculum_softens_an_ant() -> None:
    curriculum = CurriculumConfig(start_stiffness=60.0, target_stiffness=40.0, length_max=2, ema=1.0)
    env = ActuatorCurriculumWrapper(
        gym.make("Ant-v5", max_episode_steps=2), curriculum, backend=GymnasiumMujocoBackend, iteration_steps=2
    )
    env.reset(seed=0)
    for _ in range(2):
        info = env.step(np.clip(env.action_space.low, -1, 1))[-1]
    assert info["adc"]["stiffness"] == 40.0
    np.testing.assert_allclose(env.unwrapped.model.actuator_gainprm[:, 0], 40.0)
    again = GymnasiumMujocoBackend(env.env)  # servos by now: taken over as they are
    np.testing.assert_allclose(again.gains().stiffness, 40.0)


def test_actions_are_targets_within_the_scale_and_the_range() -> None:
    env = gym.make("Hopper-v5")
    GymnasiumMujocoBackend(env, action_scale={"thigh_joint": 0.5, "*": 1.0}, nominal_pose=-0.2)
    np.testing.assert_allclose(env.action_space.low, [-0.7, -1.2, -np.pi / 4], atol=1e-6)
    np.testing.assert_allclose(env.action_space.high, [0.0, 0.0, np.pi / 4], atol=1e-6)


def test_servos_keep_their_targets_and_take_the_joints_damping_over() -> None:
    """As the hands of gymnasium-robotics: position servos on damped joints, one with a gear, one off by a factor."""
    servo = (
        '<position joint="hinge" kp="5" gear="2"/><general joint="elbow" biastype="affine" gainprm="5" biasprm="0 -2"/>'
    )
    env = Arm(servo, joint='axis="0 1 0" damping="0.4"', integrator="implicitfast")
    space = env.action_space
    backend = GymnasiumMujocoBackend(env)
    assert env.action_space is space
    np.testing.assert_allclose(backend.gains().stiffness, [[20.0, 2.0]])
    np.testing.assert_allclose(backend.gains().damping, [[0.4, 0.0]])
    np.testing.assert_allclose(backend.controls(np.array([0.3, 0.5])), [0.6, 0.2])
    assert check_backend(MujocoProbe(backend, backend.model), (5.0, 15.0), tolerance=0.02) > 0.0


def test_motors_of_an_env_without_set_action_space_work() -> None:
    env = Arm(BOTH, joint='axis="0 1 0" range="-60 60" limited="true"')
    backend = GymnasiumMujocoBackend(env)
    np.testing.assert_allclose(env.action_space.high, [np.pi / 3, np.pi], rtol=1e-6)
    np.testing.assert_allclose(backend.torque_limits, [20.0, np.inf])


TENDON = '<tendon><fixed name="cord"><joint joint="hinge" coef="1"/></fixed></tendon>'


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (lambda: Arm('<motor tendon="cord"/>', more=TENDON), "drives a tendon, not a joint"),
        (lambda: Arm('<motor joint="hinge"/>', joint='type="ball"'), "ball or free joint"),
        (lambda: Arm('<velocity joint="hinge"/>'), "neither a torque motor nor a position servo"),
        (lambda: Arm('<motor joint="hinge"/><motor joint="hinge"/>'), "two actuators drive the same joint"),
        (lambda: Arm('<motor joint="hinge"/><position joint="elbow"/>'), "motors and position servos are mixed"),
        (lambda: Arm('<motor joint="hinge"/>', joint='type="slide"'), "action_scale=, in metres"),
        (lambda: Arm(""), "no actuators"),
        (lambda: gym.make("CartPole-v1"), "not a Gymnasium MuJoCo env"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(env: Any, words: str) -> None:
    with pytest.raises(BackendError, match=words):
        GymnasiumMujocoBackend(env())


def test_motors_whose_actions_mean_something_else_are_refused() -> None:
    env = Arm(BOTH)
    env.action_space = gym.spaces.Box(-3.0, 3.0, (2,))
    before = env.model.actuator_gear.copy()
    with pytest.raises(BackendError, match="cannot become joint targets"):
        GymnasiumMujocoBackend(env)
    np.testing.assert_array_equal(env.model.actuator_gear, before)


@pytest.mark.parametrize("integrator", ["RK4", "implicitfast"])
def test_gains_that_the_integrator_cannot_hold_are_refused(integrator: str) -> None:
    """Where the limit is, the joint diverges just beyond it and not just below."""
    backend = GymnasiumMujocoBackend(Arm(BOTH, integrator=integrator))
    inertia = backend.effective_inertia()
    rates = np.linspace(1.0, 3.0, 41) if integrator == "RK4" else np.linspace(1.0, 2.5, 41)
    allowed = [rate for rate in rates if _held(backend, inertia * (rate / 0.002) ** 2)]
    edge = {"RK4": 2.785, "implicitfast": 2.0}[integrator]  # in natural frequencies per step, undamped for the second
    assert abs(max(allowed) - edge) < 0.06


def _held(backend: GymnasiumMujocoBackend, stiffness: np.ndarray) -> bool:
    zeta = 1.0 if backend.model.opt.integrator == int(mujoco.mjtIntegrator.mjINT_RK4) else 0.0
    try:
        backend.set_gains(stiffness[None], 2.0 * zeta * np.sqrt(stiffness * backend.effective_inertia())[None])
    except BackendError as error:
        assert "unstable" in str(error)
        return False
    return True


def test_bad_gains_are_refused() -> None:
    backend = GymnasiumMujocoBackend(Arm(BOTH))
    with pytest.raises(BackendError, match="stiffness: expected finite numbers"):
        backend.set_gains(np.full((1, 2), np.nan), np.ones((1, 2)))
    with pytest.raises(BackendError, match="action_scale: expected positive"):
        GymnasiumMujocoBackend(Arm(BOTH), action_scale=-1.0)
