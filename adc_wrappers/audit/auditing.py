"""One audit from a policy to its files: verdict, spectra, pictures, two policies side by side."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.guard.limits import ByKind
from adc_wrappers.core.files import write_atomically
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.runs.pictures import pyplot

from .measures import command_measures, latency_curve, power, spectrum, state_measures
from .playing import EpisodeRecords, play_episodes
from .verdict import Audit, AuditLimits, file_digest, judge

__all__ = [
    "COMMAND_LATENCIES",
    "STATE_LATENCIES",
    "Findings",
    "audit_policy",
    "draw_audit",
    "draw_comparison",
    "spectra_of",
]

STATE_LATENCIES: Final = (0.0, 0.005, 0.01, 0.02)
COMMAND_LATENCIES: Final = (0.0, 0.006, 0.01, 0.02, 0.03, 0.04)
"""What is tried, s."""

_COLOURS: Final = {"hx": "#4477aa", "hy": "#ee6677", "kn": "#228833"}
_NAMES: Final = {"hx": "hips sideways", "hy": "hips along", "kn": "knees"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Findings:
    """An audit with what its picture shows."""

    audit: Audit
    """The verdict."""

    records: EpisodeRecords
    """The episodes."""

    spectra: dict[str, NDArray[np.float64]]
    """``frequency`` in Hz, and the power densities of ``targets`` and ``torques``."""

    def write_spectra(self, path: Path) -> None:
        """Write the spectra as a table."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["frequency_hz", "targets_rad2_per_hz", "torques_nm2_per_hz"])
        writer.writerows(
            zip(*(self.spectra[name].tolist() for name in ("frequency", "targets", "torques")), strict=True)
        )
        write_atomically(path, text.getvalue().encode())


def spectra_of(records: EpisodeRecords) -> dict[str, NDArray[np.float64]]:
    """Return frequencies and the densities of targets and torques."""
    frequency, targets = spectrum(records, "targets")
    return {"frequency": frequency, "targets": targets, "torques": spectrum(records, "torques")[1]}


def audit_policy(
    policy: Any,
    path: Path,
    limits: AuditLimits,
    *,
    episodes: int,
    latency_episodes: int,
    seed: int,
    steps: int | None = None,
    on_step: Callable[[int], None] | None = None,
) -> Findings:
    """Play episodes of a policy, measure them and judge.

    Args:
        policy: A policy file or the policy of a run.
        path: Where it came from.
        limits: What is accepted.
        episodes: Episodes with the training's randomization.
        latency_episodes: Episodes at each latency that is tried; 0 tries none, and no verdict is passed then.
        seed: Of start states and randomization.
        steps: Policy steps of an episode; by default the task's time limit.
        on_step: Told of every policy step.
    """
    guard = limits.guard
    records = play_episodes(policy, guard, episodes=episodes, seed=seed, steps=steps, on_step=on_step)
    latency = {}
    if latency_episodes:
        for which, tried in (("state_latency", STATE_LATENCIES), ("command_latency", COMMAND_LATENCIES)):
            curve = latency_curve(
                policy, guard, which, tried, episodes=latency_episodes, seed=seed + 1, steps=steps, on_step=on_step
            )
            latency[which] = [list(row) for row in curve]
    audit = Audit(
        policy=path.name,
        sha256=file_digest(path) if path.is_file() else None,
        limits=limits.name,
        guard_limits=guard.to_dict(),
        episodes=episodes,
        seed=seed,
        commands=command_measures(records, guard),
        states=state_measures(records, guard),
        power=power(records),
        stops=dict(Counter(stop.check for stop in records.stops)),
        success_rate=float(records.success.mean()),
        latency=latency,
        commit=source_commit(),
    )
    return Findings(audit=judge(audit, limits), records=records, spectra=spectra_of(records))


_FIRST, _SECOND = "#4477aa", "#ee6677"


def _of_kind(findings: Findings, part: str, kind: str) -> Any:
    """Return a part of every step at the joints of a kind, all in one row; joints come as hx, hy, kn leg by leg."""
    return np.abs(findings.records.of(part)[:, ByKind._fields.index(kind) :: 3]).ravel()


def _exceedance(axes: Any, findings: Findings, part: str, limits: Any, label: str) -> None:
    """Draw which share of all steps is beyond each value, one line for each kind of joint, limits dashed."""
    for kind, colour in _COLOURS.items():
        values = np.sort(_of_kind(findings, part, kind))
        kept = np.unique(np.linspace(0, len(values) - 1, 2000).astype(int))
        axes.plot(values[kept], 1.0 - kept / len(values), color=colour, label=_NAMES[kind])
        bound = limits if isinstance(limits, float) else getattr(limits, kind)
        axes.axvline(bound, color=colour, linestyle="--", linewidth=1)
    axes.set(xlabel=label, ylabel="share of joint steps beyond", yscale="log", ylim=(1e-5, 1.2))


def draw_audit(findings: Findings, limits: AuditLimits, path: Path) -> Path:
    """Draw slew, torque, joint speed, both spectra and latency into one picture."""
    plt = pyplot("the picture of an audit")
    figure, places = plt.subplots(2, 3, figsize=(13, 7.2), layout="constrained")
    guard, audit = limits.guard, findings.audit
    _exceedance(places[0, 0], findings, "slew", guard.slew, "slew of targets, rad per step")
    _exceedance(places[0, 1], findings, "predicted_share", guard.torque_share, "predicted torque / limit")
    speeds = guard.envelopes["stance"].joint_speed
    _exceedance(places[0, 2], findings, "speeds", speeds, "joint speed, rad/s (limits: in the stance)")
    places[0, 0].legend(fontsize=8)
    _draw_spectrum(places[1, 0], [(findings, _FIRST)], "targets", "rad²/Hz")
    _draw_spectrum(places[1, 1], [(findings, _FIRST)], "torques", "(N·m)²/Hz")
    for which, colour in (("state_latency", _FIRST), ("command_latency", _SECOND)):
        rows = audit.latency.get(which, [])
        label = which.replace("_latency", "s late")
        places[1, 2].plot([1e3 * row[0] for row in rows], [row[1] for row in rows], "o-", color=colour, label=label)
    places[1, 2].axvline(1e3 * limits.latency, color="grey", linestyle="--", linewidth=1)
    places[1, 2].set(xlabel="latency, ms", ylabel="success rate", ylim=(-0.02, 1.02))
    places[1, 2].legend(fontsize=8)
    verdict = "passes" if audit.passed else "FAILS"
    figure.suptitle(
        f"{audit.policy}: {verdict} the limits '{audit.limits}', {audit.episodes} episodes, success "
        f"{audit.success_rate:.0%}, stopped by the guard {sum(audit.stops.values()) / audit.episodes:.0%}"
    )
    return _save(plt, figure, path)


def _draw_spectrum(axes: Any, policies: list[tuple[Findings, str]], part: str, unit: str) -> None:
    for findings, colour in policies:
        name = findings.audit.policy
        frequency, density = findings.spectra["frequency"], findings.spectra[part]
        if np.isfinite(density).any():
            axes.plot(frequency[1:], density[1:], color=colour, label=name)
        else:
            axes.plot([], [], color=colour, label=f"{name}: episodes too short")
    axes.set(xlabel="frequency, Hz", ylabel=f"{part}, {unit}", yscale="log")
    axes.legend(fontsize=8)


def draw_comparison(one: Findings, other: Findings, path: Path) -> Path:
    """Draw the spectra of targets and of torques of two policies, one picture."""
    plt = pyplot("the picture of a comparison")
    figure, places = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    policies = [(one, _FIRST), (other, _SECOND)]
    _draw_spectrum(places[0], policies, "targets", "rad²/Hz")
    _draw_spectrum(places[1], policies, "torques", "(N·m)²/Hz")
    figure.suptitle("mean power density over joints: what is asked of them, and what they give")
    return _save(plt, figure, path)


def _save(plt: Any, figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
