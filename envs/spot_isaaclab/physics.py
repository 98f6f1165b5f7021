"""Physics engines of Isaac Lab, as configs."""

from __future__ import annotations

import importlib.util
from typing import Any, Literal

import isaaclab.sim as sim_utils

__all__ = ["Engine", "ground_material", "simulation_cfg"]

Engine = Literal["newton", "physx"]


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
