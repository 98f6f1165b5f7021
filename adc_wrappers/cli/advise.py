"""``adc advise``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import tyro
from rich.console import Console

from .narrowness import ExplorationOptions, measure, narrowness_table, write_measurement

__all__ = ["Advise"]


@dataclass(frozen=True, kw_only=True)
class Advise:
    """Suggest K_0, L_min and L_max of the curriculum from random exploration at several stiffnesses."""

    task: tyro.conf.Positional[str]
    """Name of a task."""

    stiffness: tuple[float, ...] = ()
    """K that are looked at, the target first; by default five values from the target to the start of the curriculum."""

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
        _, found, kernel, time_limit = measure(self.task, self.stiffness, self.exploration, self.seed)
        advice = advise(found, time_limit, gain=self.gain, seed=self.seed)
        console.print(narrowness_table(self.task, found, kernel))
        (low, high), (short, long) = advice.start_range, advice.length_min_range
        console.print(f"K_0   = {advice.start_stiffness:g}   ({low:g} to {high:g} in 95 % of resamples)")
        console.print(f"L_min = {advice.length_min:.0f}   ({short:.0f} to {long:.0f})")
        console.print(f"L_max = {advice.length_max:.0f}")
        for reason in advice.reasons:
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
