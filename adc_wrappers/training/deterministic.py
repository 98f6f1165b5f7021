"""Policies as they are evaluated and exported: the mean action, clipped to the action space."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch

__all__ = ["DeterministicPolicy"]


class DeterministicPolicy(torch.nn.Module):
    """The mean action of a policy, clipped to the action space.

    Args:
        mean: From a batch of observations to the mean actions, whichever library's it is.
        space: The action space of one env, a box.
    """

    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, mean: torch.nn.Module, space: gym.Space[Any]) -> None:
        super().__init__()
        if not isinstance(space, gym.spaces.Box):
            raise TypeError(f"expected a policy over a box of actions, got {space}.")
        self.mean = mean
        self.mean.eval()
        self.register_buffer("low", torch.as_tensor(space.low))
        self.register_buffer("high", torch.as_tensor(space.high))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the actions for a batch of observations."""
        return torch.clamp(self.mean(observation), self.low, self.high)
