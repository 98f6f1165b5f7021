"""One audit from a policy to its files: verdict, spectra, picture."""

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

from adc_wrappers.core.files import write_atomically
from adc_wrappers.runs.folder import source_commit

from .limits import AuditLimits
from .measures import command_measures, latency_curve, power, spectrum, state_measures
from .playing import EpisodeRecords, play_episodes
from .verdict import Audit, file_digest, judge

__all__ = ["COMMAND_LATENCIES", "STATE_LATENCIES", "Findings", "audit_policy", "spectra_of"]

STATE_LATENCIES: Final = (0.0, 0.005, 0.01, 0.02)
COMMAND_LATENCIES: Final = (0.0, 0.006, 0.01, 0.02, 0.03, 0.04)
"""What is tried, s."""


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
