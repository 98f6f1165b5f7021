"""``adc plot``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from adc_wrappers.runs import RunFolder, RunFolderError

__all__ = ["Plot"]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw stiffness, episode length and success of one or several runs: PNG, and the CSV behind it."""

    run_folders: tyro.conf.Positional[tuple[Path, ...]]
    """The run folders that `adc train` made."""

    out: Path | None = None
    """Where the PNG goes; by default plots/curriculum.png in the first run folder."""

    def run(self) -> int:
        """Plot."""
        from adc_wrappers.runs.pictures import plot_runs

        if not self.run_folders:
            raise RunFolderError("name at least one run folder.")
        if self.out is not None and self.out.suffix != ".png":
            raise RunFolderError(f"--out expects a file name that ends in .png, got {self.out.name!r}.")
        runs = [RunFolder.open(path) for path in self.run_folders]
        picture, table = plot_runs(runs, self.out or runs[0].plots / "curriculum.png")
        Console(highlight=False, soft_wrap=True).print(f"plot {picture}\ndata {table}")
        return 0
