"""How a trial went: its outcome, and the counts of a running one."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

__all__ = ["ENDINGS", "TrialBook", "TrialOutcome", "not_begun", "percentiles"]

ENDINGS: Final = {
    "time": "its time was over",
    "task": "the task ended the episode",
    "guard": "the guard stopped the policy",
    "refused": "nothing was driven: the connection, the preflight or the checks before power refused",
    "take-over": "the robot was powered, and the take-over failed before the policy acted",
    "interrupted": "somebody or a signal ended the program",
    "error": "the program failed",
    "died": "the program ended without a word: it was killed, or the computer was",
}
"""How a trial may end."""


@dataclass(frozen=True, kw_only=True)
class TrialOutcome:
    """How a trial went."""

    success: bool
    """Whether the task's success predicate held at the end of the time."""

    steps: int
    seconds: float
    """Policy time."""

    terminated: bool
    mode: str
    """``success``, a failure mode of the task, ``guard: …``, ``refused: …``, ``take-over: …``, ``interrupted`` or
    ``error: …``."""

    ended: str
    """What ended it, of :data:`ENDINGS`."""

    time_to_stance: float | None
    """Seconds until the stance was first held for a moment; None if never."""

    stance_seconds: float
    """Seconds in the stance, all in all."""

    longest_hold: float
    """Longest time in the stance without a break, s."""

    attempts: int
    """How often the stance was reached."""

    return_: float
    reason: str = ""
    """Why it did not go to its end, in words; empty if it did."""

    guard: dict[str, Any] | None = None
    """Why the guard ended it."""

    motors: str | None = None
    """What is known of the motors after the robot was closed; None before, and in simulation."""

    timing: dict[str, float] = field(default_factory=dict)
    """Percentiles of the period, of the policy's own time and of the streams' delays, ms, on the host's clock."""

    def to_dict(self) -> dict[str, Any]:
        """Return it for ``trial.json``."""
        values = asdict(self)
        values["return"] = values.pop("return_")
        return values


class TrialBook:
    """Counts of a running trial.

    Args:
        policy_step: Seconds.
        moment: Steps for which the stance must be held to count as reached.
    """

    def __init__(self, policy_step: float, moment: int) -> None:
        self._policy_step, self._moment = policy_step, moment
        self.steps = 0
        """Policy steps."""
        self.hold_now = 0
        """Steps for which the stance has been held without a break."""
        self._held = self._longest = 0
        self._first: int | None = None
        self._return = 0.0
        self._last = time.monotonic()
        self.period = 0.0
        """Host's time between the last two steps, s."""
        self._periods: list[float] = []
        self._inference: list[float] = []

    def note(self, holds: bool, reward: float, inference: float) -> None:
        """Take note of a step."""
        now = time.monotonic()
        self.period, self._last = now - self._last, now
        self._periods.append(self.period)
        self._inference.append(inference)
        self.steps += 1
        self._return += reward
        self._held += holds
        self.hold_now = self.hold_now + 1 if holds else 0
        self._longest = max(self._longest, self.hold_now)
        if self._first is None and self.hold_now >= self._moment:
            self._first = self.steps - self.hold_now + 1

    def outcome(
        self, success: bool, terminated: bool, mode: str, guard: dict[str, Any] | None, attempts: int, ended: str
    ) -> TrialOutcome:
        """Return how it went, with the counts so far."""
        seconds = self._policy_step
        return TrialOutcome(
            success=success, steps=self.steps, seconds=round(self.steps * seconds, 4), terminated=terminated, mode=mode,
            time_to_stance=None if self._first is None else round(self._first * seconds, 4),
            stance_seconds=round(self._held * seconds, 4), longest_hold=round(self._longest * seconds, 4),
            attempts=attempts, return_=self._return, guard=guard, ended=ended,
            reason="" if guard is None else guard["reason"],
            timing={**percentiles("period", self._periods[1:]), **percentiles("inference", self._inference)},
        )  # fmt: skip


def percentiles(name: str, values: list[float]) -> dict[str, float]:
    """Return p50, p95, p99 and the largest of some seconds, ms, as ``name_p50_ms`` and so on; nothing of nothing."""
    if not values:
        return {}
    ends = (50, 95, 99, 100)
    found = np.percentile(np.array(values) * 1e3, ends)
    return {f"{name}_p{end}_ms": round(float(value), 4) for end, value in zip(ends, found, strict=True)}


def not_begun(ended: str, mode: str, reason: str) -> TrialOutcome:
    """Return the outcome of an attempt that never came to a robot that could be driven."""
    return replace(TrialBook(0.0, 1).outcome(False, False, mode, None, 0, ended), reason=reason)
