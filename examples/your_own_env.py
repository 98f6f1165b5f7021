"""The curriculum on an env of yours: Gymnasium's MuJoCo Ant, with a backend of about twenty lines.

The Ant comes with torque motors. The backend turns them into position-controlled joints, whose stiffness and damping
the curriculum then sets: from then on an action is a vector of joint angles.
"""

import gymnasium as gym
import mujoco
import numpy as np

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig, Gains


class AntActuators:
    """Joint PD gains of a Gymnasium MuJoCo robot whose actuators each drive one joint."""

    num_envs = 1

    def __init__(self, env):
        self.model = env.unwrapped.model
        joints = self.model.actuator_trnid[:, 0]
        self.joint_names = [self.model.joint(joint).name for joint in joints]
        self.dofs = self.model.jnt_dofadr[joints]
        self.model.dof_damping[self.dofs] = 0  # damping is the PD law's
        self.model.actuator_gear[:, 0] = 1
        self.model.actuator_biastype[:] = mujoco.mjtBias.mjBIAS_AFFINE
        self.model.actuator_ctrlrange[:] = self.model.jnt_range[joints]
        env.unwrapped._set_action_space()

    def effective_inertia(self):
        data, inertia = mujoco.MjData(self.model), np.zeros((self.model.nv, self.model.nv))
        mujoco.mj_forward(self.model, data)  # at the model's own pose
        mujoco.mj_fullM(self.model, data, inertia)
        return inertia[self.dofs, self.dofs]

    def gains(self):
        return Gains(self.model.actuator_gainprm[None, :, 0], -self.model.actuator_biasprm[None, :, 2])

    def set_gains(self, stiffness, damping, env_ids=None):  # force = K ctrl - K q - B dq
        self.model.actuator_gainprm[:, 0] = stiffness[0]
        self.model.actuator_biasprm[:, 1] = -stiffness[0]
        self.model.actuator_biasprm[:, 2] = -damping[0]


def main(steps: int = 2000) -> float:
    env = gym.make("Ant-v5")
    curriculum = CurriculumConfig(start_stiffness=60, target_stiffness=40, length_max=900)
    env = ActuatorCurriculumWrapper(env, curriculum, backend=AntActuators, iteration_steps=500)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(steps):
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    print({key: round(value, 2) for key, value in info["adc"].items()})
    env.close()
    return info["adc"]["stiffness"]


if __name__ == "__main__":
    main()
