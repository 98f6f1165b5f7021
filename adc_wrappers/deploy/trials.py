"""Trials on a robot: how one went, how they are read back, and what they say together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.reading import check_fields, read_object
from adc_wrappers.runs.evaluation import wilson_interval

from .recorder import FORMAT

__all__ = [
    "ENDINGS",
    "Trial",
    "TrialBook",
    "TrialError",
    "TrialOutcome",
    "find_trials",
    "not_begun",
    "percentiles",
    "read_trial",
    "summarize",
]


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
    """The outcome of a trial."""

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


RECOVERY_SECONDS = 2.0
"""A push counts as recovered from if the robot is in the stance so long after it."""

_BOOTSTRAP = 2000


class TrialError(ValueError):
    """A folder that is no trial."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One recorded trial."""

    folder: Path
    source: str
    """``"robot"``, ``"practice robot"``, ``"simulation"`` or ``"shadow"``."""

    metadata: dict[str, Any]
    outcome: dict[str, Any]
    events: tuple[dict[str, Any], ...]

    @property
    def group(self) -> str:
        """What it may be compared with: trials of the same source, clock and limits."""
        clock, limits = self.metadata.get("clock"), self.metadata.get("limits")
        if clock is None:
            return self.source
        return f"{self.source}, {clock}, {'limits not named' if limits is None else f'{limits} limits'}"

    @property
    def driven(self) -> bool:
        """Whether the policy acted."""
        return bool(self.outcome["steps"] > 0)


def read_trial(folder: Path) -> Trial:
    """Read the metadata of a trial; one without an outcome is of a program that died in it.

    Raises:
        TrialError: The folder holds none.
    """
    path = folder / "trial.json"
    if not path.is_file():
        raise TrialError(f"{folder} holds no trial: there is no {path.name}.")
    values = read_object(path, TrialError)
    if values.get("format") != FORMAT:
        raise TrialError(f"{path}: expected the format {FORMAT!r}; it was not written by `adc deploy`.")
    check_fields(_TrialKinds, values, str(path), TrialError, more=True)
    events = tuple(values.pop("events", ()))
    outcome = values.pop("outcome", None) or not_begun("died", "died", "the program ended without a word").to_dict()
    check_fields(_OutcomeKinds, outcome, f"{path}, outcome", TrialError, more=True)
    return Trial(folder=folder, source=values["source"], outcome=outcome, events=events, metadata=values)


@dataclass
class _TrialKinds:
    """Kinds of what ``trial.json`` holds."""

    source: str
    outcome: dict[str, Any] | None = None
    clock: str | None = None
    limits: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class _OutcomeKinds:
    """Kinds of what :func:`summarize` reads of an outcome."""

    success: bool
    steps: int
    mode: str
    time_to_stance: float | None
    longest_hold: float
    attempts: int
    timing: dict[str, float]
    ended: str | None = None
    motors: str | None = None


def find_trials(folders: Iterable[Path]) -> tuple[list[Trial], list[str]]:
    """Return the trials in and under folders, in order, and why others were left out."""
    found: list[Trial] = []
    problems: list[str] = []
    for folder in folders:
        paths = sorted(folder.rglob("trial.json"))
        if not paths:
            problems.append(f"{folder}: no trial.json in or under it")
        for path in paths:
            try:
                found.append(read_trial(path.parent))
            except TrialError as error:
                problems.append(str(error))
    return found, problems


def summarize(trials: Sequence[Trial], *, seed: int = 0) -> dict[str, Any]:
    """Return the statistics of trials of one kind: success is of all of them, times are of those that were driven.

    Rates have Wilson intervals, times the mean with a bootstrap interval, both at 95 %; trials are taken for
    independent.

    Args:
        trials: At least one.
        seed: Of the bootstrap.
    """
    if not trials:
        raise TrialError("expected at least one trial.")
    outcomes = [trial.outcome for trial in trials]
    driven = [trial.outcome for trial in trials if trial.driven]
    succeeded = sum(outcome["success"] for outcome in outcomes)
    reached = [outcome["time_to_stance"] for outcome in outcomes if outcome["time_to_stance"] is not None]
    recovered, pushes = _recoveries(trials)
    return {
        "trials": len(trials),
        "driven": _rate(len(driven), len(trials)),
        "success": _rate(succeeded, len(trials)),
        "success_driven": _rate(succeeded, len(driven)) if driven else None,
        "transition": _rate(len(reached), len(trials)),
        "time_to_stance": _mean(reached, seed),
        "longest_hold": _mean([outcome["longest_hold"] for outcome in driven], seed),
        "retries": _mean([max(0, outcome["attempts"] - 1) for outcome in driven], seed),
        "pushes_recovered": _rate(recovered, pushes) if pushes else None,
        "ended": dict(Counter(outcome.get("ended", "not recorded") for outcome in outcomes).most_common()),
        "modes": dict(Counter(outcome["mode"] for outcome in outcomes).most_common()),
        "motors": dict(Counter(outcome.get("motors") or "not recorded" for outcome in outcomes).most_common()),
        "timing": _timing(outcomes),
    }


def _rate(count: int, total: int) -> dict[str, Any]:
    return {"count": count, "of": total, "rate": count / total, "interval": list(wilson_interval(count, total))}


def _mean(values: Sequence[float], seed: int) -> dict[str, Any] | None:
    if not values:
        return None
    array: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(seed).choice(array, (_BOOTSTRAP, len(array))).mean(axis=1)
    low, high = np.percentile(draws, (2.5, 97.5))
    return {"mean": float(array.mean()), "interval": [float(low), float(high)], "of": len(array)}


def _timing(outcomes: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the median over trials of each percentile, and the largest of the largest."""
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome["timing"]))
    values = {name: [outcome["timing"][name] for outcome in outcomes if name in outcome["timing"]] for name in names}
    return {name: float(max(some) if "p100" in name else np.median(some)) for name, some in values.items()}


def _recoveries(trials: Sequence[Trial]) -> tuple[int, int]:
    """Return how many pushes were recovered from, of how many."""
    recovered = pushes = 0
    for trial in trials:
        for event in trial.events:
            if event.get("event") == "push recovered":
                recovered += bool(event.get("recovered"))
                pushes += 1
    return recovered, pushes
