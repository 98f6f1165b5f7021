"""ε of the cart-pole by its kernel: what the estimate must bracket."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adc_wrappers.backends.cartpole import CartPoleModel
from adc_wrappers.envs.cart import CartTask
from adc_wrappers.envs.task import Task

from .kernel import KernelSettings, cartpole_kernel
from .narrowness import Narrowness
from .plant import CartPlant

__all__ = ["kernel_epsilon"]


def kernel_epsilon(task: Task, found: Sequence[Narrowness], points: int = 15) -> list[float] | None:
    """Return ε at each stiffness, with viability of the same visited states verified by the kernel.

    None where the task is not the cart-pole, or its horizon is no whole number of the kernel's stages.
    """
    if not isinstance(task, CartTask) or not isinstance(task.backend.model, CartPoleModel):
        return None
    rate, stage = 1.0 / task.policy_step, KernelSettings().stage
    if any(item.horizon % stage for item in found):
        return None
    shares = []
    for item in found:
        plant = CartPlant(
            natural_frequency=float(np.sqrt(item.stiffness / task.backend.model.cart_mass)),
            model=task.backend.model,
            damping_ratio=task.adc_config.damping_ratio,
            command_limit=task.settings.command_limit,
            position_limit=task.settings.position_limit,
            angle_limit=task.settings.angle_limit,
        )
        settings = KernelSettings(horizon=item.horizon / rate, command_rate=rate, points=points)
        viable = cartpole_kernel(plant, settings).verified(item.visited["state"])
        shares.append(item.alive_share * float(viable.mean()))
    return shares
