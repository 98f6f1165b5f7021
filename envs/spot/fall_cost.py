"""What a fall costs while a stance is being learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError

__all__ = ["FallCost"]

_RATE = 1.0 / 640.0
"""Weight of one policy step in the moving average of the share of robots in the stance."""

_FOUND = 0.3
"""Share of robots in the stance at which the cost has come down."""


class FallCost:
    """Costs ``early`` until the stance is found and eases to ``late`` as the share of robots in it grows.

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
        return self.early + min(self.share / _FOUND, 1.0) * (self.late - self.early)

    def note(self, holds: NDArray[np.bool_]) -> None:
        """Take note of which robots are in the stance after a policy step."""
        self.share += _RATE * (float(holds.mean()) - self.share)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"stance_share": self.share}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        share = state.get("stance_share")
        if not isinstance(share, float) or not 0.0 <= share <= 1.0:
            raise CurriculumError(f"task state: expected stance_share in [0, 1], got {share!r}.")
        self.share = share
