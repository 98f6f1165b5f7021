"""Configs of the handstand in Isaac Lab: physics engine, scene, events, env."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any, Literal

import isaaclab.sim as sim_utils
from isaaclab.assets import ArticulationCfg, AssetBaseCfg
from isaaclab.envs import DirectRLEnvCfg, mdp
from isaaclab.managers import EventTermCfg, SceneEntityCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import ContactSensorCfg
from isaaclab.utils import configclass

from adc_wrappers.backends.tensor_gains import randomize_gain_factors
from adc_wrappers.envs.spot.randomization import (
    DELAY_STEPS,
    FRICTION,
    GAIN_FACTOR,
    MASS,
    PUSH_INTERVAL,
    PUSH_VELOCITY,
)
from adc_wrappers.envs.spot.settings import SpotSettings
from adc_wrappers.envs.spot.tensors import check_model

from .assets import SpotSource, spot_cfg

__all__ = [
    "Engine",
    "SpotEventsCfg",
    "SpotHandstandEnvCfg",
    "SpotHandstandPlayEnvCfg",
    "SpotSceneCfg",
    "ground_material",
    "handstand_cfg",
    "simulation_cfg",
]

Engine = Literal["newton", "physx"]

DYNAMIC_FRICTION = (0.3, 0.8)
"""The paper's range; Newton has one coefficient and takes the static one."""
_GROUND = 500.0  # m: larger than 4096 envs


def ground_material(engine: Engine) -> Any:
    """Return a material with which the friction of every contact is the robot's own.

    Newton takes the larger of both coefficients, so the ground has none. PhysX multiplies them where one side asks for
    that, which must be the ground: a randomized material of the robot's forgets how it is combined.

    Args:
        engine: Whose rule applies.
    """
    friction = 0.0 if engine == "newton" else 1.0
    return sim_utils.RigidBodyMaterialCfg(
        static_friction=friction, dynamic_friction=friction, friction_combine_mode="multiply"
    )


def simulation_cfg(engine: Engine, *, device: str, physics_step: float, decimation: int) -> Any:
    """Return Isaac Lab's simulation config.

    Args:
        engine: ``"newton"`` (MuJoCo-Warp; Isaac Lab 3) or ``"physx"``: with the package ``ovphysx`` without Isaac Sim,
            else Isaac Sim's own. Isaac Lab 2 has PhysX only.
        device: ``"cuda:0"``, ``"cpu"``, ….
        physics_step: Seconds between two evaluations of the PD law.
        decimation: Physics steps in one policy step.
    """
    material = sim_utils.RigidBodyMaterialCfg(
        friction_combine_mode="multiply", restitution_combine_mode="multiply", static_friction=1.0, dynamic_friction=1.0
    )
    config = sim_utils.SimulationCfg(
        dt=physics_step, render_interval=decimation, device=device, physics_material=material
    )
    if hasattr(config, "physics"):  # Isaac Lab 3
        config.physics = _newton(device) if engine == "newton" else _physx(device)
    elif engine == "newton":
        raise ValueError("Isaac Lab 2 has no Newton: use engine='physx', or Isaac Lab 3.")
    return config


def _newton(device: str) -> Any:
    """Contacts as in our MuJoCo model; an elliptic cone and stiff friction keep loaded feet from creeping."""
    from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg

    solver = MJWarpSolverCfg(njmax=200, nconmax=60, integrator="implicitfast", cone="elliptic", impratio=10.0)
    return NewtonCfg(solver_cfg=solver, use_cuda_graph=device.startswith("cuda"))


def _physx(device: str) -> Any:
    if importlib.util.find_spec("ovphysx") is None:
        from isaaclab_physx.physics import PhysxCfg

        return PhysxCfg()
    from isaaclab_ov.physics import OvPhysxCfg

    if device == "cpu":
        _allow_pinned_memory_without_cuda()
    return OvPhysxCfg()


def _allow_pinned_memory_without_cuda() -> None:
    """Isaac Lab's PhysX asks for pinned memory on a CPU too, which Warp refuses where there is no CUDA."""
    import warp

    if not warp.is_cuda_available():
        cpu = warp.get_device("cpu")
        cpu.pinned_allocator = cpu.default_allocator


@configclass
class SpotSceneCfg(InteractiveSceneCfg):
    """Spots on a flat, static slab: no asset has to be downloaded for it."""

    ground: AssetBaseCfg = AssetBaseCfg(
        prim_path="/World/ground",
        spawn=sim_utils.CuboidCfg(
            size=(_GROUND, _GROUND, 1.0),
            collision_props=sim_utils.CollisionPropertiesCfg(),
            physics_material=ground_material("physx"),
        ),
        init_state=AssetBaseCfg.InitialStateCfg(pos=(0.0, 0.0, -0.5)),
    )
    robot: ArticulationCfg = spot_cfg("generated")
    contacts: ContactSensorCfg = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/[^/]*", history_length=3)


@configclass
class SpotEventsCfg:
    """The randomization, as far as it is not part of a reset; a term that is None is off."""

    friction: EventTermCfg | None = EventTermCfg(
        func=mdp.randomize_rigid_body_material,
        mode="startup",
        params={
            "asset_cfg": SceneEntityCfg("robot", body_names=".*"),
            "static_friction_range": FRICTION,
            "dynamic_friction_range": DYNAMIC_FRICTION,
            "restitution_range": (0.0, 0.0),
            "num_buckets": 64,
        },
    )
    mass: EventTermCfg | None = EventTermCfg(
        func=mdp.randomize_rigid_body_mass,
        mode="startup",
        params={
            "asset_cfg": SceneEntityCfg("robot", body_names="body"),
            "mass_distribution_params": (-MASS, MASS),
            "operation": "add",
        },
    )
    push: EventTermCfg | None = EventTermCfg(
        func=mdp.push_by_setting_velocity,
        mode="interval",
        interval_range_s=PUSH_INTERVAL,
        params={"velocity_range": {}},
    )
    gains: EventTermCfg | None = EventTermCfg(
        func=randomize_gain_factors,
        mode="reset",
        params={"stiffness_range": GAIN_FACTOR, "damping_range": GAIN_FACTOR},
    )


@configclass
class SpotHandstandEnvCfg(DirectRLEnvCfg):
    """``ADC-Spot-Handstand-v0``: 4096 Spots, 500 Hz physics, 50 Hz policy. Make it with :func:`handstand_cfg`."""

    episode_length_s: float = 20.0
    decimation: int = 10
    action_space: Any = 12
    observation_space: int = 45
    state_space: int = 0
    sim: sim_utils.SimulationCfg = sim_utils.SimulationCfg(dt=0.002, render_interval=10)
    scene: SpotSceneCfg = SpotSceneCfg(num_envs=4096, env_spacing=2.5, replicate_physics=True)
    events: SpotEventsCfg | None = SpotEventsCfg()
    settings: dict[str, Any] = {}  # noqa: RUF012 (configclass copies it)
    """Settings of the task, by name: see :class:`adc_wrappers.envs.spot.SpotSettings`."""


@configclass
class SpotHandstandPlayEnvCfg(SpotHandstandEnvCfg):
    """``ADC-Spot-Handstand-Play-v0``: few robots, nothing randomized."""

    scene: SpotSceneCfg = SpotSceneCfg(num_envs=16, env_spacing=2.5, replicate_physics=True)
    events: SpotEventsCfg | None = None
    settings: dict[str, Any] = {"randomize": False}  # noqa: RUF012


def handstand_cfg(
    *,
    num_envs: int = 4096,
    device: str = "cuda:0",
    engine: Engine = "newton",
    source: SpotSource = "auto",
    seed: int | None = None,
    native_actuators: bool = True,
    **settings: Any,
) -> SpotHandstandEnvCfg:
    """Return the config of an env.

    Args:
        num_envs: Number of robots.
        device: Where they are simulated.
        engine: ``"newton"`` or ``"physx"``.
        source: Whose Spot, see :func:`~.assets.spot_cfg`.
        seed: Seed of everything random.
        native_actuators: On Isaac Lab 3, let Newton actuators evaluate the PD law; else Isaac Lab's own classes do.
        **settings: The task's own, see :class:`adc_wrappers.envs.spot.SpotSettings`.
    """
    task = SpotSettings(**settings)
    check_model(task, "isaaclab")
    kinds = task.randomized()
    config = SpotHandstandEnvCfg()
    config.seed = seed
    config.settings = dict(settings)
    config.decimation = task.decimation
    config.episode_length_s = task.episode_seconds
    config.sim = simulation_cfg(engine, device=device, physics_step=task.physics_step, decimation=task.decimation)
    if hasattr(config.sim, "use_newton_actuators"):
        config.sim.use_newton_actuators = native_actuators
    config.scene.num_envs = num_envs
    config.scene.ground.spawn.physics_material = ground_material(engine)
    config.scene.robot = spot_cfg(source, max_delay=_longest_delay(task))
    config.events = _events(kinds, task.preset_values().push_axes)
    return config


def _longest_delay(task: SpotSettings) -> int:
    """Return the largest delay of commands that is drawn, in physics steps."""
    kinds = task.randomized()
    if "latency" in kinds:
        return round(task.command_latency[1] / task.physics_step)
    return DELAY_STEPS if "delay" in kinds else 0


def _events(kinds: tuple[str, ...], push_axes: tuple[int, ...]) -> SpotEventsCfg | None:
    if "joint_friction" in kinds:
        warnings.warn("Isaac Lab's joints are not given the randomization 'joint_friction' here.", stacklevel=3)
    known = ("friction", "mass", "push", "gains")
    wanted = [name for name in known if name in kinds]
    if not wanted:
        return None
    events = SpotEventsCfg()
    for name in known:
        if name not in wanted:
            setattr(events, name, None)
    if events.push is not None:
        limits = (-PUSH_VELOCITY, PUSH_VELOCITY)
        events.push.params["velocity_range"] = {"xyz"[axis]: limits for axis in push_axes}
    return events
