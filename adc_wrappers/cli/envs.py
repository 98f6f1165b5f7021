"""``adc envs``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from adc_wrappers.envs.registry import TASKS

__all__ = ["Envs"]


@dataclass(frozen=True, kw_only=True)
class Envs:
    """List the tasks, the engines they run on, and their settings."""

    def run(self) -> int:
        """List."""
        console = Console(highlight=False)
        for spec in TASKS.values():
            console.print(f"[bold]{spec.name}[/bold]  {spec.summary}")
            console.print(
                f"  backends: {', '.join((*spec.backends, *spec.native))}   Gymnasium id: {spec.gymnasium_id}"
            )
            table = Table("setting", "default", box=None, padding=(0, 2), show_header=True)
            for field in dataclasses.fields(spec.settings_class()):
                table.add_row(
                    field.name, f"{field.default:.6g}" if isinstance(field.default, float) else str(field.default)
                )
            console.print(table)
        return 0
