"""A start stiffness and episode-length thresholds for the curriculum, from what random exploration meets at each K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError

from .narrowness import Narrowness

__all__ = ["Advice", "advise"]

_RESAMPLES = 2000
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Advice:
    """Suggested settings of the curriculum."""

    start_stiffness: float
    """K_0."""
    start_range: tuple[float, float]
    """95 % of the K_0 that other samples of the same size would have given (bootstrap)."""
    length_min: float
    length_min_range: tuple[float, float]
    """95 % interval of the mean random episode at K_0 (bootstrap)."""
    length_max: float
    reasons: tuple[str, ...]
    """One for each of the three."""


def advise(found: Sequence[Narrowness], time_limit: int, *, gain: float = 0.9, seed: int = 0) -> Advice:
    """Suggest K_0, L_min and L_max.

    K_0 is the smallest K with which ε has made ``gain`` of its way from K_* to the largest value in the range. Where
    ε does not grow beyond its sampling error, the mean length of random episodes decides; where that does not grow
    either, K_0 is K_*.

    Args:
        found: One estimate per stiffness, K_* first, in rising order.
        time_limit: Policy steps in an episode.
        gain: Share of the way.
        seed: Seed of the bootstrap.
    """
    stiffness = [item.stiffness for item in found]
    if len(found) < 2 or sorted(set(stiffness)) != stiffness:
        raise CurriculumError(f"advice: expected at least two stiffnesses in rising order, K_* first, got {stiffness}.")
    if not 0.0 < gain <= 1.0:
        raise CurriculumError(f"gain: expected a share above 0 and up to 1, got {gain}.")
    rng = np.random.default_rng(seed)
    chosen, spread, reason = _start_stiffness(found, gain, rng)
    lengths = found[chosen].lengths.astype(np.float64)
    ends = np.quantile([_resample(lengths, rng).mean() for _ in range(_RESAMPLES)], (0.025, 0.975))
    length_max, about_max = _length_max(found[0], time_limit)
    return Advice(
        start_stiffness=stiffness[chosen],
        start_range=spread,
        length_min=float(lengths.mean()),
        length_min_range=(float(ends[0]), float(ends[1])),
        length_max=length_max,
        reasons=(f"K_0: {reason}", _about_min(found[chosen]), about_max),
    )


def _start_stiffness(
    found: Sequence[Narrowness], gain: float, rng: np.random.Generator
) -> tuple[int, tuple[float, float], str]:
    """Return which estimate has K_0, the range that resampling gives, and the reason."""
    stiffness = np.array([item.stiffness for item in found])
    saved = [item.alive_share * (item.visited_lives >= item.horizon).astype(np.float64) for item in found]
    lengths = [item.lengths.astype(np.float64) for item in found]
    for values, name in ((saved, "ε"), (lengths, "the mean random episode")):
        if not _grows(values):
            continue
        means = np.array([part.mean() for part in values])
        chosen, top = _saturation(means, gain), int(means.argmax())
        again = [
            _saturation(np.array([_resample(part, rng).mean() for part in values]), gain) for _ in range(_RESAMPLES)
        ]
        low, high = np.quantile(stiffness[again], (0.025, 0.975))
        reason = (
            f"{name} goes from {means[0]:.3g} at K_* = {stiffness[0]:g} to {means[top]:.3g} at K = {stiffness[top]:g}; "
            f"{stiffness[chosen]:g} is the smallest K with {gain:.0%} of that gain ({means[chosen]:.3g})."
        )
        if chosen == len(found) - 1:
            reason += " It is the largest K that was looked at: try larger ones too."
        return chosen, (float(low), float(high)), reason
    reason = (
        f"neither ε nor the length of random episodes grows from K = {stiffness[0]:g} to {stiffness[-1]:g} beyond its "
        "sampling error: by this measure stiffer joints do not help, so K_0 = K_*."
    )
    return 0, (float(stiffness[0]), float(stiffness[0])), reason


def _grows(values: Sequence[_Array]) -> bool:
    """Whether the largest mean exceeds the first by more than 1.96 standard errors of the difference."""
    means = [float(part.mean()) for part in values]
    top = int(np.argmax(means))
    error = np.sqrt(sum(float(part.var()) / len(part) for part in (values[0], values[top])))
    return bool(means[top] - means[0] > 1.96 * error)


def _saturation(means: _Array, gain: float) -> int:
    """Return the first index at which ``gain`` of the way from the first to the largest mean is made."""
    return int(np.argmax(means >= means[0] + gain * (means.max() - means[0]) - 1e-12))


def _resample(values: _Array, rng: np.random.Generator) -> _Array:
    return values[rng.integers(0, len(values), len(values))]


def _about_min(item: Narrowness) -> str:
    text = f"L_min: random episodes at K = {item.stiffness:g} last {item.lengths.mean():.0f} steps on average"
    if item.survival[-1] > 0.0:
        text += f" (counted up to {item.horizon}, which {item.survival[-1]:.0%} of them reach)"
    return text + "; K should not begin to fall before the policy does better than chance."


def _length_max(target: Narrowness, time_limit: int) -> tuple[float, str]:
    low, high = target.coverage
    text = (
        "L_max: K arrives at K_* only if the mean episode reaches L_max, so it stays 10 % below the time limit "
        f"of {time_limit}"
    )
    if high < 1.0:
        text += f"; {1.0 - high:.0%} of the starts look lost at K_* whatever one does, which lowers it further"
    if low < 0.9:
        text += (
            f". Of {len(target.start_lives)} starts at K_* the search could save {low:.0%} for {target.horizon} steps: "
            "if a trained policy does no better, lower L_max, or K never arrives"
        )
    return 0.9 * high * time_limit, text + "."
