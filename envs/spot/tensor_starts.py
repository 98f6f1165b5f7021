"""Start states of the stances as tensors, drawn on their device; the same distribution as in numpy."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

import torch

from adc_wrappers.backends.base import RobotStart
from adc_wrappers.backends.spot_model import NOMINAL_POSE
from adc_wrappers.envs.spot.body import touchdown_height
from adc_wrappers.envs.spot.randomization import (
    ANGULAR_VELOCITY,
    JOINT_OFFSET,
    JOINT_VELOCITY,
    LINEAR_VELOCITY,
    POSITION,
)

__all__ = ["draw_start"]


@functools.cache
def _beside(device: str) -> dict[str, torch.Tensor]:
    """The numbers that are needed as tensors, sent to a device once."""
    with torch.inference_mode(False):
        return {
            name: torch.tensor(values, dtype=torch.float32, device=device)
            for name, values in (("joints", NOMINAL_POSE), ("linear", LINEAR_VELOCITY), ("angular", ANGULAR_VELOCITY))
        }


def draw_start(count: int, kinds: Collection[str], device: Any) -> RobotStart:
    """Return start states in which the lowest foot just touches the ground, as tensors.

    Args:
        count: How many.
        kinds: What is randomized, of :data:`adc_wrappers.envs.spot.randomization.KINDS`.
        device: Where.
    """
    numbers = _beside(str(device))

    def uniform(columns: int, limit: torch.Tensor | float) -> torch.Tensor:
        return torch.empty(count, columns, device=device).uniform_(-1.0, 1.0) * limit

    def zeros(columns: int) -> torch.Tensor:
        return torch.zeros(count, columns, device=device)

    joints = numbers["joints"].repeat(count, 1)
    moving = zeros(12)
    if "joints" in kinds:
        joints += uniform(12, JOINT_OFFSET)
        moving = uniform(12, JOINT_VELOCITY)
    plane = uniform(2, POSITION) if "pose" in kinds else zeros(2)
    yaw = uniform(1, torch.pi)[:, 0] if "pose" in kinds else zeros(1)[:, 0]
    linear = uniform(3, numbers["linear"]) if "velocity" in kinds else zeros(3)
    angular = uniform(3, numbers["angular"]) if "velocity" in kinds else zeros(3)
    nothing = torch.zeros_like(yaw)
    quaternion = torch.stack((torch.cos(yaw / 2), nothing, nothing, torch.sin(yaw / 2)), dim=1)
    position = torch.cat((plane, touchdown_height(quaternion, joints)[:, None]), dim=1)
    return RobotStart(position, quaternion, linear, angular, joints, moving)  # type: ignore[arg-type]
