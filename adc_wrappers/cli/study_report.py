"""``adc study report``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["StudyReport"]


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """Write a study's page, tables, numbers and pictures from whatever runs are finished."""

    folder: tyro.conf.Positional[Path]
    """The study's folder: CONDITION/seedN/ are ordinary run folders with an evaluation."""

    out: Path | None = None
    """Where the report goes; by default into the folder `report` of the study."""

    films: bool = True
    """Film a policy of every condition, where that has not been done."""

    seed: int = 0
    """Seed of the bootstrap."""

    def run(self) -> int:
        """Report."""
        from adc_wrappers.study.analysis import analyse
        from adc_wrappers.study.report import write_report
        from adc_wrappers.study.texts import study_tables

        console = Console(highlight=False, soft_wrap=True)
        results, page = write_report(self.folder, self.out, films=self.films, seed=self.seed)
        for table in study_tables(results, analyse(results, seed=self.seed)):
            shown = Table(*table.head, title=Text(table.title), title_justify="left")
            for _, cells in table.rows:
                shown.add_row(*(Text(cell.text) for cell in cells))
            console.print(shown)
        others = ("report.md", "runs.csv", "conditions.csv", "curves.png", "estimates.png", "profiles.png")
        console.print(f"page   {page}\nbeside {', '.join(others)}, scores-….npz")
        return 0
