"""Failures of a two-legged stance: how an episode ends."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotBackend
from adc_wrappers.envs.task import EpisodeMonitor

from .stand import StandLogic
from .terms import Stance, tilt

__all__ = ["FAILURES", "StandMonitor", "StandSummary", "failure_mode", "lean_and_side"]

FAILURES = (
    "fell forward",
    "fell back",
    "fell sideways",
    "collapsed",
    "never lifted",
    "never upright",
    "retry",
)
"""Every failure mode of a stance; docs/evaluation.md defines them."""

MOMENT = 0.1
"""Seconds for which feet must be off the ground to count as lifted, and a stance must last to count as reached."""

FALL_WINDOW = 0.5
"""Seconds before the end of a fall that decide its direction."""


class StandSummary(NamedTuple):
    """The facts that decide how an episode failed."""

    fell: bool
    """Whether it was terminated."""

    lifted: bool
    """Whether the feet to be lifted were ever off the ground for a moment, with a supporting foot on it."""

    attempts: int
    """How often the stance was reached, counted anew after a lifted foot has come down."""

    lean_change: float
    """By how much the lean grew in the last half second, rad."""

    side_change: float
    """By how much the body turned onto a side in the last half second, rad."""

    side: float
    """How far it is turned onto a side at the end, rad."""


def failure_mode(episode: StandSummary) -> str:
    """Return the mode of a failed episode, of :data:`FAILURES`.

    >>> failure_mode(StandSummary(True, True, 1, lean_change=0.8, side_change=0.1, side=0.1))
    'fell forward'
    """
    if episode.fell:
        # the further a body lies on its side, the less its lean means
        if abs(episode.side_change) > abs(episode.lean_change) * np.cos(episode.side):
            return "fell sideways"
        if not episode.lifted:
            return "collapsed"
        return "fell forward" if episode.lean_change > 0.0 else "fell back"
    if not episode.lifted:
        return "never lifted"
    return "retry" if episode.attempts else "never upright"


def lean_and_side(gravity: Any, stance: Stance) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how bodies are turned, from the direction of gravity in the body frame, ``(n, 3)``.

    Returns:
        The lean in the plane of symmetry, (−π/2, 3π/2]: 0 standing level, π/2 in the stance, more beyond it; and
        the turn onto a side, [−π/2, π/2].
    """
    g = np.asarray(gravity, dtype=np.float64)
    along = g @ np.asarray(stance.gravity)
    lean = np.arctan2(along, -g[:, 2])
    lean = np.where(lean <= -np.pi / 2, lean + 2 * np.pi, lean)
    return lean, np.arcsin(np.clip(g[:, 1], -1.0, 1.0))


class StandMonitor(EpisodeMonitor):
    """A monitor of a stance's episodes.

    Args:
        backend: The robots.
        logic: What judges their steps.
    """

    failures: ClassVar[tuple[str, ...]] = FAILURES

    def __init__(self, backend: RobotBackend, logic: StandLogic) -> None:
        self._backend, self._logic, self._stance = backend, logic, logic.stance
        self._moment = max(1, round(MOMENT / backend.policy_step))
        self._window = max(1, round(FALL_WINDOW / backend.policy_step))
        count = backend.num_envs
        self._elapsed: NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        self._off_ground: NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        self._held: NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        self._held_total: NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        self._attempts: NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        self._may_count: NDArray[np.bool_] = np.ones(count, dtype=bool)
        self._lifted: NDArray[np.bool_] = np.zeros(count, dtype=bool)
        self._least_tilt: NDArray[np.float64] = np.full(count, np.pi)
        self._turns: NDArray[np.float64] = np.zeros((self._window + 1, 2, count))
        self._clock = 0

    def begin(self, env_ids: NDArray[np.int64]) -> None:
        """Forget the envs' last episodes."""
        for counts in (self._elapsed, self._off_ground, self._held, self._held_total, self._attempts):
            counts[env_ids] = 0
        self._may_count[env_ids] = True
        self._lifted[env_ids] = False
        self._least_tilt[env_ids] = np.pi

    def step(self) -> None:
        """Look at the robots after a step."""
        state = self._backend.state()
        down = self._logic.touch("lifted")
        lifted = ~down & self._logic.touch("support")
        self._off_ground = np.where(lifted, self._off_ground + 1, 0)
        self._lifted |= self._off_ground >= self._moment
        holds = self._logic.holds
        self._held = np.where(holds, self._held + 1, 0)
        self._held_total += holds
        reached = (self._held >= self._moment) & self._may_count
        self._attempts += reached
        self._may_count = (self._may_count & ~reached) | down
        self._least_tilt = np.fmin(self._least_tilt, np.asarray(tilt(state, self._stance.gravity)))
        self._turns[self._clock % len(self._turns)] = lean_and_side(state.projected_gravity, self._stance)
        self._clock += 1
        self._elapsed += 1

    def summary(self, env_id: int, *, fell: bool) -> StandSummary:
        """Return what decides how the running episode of an env failed, if it ended now."""
        back = min(self._window, int(self._elapsed[env_id]) - 1)
        last = self._clock - 1
        lean, side = self._turns[last % len(self._turns), :, env_id]
        then_lean, then_side = self._turns[(last - back) % len(self._turns), :, env_id]
        turned = float((lean - then_lean + np.pi) % (2 * np.pi) - np.pi)
        return StandSummary(
            fell, bool(self._lifted[env_id]), int(self._attempts[env_id]), turned, float(side - then_side), float(side)
        )

    def failure(self, env_id: int, *, terminated: bool) -> str:
        """Return how the episode failed."""
        return failure_mode(self.summary(env_id, fell=terminated))

    def numbers(self, env_id: int) -> dict[str, float]:
        """Return how often and how long the stance was reached, and the least angle from it."""
        return {
            "attempts": int(self._attempts[env_id]),
            "stance_seconds": round(float(self._held_total[env_id]) * self._backend.policy_step, 4),
            "least_tilt_deg": round(float(np.rad2deg(self._least_tilt[env_id])), 3),
        }
