"""Reading recorded trials, and what they say together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.runs.evaluation import wilson_interval

from .recorder import FORMAT

__all__ = ["Trial", "TrialError", "find_trials", "read_trial", "summarize"]

RECOVERY_SECONDS = 2.0
"""A push counts as recovered from if the robot is in the stance so long after it."""

_BOOTSTRAP = 2000


class TrialError(ValueError):
    """A folder that is no trial, or one that was not finished."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One recorded trial."""

    folder: Path
    source: str
    """``"robot"``, ``"practice robot"``, ``"simulation"`` or ``"shadow"``."""

    metadata: dict[str, Any]
    outcome: dict[str, Any]
    events: tuple[dict[str, Any], ...]


def read_trial(folder: Path) -> Trial:
    """Read the metadata of a trial.

    Raises:
        TrialError: The folder holds none, or one that was not finished.
    """
    path = folder / "trial.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TrialError(f"{folder} holds no trial: {path.name} cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise TrialError(f"{path} is not JSON ({error}).") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise TrialError(f"{path}: expected the format {FORMAT!r}; it was not written by `adc deploy`.")
    if not values.get("outcome"):
        raise TrialError(f"{folder}: the trial was not finished; its tables hold what was recorded until then.")
    events = tuple(values.pop("events", ()))
    return Trial(folder=folder, source=values["source"], outcome=values.pop("outcome"), events=events, metadata=values)


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
    """Return the statistics of trials of one kind.

    Rates have Wilson intervals, times the mean with a bootstrap interval, both at 95 %; trials are taken for
    independent.

    Args:
        trials: At least one.
        seed: Of the bootstrap.
    """
    if not trials:
        raise TrialError("expected at least one trial.")
    outcomes = [trial.outcome for trial in trials]
    reached = [outcome["time_to_stance"] for outcome in outcomes if outcome["time_to_stance"] is not None]
    recovered, pushes = _recoveries(trials)
    return {
        "trials": len(trials),
        "success": _rate(sum(outcome["success"] for outcome in outcomes), len(trials)),
        "transition": _rate(len(reached), len(trials)),
        "time_to_stance": _mean(reached, seed),
        "longest_hold": _mean([outcome["longest_hold"] for outcome in outcomes], seed),
        "retries": _mean([max(0, outcome["attempts"] - 1) for outcome in outcomes], seed),
        "pushes_recovered": _rate(recovered, pushes) if pushes else None,
        "modes": dict(Counter(outcome["mode"] for outcome in outcomes).most_common()),
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
            if event["event"] == "push recovered":
                recovered += bool(event["recovered"])
                pushes += 1
    return recovered, pushes
