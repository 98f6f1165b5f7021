"""Spots as tensors, what simulators that keep them so have in common: late targets, turned vectors, places by name."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from adc_wrappers.core.errors import BackendError

from .base import MAX_COMMAND_DELAY

__all__ = ["LateTargets", "places", "turn"]


class LateTargets:
    """Position targets on their way to the robots, by whole physics steps, each robot's its own.

    Until the first targets arrive, a robot holds the pose of its start.

    Args:
        held: Targets that the robots hold now, ``(n, joints)``.
        decimation: Physics steps in one policy step.
    """

    def __init__(self, held: torch.Tensor, decimation: int) -> None:
        self._decimation, self._step = decimation, 0
        kept = 1 + -(-MAX_COMMAND_DELAY // decimation)
        self._recent = held.repeat(kept, 1, 1)
        """Targets of the last policy steps, the newest first."""
        self._robots = torch.arange(len(held), device=held.device)
        self.delays = torch.zeros(len(held), dtype=torch.long, device=held.device)
        """Physics steps by which targets come late, ``(n,)``."""

    def send(self, targets: torch.Tensor) -> None:
        """Begin a policy step."""
        self._recent[1:] = self._recent[:-1].clone()
        self._recent[0] = targets
        self._step = 0

    def arriving(self) -> torch.Tensor:
        """Return the targets of the next physics step."""
        missing = (self.delays - self._step).clamp_(min=0)
        age = torch.div(missing + self._decimation - 1, self._decimation, rounding_mode="floor")
        self._step += 1
        return self._recent[age, self._robots]

    def begin(self, held: torch.Tensor, delays: torch.Tensor, rows: torch.Tensor) -> None:
        """Drop what is under way to chosen robots, and give them delays."""
        self._recent.index_copy_(1, rows, held.expand(len(self._recent), *held.shape))
        self.delays.index_copy_(0, rows, delays)


def turn(quaternion: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Turn ``(n, 3)`` vectors by unit quaternions w x y z."""
    axis = quaternion[:, 1:]
    cross = torch.cross(axis, vectors, dim=-1)
    return vectors + 2.0 * (quaternion[:, :1] * cross + torch.cross(axis, cross, dim=-1))


def places(names: Sequence[str], among: Sequence[str], what: str) -> torch.Tensor:
    """Return where names are among others.

    Raises:
        BackendError: One is not there.
    """
    missing = [name for name in names if name not in among]
    if missing:
        raise BackendError(f"the robot lacks the {what}s {missing}; it has {list(among)}.")
    return torch.tensor([list(among).index(name) for name in names])
