"""Configs of the handstand in mjlab: robot, scene, managers, randomization."""

from __future__ import annotations

from typing import Any

import mujoco
import torch
from mjlab.actuator import XmlActuatorCfg
from mjlab.entity import EntityArticulationInfoCfg, EntityCfg
from mjlab.envs import ManagerBasedRlEnvCfg
from mjlab.managers.event_manager import EventTermCfg, RecomputeLevel, requires_model_fields
from mjlab.managers.observation_manager import ObservationGroupCfg, ObservationTermCfg
from mjlab.managers.reward_manager import RewardTermCfg
from mjlab.managers.scene_entity_config import SceneEntityCfg
from mjlab.managers.termination_manager import TerminationTermCfg
from mjlab.scene import SceneCfg
from mjlab.sensor import ContactMatch, ContactSensorCfg
from mjlab.sim import MujocoCfg, SimulationCfg
from mjlab.terrains import TerrainEntityCfg

from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, NOMINAL_POSE, spot_mjcf, standing_height
from adc_wrappers.backends.spot_model.mechanics import identified_gains
from adc_wrappers.backends.tensor_gains import randomize_gain_factors
from adc_wrappers.envs.spot.randomization import (
    COULOMB,
    FRICTION,
    GAIN_FACTOR,
    MASS,
    PUSH_INTERVAL,
    PUSH_VELOCITY,
    VISCOUS,
)
from adc_wrappers.envs.spot.settings import SpotSettings
from adc_wrappers.envs.spot.tensors import check_model

from . import terms

__all__ = ["HANDSTAND_ID", "base_mass", "friction", "handstand_cfg", "joint_friction", "push", "spot_cfg", "spot_spec"]

HANDSTAND_ID = "ADC-Spot-Handstand"
"""The task's name in mjlab."""


@requires_model_fields("geom_friction")  # type: ignore[untyped-decorator]
def friction(env: Any, env_ids: torch.Tensor | None, asset_cfg: Any) -> None:
    """Give every robot one coefficient of sliding friction, of all its shapes; theirs counts, not the ground's."""
    rows, shapes = _rows(env, env_ids), env.scene[asset_cfg.name].indexing.geom_ids
    drawn = _uniform((len(rows), 1), *FRICTION, env.device)
    env.sim.model.geom_friction[rows[:, None], shapes, 0] = drawn


@requires_model_fields("body_mass", "body_inertia", recompute=RecomputeLevel.set_const)  # type: ignore[untyped-decorator]
def base_mass(env: Any, env_ids: torch.Tensor | None, asset_cfg: Any) -> None:
    """Add mass to every robot's base, its inertia scaled alike."""
    rows, robot = _rows(env, env_ids), env.scene[asset_cfg.name]
    body = int(robot.indexing.body_ids[robot.body_names.index(LINK_NAMES[0])])
    mass, inertia = (env.sim.get_default_field(name)[body] for name in ("body_mass", "body_inertia"))
    drawn = mass + _uniform((len(rows),), -MASS, MASS, env.device)
    env.sim.model.body_mass[rows, body] = drawn
    env.sim.model.body_inertia[rows, body] = inertia * (drawn / mass)[:, None]


@requires_model_fields("dof_frictionloss", "dof_damping")  # type: ignore[untyped-decorator]
def joint_friction(env: Any, env_ids: torch.Tensor | None, asset_cfg: Any) -> None:
    """Give every joint dry and viscous friction."""
    rows, robot = _rows(env, env_ids), env.scene[asset_cfg.name]
    columns = robot.indexing.joint_v_adr
    for name, limit in (("dof_frictionloss", COULOMB), ("dof_damping", VISCOUS)):
        drawn = _uniform((len(rows), len(JOINT_NAMES)), 0.0, limit, env.device)
        getattr(env.sim.model, name)[rows[:, None], columns] = drawn


def push(env: Any, env_ids: torch.Tensor | None, asset_cfg: Any, axes: tuple[int, ...]) -> None:
    """Add to the base's linear velocity along axes of the world, as it is now: mjlab's own adds to the last step's."""
    rows, columns = _rows(env, env_ids), env.scene[asset_cfg.name].indexing.free_joint_v_adr[list(axes)]
    change = _uniform((len(rows), len(axes)), -PUSH_VELOCITY, PUSH_VELOCITY, env.device)
    env.sim.data.qvel[rows[:, None], columns] += change


def _rows(env: Any, env_ids: torch.Tensor | None) -> torch.Tensor:
    return torch.arange(env.num_envs, device=env.device) if env_ids is None else env_ids


def _uniform(shape: tuple[int, ...], low: float, high: float, device: Any) -> torch.Tensor:
    return torch.empty(shape, device=device).uniform_(low, high)


_CONE, _IMPRATIO = "elliptic", 10.0  # as spot_mjcf writes them: loaded feet do not creep
_CONTACTS, _ROWS = 60, 200  # more than a Spot that lies on the ground has


def spot_spec() -> mujoco.MjSpec:
    """Return the generated Spot as identified, without a ground, keyframes and options, which are the scene's."""
    spec = mujoco.MjSpec.from_string(spot_mjcf(ground=False))
    for key in spec.keys:
        spec.delete(key)
    spec.option = mujoco.MjSpec().option
    stiffness, damping = identified_gains()
    for actuator in spec.actuators:
        k, b = stiffness[actuator.name], damping[actuator.name]
        actuator.gainprm[0], actuator.biasprm[1], actuator.biasprm[2] = k, -k, -b
    return spec


def spot_cfg() -> EntityCfg:
    """Return Spot as an entity; the PD law is MuJoCo's own position element, which its model has."""
    return EntityCfg(
        spec_fn=spot_spec,
        articulation=EntityArticulationInfoCfg(
            actuators=(XmlActuatorCfg(target_names_expr=JOINT_NAMES, command_field="position"),)
        ),
        init_state=EntityCfg.InitialStateCfg(
            pos=(0.0, 0.0, standing_height(NOMINAL_POSE)),
            joint_pos=dict(zip(JOINT_NAMES, NOMINAL_POSE, strict=True)),
            joint_vel={".*": 0.0},
        ),
    )


def handstand_cfg(*, num_envs: int = 4096, seed: int | None = None, **settings: Any) -> ManagerBasedRlEnvCfg:
    """Return the config of an env: any ``ManagerBasedRlEnv`` made with it has the whole task.

    Args:
        num_envs: Number of robots.
        seed: Seed of everything random.
        **settings: The task's own, see :class:`adc_wrappers.envs.spot.SpotSettings`.
    """
    task = SpotSettings(**settings)
    check_model(task, "mjlab")
    rewards, _ = task.effective_weights(task.physics_step * task.decimation)
    contacts = ContactSensorCfg(
        name=terms.CONTACTS, primary=ContactMatch(mode="body", pattern=LINK_NAMES, entity=terms.ROBOT),
        fields=("force",), reduce="netforce",
    )  # fmt: skip
    return ManagerBasedRlEnvCfg(
        decimation=task.decimation,
        episode_length_s=task.episode_seconds,
        scale_rewards_by_dt=False,  # the weights are scaled already
        seed=seed,
        scene=SceneCfg(
            num_envs=num_envs, env_spacing=2.5, terrain=TerrainEntityCfg(terrain_type="plane", env_spacing=2.5),
            entities={terms.ROBOT: spot_cfg()}, sensors=(contacts,),
        ),
        sim=SimulationCfg(
            nconmax=_CONTACTS, njmax=_ROWS,
            mujoco=MujocoCfg(timestep=task.physics_step, cone=_CONE, impratio=_IMPRATIO),
        ),
        actions={terms.STAND: terms.SpotStandActionCfg(entity_name=terms.ROBOT, settings=dict(settings))},
        observations={"policy": ObservationGroupCfg(terms={"state": ObservationTermCfg(func=terms.observation)})},
        terminations={
            "fallen": TerminationTermCfg(func=terms.terminated),
            "time_out": TerminationTermCfg(func=terms.truncated, time_out=True),
        },
        rewards={name: _reward(name) for name in dict.fromkeys((*rewards, "fall"))},
        events=_events(task),
    )  # fmt: skip


def _reward(name: str) -> RewardTermCfg:
    return RewardTermCfg(func=terms.reward_term, weight=1.0, params={"name": name})


def _events(task: SpotSettings) -> dict[str, EventTermCfg]:
    """Return the randomization, as far as it is not part of a reset."""
    kinds = task.randomized()
    robot = SceneEntityCfg(terms.ROBOT)
    factors = {"stiffness_range": GAIN_FACTOR, "damping_range": GAIN_FACTOR}
    known = {
        "friction": EventTermCfg(func=friction, mode="startup", params={"asset_cfg": robot}),
        "mass": EventTermCfg(func=base_mass, mode="startup", params={"asset_cfg": robot}),
        "joint_friction": EventTermCfg(func=joint_friction, mode="startup", params={"asset_cfg": robot}),
        "gains": EventTermCfg(func=randomize_gain_factors, mode="reset", params=factors),
        "push": EventTermCfg(
            func=push, mode="interval", interval_range_s=PUSH_INTERVAL,
            params={"asset_cfg": robot, "axes": task.preset_values().push_axes},
        ),
    }  # fmt: skip
    return {name: term for name, term in known.items() if name in kinds}
