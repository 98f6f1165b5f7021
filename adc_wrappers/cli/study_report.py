"""``adc study report``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

__all__ = ["StudyReport"]


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """Write a study's page, tables, numbers and pictures from whatever runs are finished."""

    folder: tyro.conf.Positional[Path]
    """The study's folder."""

    def run(self) -> int:
        """Report."""
        Console().print("nothing yet")
        return 0
