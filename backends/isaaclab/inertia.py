"""Effective inertia of an Isaac Lab robot's joints, from the engine's mass matrix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from adc_wrappers.core.errors import BackendError

from .arrays import as_tensor

__all__ = ["joint_inertia", "mass_matrices"]


def joint_inertia(robot: Any, sim: Any) -> torch.Tensor:
    """Return M per joint: the mean over envs of the mass matrix's diagonal at the default joint positions.

    The robots are put into that pose and back. A floating base comes before the joints in the matrix; its pose does not
    matter to their entries.

    Args:
        robot: Isaac Lab's articulation.
        sim: The simulation context, or None if the pose need not be changed.
    """
    joints = len(robot.joint_names)
    with _default_pose(robot, sim):
        matrices, has_armature = mass_matrices(robot)
        offset = matrices.shape[-1] - joints
        if offset not in (0, 6):
            raise BackendError(
                f"expected a mass matrix over {joints} joints, with or without 6 coordinates of a floating base before "
                f"them, got {matrices.shape[-1]} columns."
            )
        inertia = torch.diagonal(matrices, dim1=-2, dim2=-1)[:, offset:].mean(dim=0)
    if not has_armature:
        inertia = inertia + as_tensor(robot.data.joint_armature).mean(dim=0).to(inertia.device)
    return inertia


def mass_matrices(robot: Any) -> tuple[torch.Tensor, bool]:
    """Return the mass matrix of every env at the present pose, and whether armature is in it."""
    if hasattr(robot, "num_base_dofs"):  # Isaac Lab 3
        return as_tensor(robot.data.mass_matrix).clone(), False
    view = getattr(robot, "root_view", None) or robot.root_physx_view
    for name in ("get_generalized_mass_matrices", "get_mass_matrices"):  # Isaac Sim 4.5 and later, and before
        if hasattr(view, name):
            return as_tensor(getattr(view, name)()).clone(), False
    raise BackendError(
        f"{type(view).__name__} gives no mass matrix. Pass the effective inertia yourself: "
        "IsaacLabBackend(env, inertia=[…])."
    )


@contextmanager
def _default_pose(robot: Any, sim: Any) -> Iterator[None]:
    """Put every robot into its default joint positions for a moment."""
    if sim is None:
        yield
        return
    position, velocity = as_tensor(robot.data.joint_pos).clone(), as_tensor(robot.data.joint_vel).clone()
    _place(robot, sim, as_tensor(robot.data.default_joint_pos).clone(), torch.zeros_like(velocity))
    try:
        yield
    finally:
        _place(robot, sim, position, velocity)


def _place(robot: Any, sim: Any, position: torch.Tensor, velocity: torch.Tensor) -> None:
    if hasattr(robot, "write_joint_position_to_sim_index"):
        robot.write_joint_position_to_sim_index(position=position)
        robot.write_joint_velocity_to_sim_index(velocity=velocity)
    else:
        robot.write_joint_state_to_sim(position, velocity)
    sim.forward()
    robot.update(0.0)
