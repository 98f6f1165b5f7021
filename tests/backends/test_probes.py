"""Probes that lock the rest, and what the conformance check says when a joint is not left alone."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pybullet
import pytest

from adc_wrappers import Gains
from adc_wrappers.backends.gymnasium_mujoco import GymnasiumMujocoBackend
from adc_wrappers.backends.mujoco import MujocoProbe
from adc_wrappers.backends.pybullet import BulletProbe
from adc_wrappers.backends.pybullet.model import connect
from adc_wrappers.backends.robots import RobotProbe, make_robot_backend
from adc_wrappers.testing import ConformanceError, check_backend

URDF = """<robot name="arm"><link name="base"><inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01"
ixy="0" ixz="0" iyz="0"/></inertial></link><link name="upper"><inertial><origin xyz="0.2 0 0"/><mass value="1"/>
<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link><link name="fore"><inertial>
<origin xyz="0.2 0 0"/><mass value="0.5"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
</link><joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="100" velocity="100"/></joint><joint name="elbow" type="revolute">
<parent link="upper"/><child link="fore"/><origin xyz="0.4 0 0"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="100" velocity="100"/></joint></robot>"""


class BulletArm:
    """A floating arm in PyBullet with a PD law of its own, and a backend of a user's."""

    num_envs, joint_names = 1, ("shoulder", "elbow")

    def __init__(self, path: Any) -> None:
        path.write_text(URDF)
        _, self.client = connect()
        self.body = pybullet.loadURDF(
            str(path), [0, 0, 1], flags=pybullet.URDF_USE_INERTIA_FROM_FILE, physicsClientId=self.client
        )
        pybullet.setTimeStep(0.0005, physicsClientId=self.client)
        pybullet.setGravity(0, 0, -9.81, physicsClientId=self.client)
        for joint in (0, 1):
            pybullet.setJointMotorControl2(
                self.body, joint, pybullet.VELOCITY_CONTROL, force=0, physicsClientId=self.client
            )
            pybullet.changeDynamics(
                self.body, joint, jointDamping=0, linearDamping=0, angularDamping=0, physicsClientId=self.client
            )
        self.values = np.ones((2, 1, 2))

    def effective_inertia(self) -> np.ndarray:
        fore = 0.01 + 0.5 * 0.2**2
        return np.array([0.01 + 0.2**2 + 0.01 + 0.5 * 0.6**2, fore])

    def gains(self) -> Gains:
        return Gains(*self.values.copy())

    def set_gains(self, stiffness: Any, damping: Any, env_ids: Any = None) -> None:
        self.values[:] = stiffness, damping

    def step(self, targets: np.ndarray) -> None:
        states = pybullet.getJointStates(self.body, [0, 1], self.client)
        q, v = (np.array([state[place] for state in states]) for place in (0, 1))
        forces = self.values[0, 0] * (targets - q) - self.values[1, 0] * v
        pybullet.setJointMotorControlArray(
            self.body, [0, 1], pybullet.TORQUE_CONTROL, forces=forces.tolist(), physicsClientId=self.client
        )
        pybullet.stepSimulation(self.client)


def test_a_users_arm_in_pybullet_is_locked_and_let_go(tmp_path: Any) -> None:
    arm = BulletArm(tmp_path / "arm.urdf")
    with BulletProbe(arm, arm.client, arm.body, (0, 1), arm.step) as probe:
        assert check_backend(probe, (20.0, 60.0), tolerance=0.02) > 0.0
        assert any("limits" in cause for cause in probe.causes(0, 2.0))
    height = pybullet.getBasePositionAndOrientation(arm.body, arm.client)[0][2]
    for _ in range(100):
        arm.step(np.zeros(2))
    assert pybullet.getBasePositionAndOrientation(arm.body, arm.client)[0][2] < height - 0.005  # it falls again
    pybullet.disconnect(arm.client)


def test_a_wrong_inertia_is_measured_and_named(tmp_path: Any) -> None:
    arm = BulletArm(tmp_path / "arm.urdf")
    right = arm.effective_inertia()
    arm.effective_inertia = lambda: 2.0 * right  # type: ignore[method-assign]
    with (
        BulletProbe(arm, arm.client, arm.body, (0, 1), arm.step) as probe,
        pytest.raises(ConformanceError, match=r"inertia were 0\.[45]\d times.*another PD loop"),
    ):
        check_backend(probe, (20.0, 60.0))
    pybullet.disconnect(arm.client)


@pytest.mark.parametrize(("engine", "still"), [("mujoco", {"gravity": False}), ("pybullet", {"gravity": 0.0})])
def test_spots_joints_one_in_each_robot(engine: str, still: dict[str, Any]) -> None:
    backend = make_robot_backend(engine, 2, fixed_base=True, physics_step=0.0005, decimation=4, **still)
    try:
        assert check_backend(RobotProbe(backend), (30.0, 60.0), joints=(1, 2)) < 0.02
    finally:
        backend.close()


def test_the_obvious_probe_of_an_ant_is_told_what_disturbs_it() -> None:
    """Unlocked, from the pose of the model: at the ankles' limits, with a base that gives way."""
    backend = GymnasiumMujocoBackend(gym.make("Ant-v5"))
    probe = MujocoProbe(backend, backend.model, lock=False)
    with pytest.raises(ConformanceError) as error:
        check_backend(probe, (40.0, 60.0), amplitude=-0.1, joints=(1,))
    for words in ("meets the joint's limits", "clamped to the control range", "the base is free", "comes to rest at"):
        assert words in str(error.value)


def test_the_model_is_changed_inside_a_move_only() -> None:
    backend = GymnasiumMujocoBackend(gym.make("Hopper-v5"))
    model = backend.model
    before = (model.dof_armature.copy(), model.opt.gravity.copy(), int(model.opt.disableflags))
    probe = MujocoProbe(backend, model)
    probe.move(probe.rest() + 0.01)
    np.testing.assert_array_equal(model.dof_armature, before[0])
    np.testing.assert_array_equal(model.opt.gravity, before[1])
    assert int(model.opt.disableflags) == before[2]


def test_torque_limits_and_friction_of_a_joint_are_named() -> None:
    backend = GymnasiumMujocoBackend(gym.make("Hopper-v5"))
    backend.model.dof_frictionloss[backend.model.actuator_trnid[0, 0] :] = 1.0
    probe = MujocoProbe(backend, backend.model)
    assert any("dry friction" in cause for cause in probe.causes(0, 0.01))
    assert any("forcerange" in cause for cause in probe.causes(0, 10.0))
