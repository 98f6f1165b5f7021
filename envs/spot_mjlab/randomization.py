"""Randomization as event terms of mjlab: what lasts for an env's life, and pushes; the ranges are the shared ones."""

from __future__ import annotations

from typing import Any

import torch
from mjlab.managers.event_manager import RecomputeLevel, requires_model_fields

from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES
from adc_wrappers.envs.spot.randomization import COULOMB, FRICTION, MASS, PUSH_VELOCITY, VISCOUS

__all__ = ["base_mass", "friction", "joint_friction", "push"]


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
