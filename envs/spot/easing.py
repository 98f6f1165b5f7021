"""Numbers of a stance that change while it is learned: the cost of a fall, and how strict the robot's world is."""

from __future__ import annotations

from typing import Any, Final

from adc_wrappers.core.errors import CurriculumError

__all__ = ["FallCost", "Strictness"]

_RATE = 1.0 / 640.0
"""Weight of one policy step in the moving average of the share of robots in the stance."""

_FOUND = 0.3
"""Share of robots in the stance at which the cost has come down."""


class FallCost:
    """The cost of a fall: ``early`` until the stance is found, eased to ``late`` as the share of robots in it grows.

    While nothing is known a fall must cost more than standing about, or a policy learns to fall at once. Once the
    stance is found the same cost keeps it from daring: it would rather come down on its feet than balance.

    Args:
        early: The cost at first.
        late: The cost once the average share of robots in the stance has reached 30 %.
    """

    def __init__(self, early: float, late: float) -> None:
        self.early = early
        self.late = late
        self.share = 0.0
        """Moving average of the share of robots in the stance."""

    @property
    def eases(self) -> bool:
        """Whether there is anything to take note of."""
        return self.early != self.late

    @property
    def now(self) -> float:
        """The present cost."""
        return self.early + self.found * (self.late - self.early)

    @property
    def found(self) -> float:
        """How far the stance is found, in [0, 1]."""
        return min(self.share / _FOUND, 1.0)

    def note(self, holds: Any) -> None:
        """Take note of which robots are in the stance after a policy step, as an array or tensor of booleans."""
        self.share += _RATE * (float(holds.sum()) / len(holds) - self.share)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"stance_share": self.share}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        share = state.get("stance_share")
        if not isinstance(share, float) or not 0.0 <= share <= 1.0:
            raise CurriculumError(f"task state: expected stance_share in [0, 1], got {share!r}.")
        self.share = share


_UP, _DOWN = 0.9, 0.8
"""Shares of robots in the stance above which the world gets stricter, and below which it gives way again.

A robot that rises, holds the stance for two seconds and falls is in it for three quarters of the time. With 60 or 75 %
as the upper one the world got stricter before anybody had learned to balance, and episodes fell to two seconds."""

_STEP = 1.0 / 12800.0
"""By how much in one policy step: from nothing to all of it in four hundred iterations of 32 steps at least."""

LOOSE: Final = 8.0
"""By what factor the limits of a command limiter are wider at level 0."""

_LEAST_COST: Final = 0.02
"""Share of the costs of rough motion at level 0."""


class Strictness:
    """The share of noise, latency, command limits and costs of rough motion in training, from nothing to all of it.

    It grows while nearly all robots are in the stance, stays where it is while most of them are, and gives way while
    fewer are: a policy that has found the stance without limits learns to do with them, and one that loses it gets it
    back. An evaluation has all of it.
    """

    def __init__(self) -> None:
        self.level = 0.0
        """In [0, 1]."""

    @property
    def looseness(self) -> float:
        """Factor on the limits of a command limiter: 1 at level 1."""
        return float(LOOSE ** (1.0 - self.level))

    @property
    def cost_share(self) -> float:
        """Factor on the weights of costs of rough motion: 1 at level 1."""
        return _LEAST_COST + (1.0 - _LEAST_COST) * self.level

    def note(self, share: float) -> None:
        """Take note of the average share of robots in the stance after a policy step."""
        if share > _UP:
            self.level = min(self.level + _STEP, 1.0)
        elif share < _DOWN:
            self.level = max(self.level - _STEP, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"level": self.level}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        level = state.get("level")
        if not isinstance(level, float) or not 0.0 <= level <= 1.0:
            raise CurriculumError(f"task state: expected level in [0, 1], got {level!r}.")
        self.level = level
