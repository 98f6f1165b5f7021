"""A rig of arms without gravity in Isaac Lab, for proofs by motion. Imports Isaac Lab: use it in tests that need it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import isaaclab.sim as sim_utils
import torch
from isaaclab.actuators import DCMotorCfg, DelayedPDActuatorCfg, IdealPDActuatorCfg, ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg, mdp
from isaaclab.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
)
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.utils import configclass
from rig_probe import TensorProbe

from adc_wrappers.backends.isaaclab.groups import as_tensor
from adc_wrappers.backends.spot_model import JointSpec, LinkSpec, RobotSpec, ShapeSpec, spot_usd
from adc_wrappers.envs.spot_isaaclab.cfg import simulation_cfg
from benchmarks.isaac_overhead import one_thread_for_physx

torch.set_num_threads(1)
one_thread_for_physx()

ARMS = ("implicit", "ideal", "delayed", "motor")
"""One arm per actuator model; all but the first are native or Isaac Lab's own, as the config says."""
INERTIA = 0.8
MASS, LENGTH = 1.0, 0.8
ROTOR = 0.06
STEP = 0.004


def rig() -> RobotSpec:
    """A heavy base with four arms that hang down and turn about y; no two of them touch."""
    box = ShapeSpec(kind="box", size=(0.2, 2.0, 0.2), position=(0.0, 0.0, 0.0))
    base = LinkSpec(name="base", mass=50.0, inertia=(5.0, 5.0, 5.0, 0.0, 0.0, 0.0), collision=(box,))
    own = INERTIA - ROTOR - MASS * LENGTH**2
    arm = {"mass": MASS, "com": (0.0, 0.0, -LENGTH), "inertia": (own, own, own / 2, 0.0, 0.0, 0.0)}
    links = tuple(LinkSpec(name=f"{name}_arm", **arm) for name in ARMS)
    joints = tuple(
        JointSpec(
            name=name, parent="base", child=f"{name}_arm", origin=(0.0, y, 0.0), axis=(0.0, 1.0, 0.0), lower=-1.5,
            upper=1.5, effort=500.0, armature=ROTOR,
        )
        for name, y in zip(ARMS, (-0.9, -0.3, 0.3, 0.9), strict=True)
    )  # fmt: skip
    return RobotSpec(name="rig", links=(base, *links), joints=joints, nominal_pose=(0.0,) * len(joints))


def gains(**more: Any) -> dict[str, Any]:
    return {"stiffness": 25.0, "damping": 9.0, **more}


@configclass
class RigSceneCfg(InteractiveSceneCfg):
    robot: ArticulationCfg = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=sim_utils.UsdFileCfg(
            usd_path="", articulation_props=sim_utils.ArticulationRootPropertiesCfg(fix_root_link=True)
        ),
        init_state=ArticulationCfg.InitialStateCfg(pos=(0.0, 0.0, 3.0), joint_pos={".*": 0.1}),
        actuators={
            "soft": ImplicitActuatorCfg(joint_names_expr=["implicit"], **gains()),
            "ideal": IdealPDActuatorCfg(joint_names_expr=["ideal"], **gains(actuator_effort_limit=500.0)),
            "delayed": DelayedPDActuatorCfg(joint_names_expr=["delayed"], **gains(actuator_effort_limit=500.0)),
            "motor": DCMotorCfg(
                joint_names_expr=["motor"],
                **gains(actuator_effort_limit=500.0, saturation_effort=1e6, actuator_velocity_limit=1e4),
            ),
        },
    )


@configclass
class RigActionsCfg:
    targets = mdp.JointPositionActionCfg(asset_name="robot", joint_names=[".*"], use_default_offset=False)


@configclass
class RigObservationsCfg:
    @configclass
    class PolicyCfg(ObservationGroupCfg):
        joints = ObservationTermCfg(func=mdp.joint_pos)

    policy: PolicyCfg = PolicyCfg()


@configclass
class RigRewardsCfg:
    alive = RewardTermCfg(func=mdp.is_alive, weight=1.0)


@configclass
class RigTerminationsCfg:
    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)


@configclass
class RigEventsCfg:
    joints: EventTermCfg = EventTermCfg(
        func=mdp.reset_joints_by_offset,
        mode="reset",
        params={"position_range": (0.0, 0.0), "velocity_range": (0.0, 0.0)},
    )
    gains: EventTermCfg | None = None


@configclass
class RigCfg(ManagerBasedRLEnvCfg):
    scene: RigSceneCfg = RigSceneCfg(num_envs=4, env_spacing=4.0)
    actions: RigActionsCfg = RigActionsCfg()
    observations: RigObservationsCfg = RigObservationsCfg()
    rewards: RigRewardsCfg = RigRewardsCfg()
    terminations: RigTerminationsCfg = RigTerminationsCfg()
    events: RigEventsCfg = RigEventsCfg()
    decimation: int = 1
    episode_length_s: float = 1e6


def gain_event(mode: str) -> EventTermCfg:
    """Isaac Lab's own randomization of gains."""
    return EventTermCfg(
        func=mdp.randomize_actuator_gains,
        mode=mode,
        params={
            "asset_cfg": SceneEntityCfg("robot"),
            "stiffness_distribution_params": (0.5, 2.0),
            "operation": "scale",
        },
    )


def make_rig(folder: Path, engine: str, *, native: bool, event: EventTermCfg | None = None, num_envs: int = 4) -> Any:
    """Make the rig as a manager-based env."""
    file = folder / "rig.usda"
    file.write_text(spot_usd(rig(), visuals=False))
    config = RigCfg()
    config.seed = 0
    config.sim = simulation_cfg(engine, device="cpu", physics_step=STEP, decimation=1)
    config.sim.gravity = (0.0, 0.0, 0.0)
    config.sim.use_newton_actuators = native
    config.scene.num_envs = num_envs
    config.scene.robot.spawn.usd_path = str(file)
    config.events.gains = event
    return ManagerBasedRLEnv(config)


def close(env: Any) -> None:
    """Close an env so that the next can be made: there is one simulation per process."""
    env.close()
    gc.collect()


class RigProbe(TensorProbe):
    """A probe that moves the arms."""

    time_step = STEP

    def joints(self) -> torch.Tensor:
        return as_tensor(super().joints())
