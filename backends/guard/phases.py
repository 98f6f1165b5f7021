"""Phases of a stand: being taken over, on its way, or in the stance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

__all__ = ["PHASES", "PhaseTracker", "lean_and_side"]

PHASES: Final = ("takeover", "transition", "stance")

REACHED: Final = 20.0
"""Degrees from the wanted orientation within which the stance counts as reached."""

LEFT: Final = 45.0
"""Degrees beyond which it counts as left again, which is a new transition."""

DWELL: Final = 5
"""Policy steps for which the stance must be held to count as reached."""


def lean_and_side(gravity: Any, wanted: Sequence[float]) -> tuple[float, float]:
    """Return how a body is turned, degrees, from the direction of gravity in its frame.

    Args:
        gravity: Unit vector, ``(3,)``.
        wanted: The same in the stance: ``(1, 0, 0)`` nose down, ``(−1, 0, 0)`` tail down.

    Returns:
        The lean in the plane of symmetry, (−90, 270]: 0 standing level, 90 in the stance; the turn onto a side.

    Example:
        >>> lean_and_side([0.0, 0.0, -1.0], [1, 0, 0]), lean_and_side([1.0, 0.0, 0.0], [1, 0, 0])
        ((0.0, 0.0), (90.0, 0.0))
    """
    x, y, z = (float(value) for value in gravity)
    along = x * wanted[0]
    lean = float(np.rad2deg(np.arctan2(along, -z)))
    return lean + 360.0 if lean <= -90.0 else lean, float(np.rad2deg(np.arcsin(np.clip(y, -1.0, 1.0))))


class PhaseTracker:
    """The phases of one robot in a stand; before the policy acts, it is being taken over.

    Args:
        wanted: Direction of gravity in the body frame in the stance.
    """

    def __init__(self, wanted: Sequence[float]) -> None:
        self._wanted = tuple(float(value) for value in wanted)
        self.phase = "takeover"
        """The present phase, of :data:`PHASES`."""
        self._near = 0

    def take_over(self) -> None:
        """Begin anew, with the robot on its four feet."""
        self.phase, self._near = "takeover", 0

    def hand_to_policy(self) -> None:
        """Take note that the policy acts from now on."""
        self.phase, self._near = "transition", 0

    def turn(self, gravity: Any) -> tuple[float, float]:
        """Return lean and side of a state between two policy steps, degrees; the phase stays."""
        return lean_and_side(gravity, self._wanted)

    def look(self, gravity: Any) -> tuple[float, float]:
        """Take up the state after a policy step; returns lean and side, degrees."""
        lean, side = lean_and_side(gravity, self._wanted)
        error = float(np.rad2deg(np.arccos(np.clip(np.dot(gravity, self._wanted), -1.0, 1.0))))
        self._near = self._near + 1 if error < REACHED else 0
        if self.phase == "transition" and self._near >= DWELL:
            self.phase = "stance"
        elif self.phase == "stance" and error > LEFT:
            self.phase = "transition"
        return lean, side
