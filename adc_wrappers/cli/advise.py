"""``adc advise``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console

from .gains import reasons_of, weigh_and_suggest
from .narrowness import ExplorationOptions, measure, narrowness_table, write_measurement
from .options import parse_settings

__all__ = ["Advise"]


@dataclass(frozen=True, kw_only=True)
class Advise:
    """Suggest K_0, L_min and L_max of the curriculum from random exploration at several stiffnesses."""

    task: tyro.conf.Positional[str]
    """Name of a task."""

    stiffness: tuple[float, ...] = ()
    """K that are looked at, the target first; by default five from the target to the K_0 of ``adc gains``."""

    gain: float = 0.9
    """K_0 is the smallest K with this share of what the range has to offer."""

    exploration: tyro.conf.OmitArgPrefixes[ExplorationOptions] = field(default_factory=ExplorationOptions)
    """How much."""

    seed: int = 0
    """Seed of everything that is drawn."""

    out: Path | None = None
    """Folder for picture and tables; by default runs/advice-TASK."""

    def run(self) -> int:
        """Measure, and suggest."""
        from adc_wrappers.viability import advise
        from adc_wrappers.viability.pictures import write_records

        console = Console(highlight=False, soft_wrap=True)
        stiffness, gains = self._look_at_gains()
        _, found, kernel, time_limit = measure(self.task, stiffness, self.exploration, self.seed)
        advice = advise(found, time_limit, gain=self.gain, seed=self.seed)
        console.print(narrowness_table(self.task, found, kernel))
        (low, high), (short, long) = advice.start_range, advice.length_min_range
        console.print(f"K_0   = {advice.start_stiffness:g}   ({low:g} to {high:g} in 95 % of resamples)")
        console.print(f"L_min = {advice.length_min:.0f}   ({short:.0f} to {long:.0f})")
        console.print(f"L_max = {advice.length_max:.0f}")
        for reason in (*advice.reasons, *gains):
            console.print(f"- {reason}", markup=False)
        console.print(
            f"adc train {self.task} --curriculum.start-stiffness {advice.start_stiffness:g} "
            f"--curriculum.length-min {advice.length_min:.0f} --curriculum.length-max {advice.length_max:.0f}"
        )
        folder = self.out or Path(f"runs/advice-{self.task}")
        for path in [
            *write_measurement(folder, self.task, found, kernel),
            write_records(folder / "advice.csv", [advice]),
        ]:
            console.print(f"{'plot' if path.suffix == '.png' else 'data'} {path}")
        return 0

    def _look_at_gains(self) -> tuple[tuple[float, ...], list[str]]:
        """Return the K to explore, and what ``adc gains`` says of them without measuring motions."""
        from adc_wrappers.gains import open_bench

        bench = open_bench(self.task, backend=self.exploration.backend, **parse_settings(self.exploration.set))
        try:
            _, suggestions = weigh_and_suggest(bench)
        finally:
            bench.close()
        most = min(item.ceiling for item in suggestions)
        chosen = self.stiffness
        if not chosen and len({item.stiffness for item in suggestions}) == 1:
            start = min(most, max(item.start_stiffness for item in suggestions))
            chosen = tuple(np.linspace(suggestions[0].stiffness, start, 5).tolist())
        reasons = [reason for reason in reasons_of(suggestions) if not reason.startswith("α")]
        return chosen, [f"by adc gains, {reason}" for reason in reasons] + [
            f"by adc gains, K may be {most:.3g} at most with the physics step of {bench.physics_step:g} s."
        ]
