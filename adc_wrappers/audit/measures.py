"""Numbers of recorded episodes: how far commands and states go, spectra, and what latency costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.guard import GuardLimits
from adc_wrappers.backends.guard.limits import PHASES, ByKind
from adc_wrappers.backends.limiter import JointTable
from adc_wrappers.backends.spot_model import SPOT

from .playing import EpisodeRecords, play_episodes

__all__ = ["command_measures", "latency_curve", "power", "spectrum", "state_measures"]

_Array = NDArray[np.float64]
_JOINTS: Final = JointTable(SPOT)
_KINDS: Final = {kind: [i for i, name in enumerate(_JOINTS.names) if name.endswith(kind)] for kind in ByKind._fields}
_WINDOW: Final = 128
"""Policy steps of one piece of a spectrum."""


def _measure(values: _Array, limit: float, *, least: bool = False) -> dict[str, float]:
    """Return the worst value, its limit, and the share of steps beyond it; of values ``(steps, …)``."""
    flat = values.reshape(len(values), -1)
    beyond = (flat < limit if least else flat > limit).any(axis=1)
    worst = flat.min() if least else flat.max()
    return {"worst": float(worst), "limit": float(limit), "share": float(beyond.mean())}


def command_measures(records: EpisodeRecords, limits: GuardLimits) -> dict[str, dict[str, float]]:
    """Return how far targets go, by name: worst value, limit, share of steps beyond.

    Reaches are judged by those of the transition, which are the same in every phase of the named limits.
    """
    targets = records.of("targets")
    beyond = np.maximum(_JOINTS.lower - targets, targets - _JOINTS.upper)
    found = {"target beyond the range, rad": _measure(beyond, limits.beyond_stop)}
    reach = limits.envelopes["transition"].reach
    for name, part, bounds in (
        ("slew of {}, rad per step", "slew", limits.slew),
        ("change of slew of {}, rad per step", "slew_change", limits.slew_change),
        ("reach of {}, rad", "reach", reach),
    ):
        values = np.abs(records.of(part))
        for kind, columns in _KINDS.items():
            found[name.format(kind)] = _measure(values[:, columns], getattr(bounds, kind))
    found["predicted torque / limit"] = _measure(records.of("predicted_share"), limits.torque_share)
    return found


def state_measures(records: EpisodeRecords, limits: GuardLimits) -> dict[str, dict[str, float]]:
    """Return what the robots do, against the envelope of each phase, and joint speeds against a standing robot's."""
    positions = records.of("positions")
    beyond = np.maximum(_JOINTS.lower - positions, positions - _JOINTS.upper)
    found = {
        "joint beyond its range, rad": _measure(beyond, limits.beyond_range),
        "torque / limit": _measure(records.of("torque_share"), limits.measured_torque_share),
    }
    speeds, turned, base = np.abs(records.of("speeds")), records.of("lean_and_side"), records.of("base")
    for kind, columns in _KINDS.items():
        standing = getattr(limits.envelopes["takeover"].joint_speed, kind)
        found[f"speed of {kind} against standing, rad/s"] = _measure(speeds[:, columns], standing)
    for phase in PHASES[1:]:
        inside = records.of("phase") == PHASES.index(phase)
        if not inside.any():
            continue
        envelope = limits.envelopes[phase]
        for kind, columns in _KINDS.items():
            bound = getattr(envelope.joint_speed, kind)
            found[f"{phase}: speed of {kind}, rad/s"] = _measure(speeds[inside][:, columns], bound)
        found[f"{phase}: lean back, °"] = _measure(turned[inside, :1], envelope.lean[0], least=True)
        found[f"{phase}: lean forward, °"] = _measure(turned[inside, :1], envelope.lean[1])
        found[f"{phase}: turn onto a side, °"] = _measure(np.abs(turned[inside, 1:]), envelope.side)
        found[f"{phase}: body's speed, m/s"] = _measure(base[inside, :1], envelope.speed)
        found[f"{phase}: turn rate, rad/s"] = _measure(base[inside, 1:2], envelope.turn_rate)
        found[f"{phase}: height, m"] = _measure(base[inside, 2:3], envelope.height, least=True)
    return found


def power(records: EpisodeRecords) -> dict[str, float]:
    """Return the mechanical power of all joints, whatever its sign: mean, 99th percentile and largest, W."""
    watts = records.of("base")[:, 3]
    return {"mean": float(watts.mean()), "p99": float(np.percentile(watts, 99)), "largest": float(watts.max())}


def spectrum(records: EpisodeRecords, part: str) -> tuple[_Array, _Array]:
    """Return frequencies in Hz and the mean power density of a part over joints and pieces of 2.56 s.

    Densities are one-sided, of pieces without their mean under a Hann window, in the part's unit squared per Hz;
    nothing if no episode is that long.
    """
    values, window = records.parts[part].astype(np.float64), np.hanning(_WINDOW)
    total: _Array = np.zeros(_WINDOW // 2 + 1)
    count = 0
    for episode in range(values.shape[1]):
        length = int(records.alive[:, episode].sum())
        for begin in range(0, length - _WINDOW + 1, _WINDOW // 2):
            piece = values[begin : begin + _WINDOW, episode]
            found = np.fft.rfft((piece - piece.mean(axis=0)) * window[:, None], axis=0)
            total += (np.abs(found) ** 2).mean(axis=1)
            count += 1
    frequencies: _Array = np.fft.rfftfreq(_WINDOW, records.policy_step).astype(np.float64)
    scale = 2.0 * records.policy_step / float((window**2).sum())
    return frequencies, total * (scale / count if count else np.nan)


def latency_curve(
    policy: Any,
    limits: GuardLimits,
    which: str,
    seconds: Sequence[float],
    *,
    episodes: int,
    seed: int,
    steps: int | None = None,
    on_step: Callable[[int], None] | None = None,
) -> list[tuple[float, float]]:
    """Return the success rate at each of some fixed latencies, with the policy's other randomization as in training.

    Args:
        policy: The policy.
        limits: Of the guard that looks on.
        which: ``"state_latency"`` or ``"command_latency"``; the other is none.
        seconds: The latencies.
        episodes: Episodes at each of them.
        seed: Of start states.
        steps: Policy steps of an episode.
        on_step: Told of every policy step.
    """
    other = {"state_latency": "command_latency", "command_latency": "state_latency"}[which]
    settings = _settings_of(policy)
    kinds = [kind for kind in settings.randomized() if kind not in ("delay", "latency")]
    curve = []
    for value in seconds:
        given = {"randomize": [*kinds, "latency"], which: (value, value), other: (0.0, 0.0)}
        records = play_episodes(
            policy, limits, episodes=episodes, seed=seed, settings=given, steps=steps, on_step=on_step
        )
        curve.append((float(value), float(records.success.mean())))
    return curve


def _settings_of(policy: Any) -> Any:
    from adc_wrappers.envs.registry import find_task

    return find_task(policy.config.task).build_settings(policy.config.settings)
