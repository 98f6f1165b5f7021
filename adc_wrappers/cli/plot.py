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
    """The run folders that `adc train` made; what else lies among them (runs/*) is left out, and named."""

    out: Path | None = None
    """Where the PNG goes; by default plots/curriculum.png in the first run folder."""

    def run(self) -> int:
        """Plot."""
        from adc_wrappers.runs.pictures import plot_runs

        if not self.run_folders:
            raise RunFolderError("name at least one run folder.")
        if self.out is not None and self.out.suffix != ".png":
            raise RunFolderError(f"--out expects a file name that ends in .png, got {self.out.name!r}.")
        console = Console(highlight=False, soft_wrap=True)
        runs = [RunFolder.open(path) for path in self._chosen(console)]
        picture, table = plot_runs(runs, self.out or runs[0].plots / "curriculum.png")
        console.print(f"plot {picture}\ndata {table}")
        return 0

    def _chosen(self, console: Console) -> list[Path]:
        """Return the folders that are runs with something to draw, or all if there is none, to be told why."""
        runs = [path for path in self.run_folders if not path.exists() or _is_run(path)]
        for path in set(self.run_folders) - set(runs) if runs else ():
            console.print(f"left out {path}: {_other(path)}", markup=False)
        return runs or list(self.run_folders)


def _is_run(path: Path) -> bool:
    return (path / "config.json").exists() and bool(RunFolder(path).metrics.read().get("steps"))


def _other(path: Path) -> str:
    """Say what lies among runs."""
    if (path / "study.json").exists():
        return f"a study; its report: adc study report {path}"
    return "a run without metrics yet" if (path / "config.json").exists() else "not a run folder"
