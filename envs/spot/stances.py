"""The two-legged stances: which way is down, which feet carry, which are lifted."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HANDSTAND", "HINDSTAND", "Stance"]


@dataclass(frozen=True, kw_only=True)
class Stance:
    """A stance on two of Spot's feet."""

    name: str
    """What it is called."""

    gravity: tuple[float, float, float]
    """Direction of gravity in the body frame. Nose down is (+1, 0, 0), tail down is (−1, 0, 0)."""

    support_feet: tuple[str, str]
    """Feet that carry the robot."""

    lifted_feet: tuple[str, str]
    """Feet that must not touch the ground."""

    height: float = 0.75
    """Wanted height of the body's origin, m (the authors' code; the paper does not say)."""


HANDSTAND = Stance(
    name="handstand",
    gravity=(1.0, 0.0, 0.0),
    support_feet=("fl_foot", "fr_foot"),
    lifted_feet=("hl_foot", "hr_foot"),
)
"""The paper's: nose down on the front feet."""

HINDSTAND = Stance(
    name="hind-leg stand",
    gravity=(-1.0, 0.0, 0.0),
    support_feet=("hl_foot", "hr_foot"),
    lifted_feet=("fl_foot", "fr_foot"),
)
"""Its mirror: nose up on the hind feet."""
