"""Numbers of a stance that change while it is learned: the cost of a fall, and how strict the robot's world is."""

from __future__ import annotations

from typing import Any, Final

from adc_wrappers.core.errors import CurriculumError

__all__ = ["FallCost", "Strictness"]

_RATE = 1.0 / 640.0
"""Weight of one policy step in the moving average of the share of robots in the stance."""

_FOUND, _COMMON = 0.3, 0.6
"""Shares of robots in the stance at which the cost of a fall has come down, and at which other weights are late."""


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

    @property
    def common(self) -> float:
        """How far the stance has become common, in [0, 1]: from 0 where it is found."""
        return min(max((self.share - _FOUND) / (_COMMON - _FOUND), 0.0), 1.0)

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


_UP, _DOWN = 0.75, 0.6
"""Shares of episodes without a fall above which the world gets stricter, and below which it gives way again.

Episodes, not robots in the stance: a robot that rises, holds the stance for two seconds and falls is in it for three
quarters of the time, and one that falls at its start is hardly seen beside those that stand for long."""

_IN_STANCE = 0.5
"""Share of robots in the stance below which the world does not get stricter: who stands on four feet does not fall."""

_EPISODE_RATE = 1.0 / 400.0
"""Weight of one episode in the moving average of those without a fall."""

_STEP = 1.0 / 12800.0
"""By how much in one policy step: from nothing to all of it in four hundred iterations of 32 steps at least."""

LOOSE: Final = 8.0
"""By what factor the limits of a command limiter are wider at level 0."""

_LEAST_COST: Final = 0.02
"""Share of the costs of rough motion at level 0."""


class Strictness:
    """The share of noise, latency, command limits and costs of rough motion in training, from nothing to all of it.

    It grows while robots are in the stance and most episodes end without a fall, stays where it is while more than half
    do, and gives way while fewer do: a policy that has found the stance without limits learns to do with them, and one
    that loses it gets it back. An evaluation has all of it.
    """

    def __init__(self) -> None:
        self.level = 0.0
        """In [0, 1]."""
        self.kept = 0.0
        """Moving average of the share of episodes that end without a fall."""

    @property
    def looseness(self) -> float:
        """Factor on the limits of a command limiter: 1 at level 1."""
        return float(LOOSE ** (1.0 - self.level))

    @property
    def cost_share(self) -> float:
        """Factor on the weights of costs of rough motion: 1 at level 1."""
        return _LEAST_COST + (1.0 - _LEAST_COST) * self.level

    def note_ends(self, falls: float, episodes: int) -> None:
        """Take note of episodes that ended, so many of them with a fall."""
        weight = 1.0 - (1.0 - _EPISODE_RATE) ** episodes
        if episodes:
            self.kept += weight * (1.0 - falls / episodes - self.kept)

    def note(self, share: float) -> None:
        """Move after a policy step, in which on average this share of robots is in the stance."""
        if self.kept > _UP and share > _IN_STANCE:
            self.level = min(self.level + _STEP, 1.0)
        elif self.kept < _DOWN:
            self.level = max(self.level - _STEP, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"level": self.level, "kept": self.kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it; a checkpoint of an older version does not know how many episodes had no fall."""
        for name in ("level", "kept"):
            value = state.get(name, 0.0 if name == "kept" else None)
            if not isinstance(value, float) or not 0.0 <= value <= 1.0:
                raise CurriculumError(f"task state: expected {name} in [0, 1], got {value!r}.")
            setattr(self, name, value)
