"""A study's verdict on the curriculum, in sentences that nobody had to write, and how far they can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .analysis import REFERENCE, ConditionNumbers
from .results import METRICS, Metric
from .statistics import Estimate

__all__ = ["FEW", "Verdict", "probability_note", "verdict_of"]

FEW = 5
"""With fewer runs of a condition than this, intervals of resampled runs say little and no verdict is given."""

_BASELINE = "train_at_target"
_HARDLY = 0.05


@dataclass(frozen=True)
class Verdict:
    """The verdict of a study."""

    kind: str
    """``"better"``, ``"worse"`` or ``"open"``: ADC beside training at the target stiffness."""

    text: str
    """In a few sentences."""

    warning: str
    """Why it is to be taken with care; empty where there is no reason."""


def verdict_of(numbers: Sequence[ConditionNumbers]) -> Verdict:
    """Compare ADC with training at K_*: by success, or by episode length where hardly a run of either succeeds."""
    rows = {row.condition.name: row for row in numbers}
    ours, base = rows.get(REFERENCE), rows.get(_BASELINE)
    if ours is None or base is None:
        missing = [name for name, row in ((REFERENCE, ours), (_BASELINE, base)) if row is None]
        text = f"No verdict on the curriculum: there is no finished run of {' and '.join(missing)}."
        return Verdict("open", f"{text} {_best(numbers, METRICS[0])}", _warning(numbers))
    metric = _deciding(ours, base)
    chance = base.beaten[metric.name]
    few = min(ours.runs, base.runs) < FEW
    kind = "open" if few or chance.low <= 0.5 <= chance.high else "better" if chance.value > 0.5 else "worse"
    sides = f"{metric.format(ours.iqm[metric.name].value)} against {metric.format(base.iqm[metric.name].value)}"
    judged = {
        "better": f"By {metric.label}, ADC is better than training at K_*",
        "worse": f"By {metric.label}, ADC is worse than training at K_*",
        "open": f"By {metric.label}, these runs do not tell ADC from training at K_*",
    }[kind]
    if few:
        judged = f"A first look, with too few runs for a verdict. ADC beside training at K_*, by {metric.label}"
    text = (
        f"{judged}: {sides} (interquartile means); a run of ADC scores higher than one at K_* with probability "
        f"{chance.value:.2f} ({probability_note(chance, ours.runs, base.runs)})."
    )
    return Verdict(kind, f"{text} {_best(numbers, metric)}", _warning(numbers))


def probability_note(chance: Estimate, first: int, second: int) -> str:
    """Return what is said behind a probability of improvement: its interval, where there is one to speak of.

    >>> probability_note(Estimate(1.0, 1.0, 1.0), 2, 2)
    '4 pairs, no interval'
    >>> probability_note(Estimate(1.0, 1.0, 1.0), 10, 10)
    'all 100 pairs'
    """
    pairs = first * second
    if min(first, second) < FEW:
        return f"{pairs} pairs, no interval"
    if chance.low == chance.high:  # every run of one is above every run of the other, so every resampling says the same
        return f"all {pairs} pairs"
    return f"{chance.low:.2f} to {chance.high:.2f}"


def _deciding(ours: ConditionNumbers, base: ConditionNumbers) -> Metric:
    success, length = METRICS[:2]
    return success if max(ours.mean[success.name][0], base.mean[success.name][0]) >= _HARDLY else length


def _best(numbers: Sequence[ConditionNumbers], metric: Metric) -> str:
    """Name the conditions that nobody is above, as it is printed."""
    values = {row.condition.title: metric.format(row.iqm[metric.name].value) for row in numbers}
    highest = metric.format(max(row.iqm[metric.name].value for row in numbers))
    best = [title for title, value in values.items() if value == highest]
    if len(best) == len(values):
        return f"All conditions have {highest}." if len(best) > 1 else ""
    return f"Highest of all: {'; '.join(best)} ({highest})."


def _warning(numbers: Sequence[ConditionNumbers]) -> str:
    fewest = min(row.runs for row in numbers)
    if fewest >= FEW:
        return ""
    if fewest == 1:
        return "There are conditions with one run only: a number of one run says nothing about the next."
    chance = math.comb(2 * fewest, fewest)
    return (
        f"There are conditions with {fewest} runs only. Of two conditions that are alike in truth, one has all its "
        f"runs above all of the other's in 2 of {chance} such comparisons, by chance: read the dots, not the "
        "intervals. `adc study run --seeds 10` goes on from here."
    )
