"""A rig of arms without gravity in mjlab, for proofs by motion. Imports mjlab: use it in tests that need it."""

from __future__ import annotations

from typing import Any

import mujoco
import torch
from mjlab.actuator import BuiltinPdActuatorCfg, BuiltinPositionActuatorCfg, IdealPdActuatorCfg
from mjlab.entity import EntityArticulationInfoCfg, EntityCfg
from mjlab.envs import ManagerBasedRlEnvCfg
from mjlab.envs.mdp import joint_pos_rel, reset_joints_by_offset, time_out
from mjlab.envs.mdp.actions import JointPositionActionCfg
from mjlab.managers.event_manager import EventTermCfg
from mjlab.managers.observation_manager import ObservationGroupCfg, ObservationTermCfg
from mjlab.managers.reward_manager import RewardTermCfg
from mjlab.managers.scene_entity_config import SceneEntityCfg
from mjlab.managers.termination_manager import TerminationTermCfg
from mjlab.scene import SceneCfg
from mjlab.sim import MujocoCfg, SimulationCfg
from rig_probe import TensorProbe

from adc_wrappers.backends.mjlab import GymMjlabEnv

torch.set_num_threads(1)

ARMS = {"position": BuiltinPositionActuatorCfg, "pair": BuiltinPdActuatorCfg, "ideal": IdealPdActuatorCfg}
"""One arm per kind of actuator."""
INERTIA, ARMATURE, STEP = 0.74, 0.06, 0.01


def rig() -> mujoco.MjSpec:
    """Arms on a fixed base that turn about y; no two of them touch."""
    spec = mujoco.MjSpec()
    base = spec.worldbody.add_body(name="base", pos=(0.0, 0.0, 3.0))
    for number, name in enumerate(ARMS):
        arm = base.add_body(name=f"{name}_arm", pos=(0.0, number - 1.0, 0.0))
        arm.mass, arm.inertia, arm.explicitinertial = 1.0, (INERTIA, INERTIA, INERTIA), True
        arm.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0.0, 1.0, 0.0), armature=ARMATURE)
    return spec


def alive(env: Any) -> torch.Tensor:
    return torch.ones(env.num_envs, device=env.device)


def make_rig(num_envs: int = 2, episode: float = 1e6, **events: EventTermCfg) -> GymMjlabEnv:
    actuators = tuple(kind(target_names_expr=(name,), stiffness=25.0, damping=9.0) for name, kind in ARMS.items())
    robot = EntityCfg(
        spec_fn=rig,
        articulation=EntityArticulationInfoCfg(actuators=actuators),
        init_state=EntityCfg.InitialStateCfg(joint_pos={".*": 0.1}, joint_vel={".*": 0.0}),
    )
    still = {"position_range": (0.0, 0.0), "velocity_range": (0.0, 0.0), "asset_cfg": SceneEntityCfg("robot")}
    config = ManagerBasedRlEnvCfg(
        decimation=1,
        scene=SceneCfg(num_envs=num_envs, entities={"robot": robot}),
        observations={"actor": ObservationGroupCfg(terms={"joints": ObservationTermCfg(func=joint_pos_rel)})},
        actions={
            "targets": JointPositionActionCfg(entity_name="robot", actuator_names=(".*",), use_default_offset=False)
        },
        events={"joints": EventTermCfg(func=reset_joints_by_offset, mode="reset", params=still), **events},
        rewards={"alive": RewardTermCfg(func=alive, weight=1.0)},
        terminations={"time_out": TerminationTermCfg(func=time_out, time_out=True)},
        sim=SimulationCfg(mujoco=MujocoCfg(timestep=STEP, gravity=(0.0, 0.0, 0.0))),
        episode_length_s=episode,
        seed=0,
    )
    return GymMjlabEnv(config, device="cpu")


class RigProbe(TensorProbe):
    """A probe that moves the arms."""

    time_step = STEP
