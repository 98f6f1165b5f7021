"""``adc feasible``."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.core.files import write_atomically

if TYPE_CHECKING:
    from adc_wrappers.feasibility import StaticStance

__all__ = ["Feasible"]

_COLUMNS = (
    "task", "stiffness", "action_scale", "tilt_deg", "height", "clearance", "squeeze",
    "joint", "position", "torque", "torque_limit", "command", "offset",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Feasible:
    """Find the smallest action scale α with which joints of stiffness K can hold a stance on two feet."""

    task: tyro.conf.Positional[str] = "spot-handstand"
    """spot-handstand, spot-hindstand or spot-planar-handstand."""

    stiffness: tuple[float, ...] = (40.0, 60.0)
    """K of every joint, N·m/rad; one answer for each."""

    tolerance: float = 5.0
    """Degrees by which the body may lean away from upright."""

    clearance: float = 0.05
    """Least height of everything but the supporting feet and lower legs, m."""

    height: float = 0.0
    """Least height of the body's origin, m; the tasks reward 0.75."""

    friction: float = 0.3
    """Friction of the supporting feet; 0.3 is the least that the tasks draw."""

    seed: int = 0
    """Seed of the search."""

    out: Path | None = None
    """Write the postures joint by joint into this CSV file."""

    def run(self) -> int:
        """Search, and print what was found."""
        from adc_wrappers.feasibility import find_robot, find_stance, smallest_action_scale

        stance = find_stance(self.task)
        if not self.stiffness:
            raise CurriculumError("--stiffness: expected at least one number, got none.")
        if self.out is not None and self.out.suffix != ".csv":
            raise CurriculumError(f"--out expects a file name that ends in .csv, got {self.out.name!r}.")
        progress = track(self.stiffness, "searching", console=Console(stderr=True), transient=True)
        found = [
            smallest_action_scale(
                stance,
                value,
                tolerance=np.deg2rad(self.tolerance),
                clearance=self.clearance,
                height=self.height,
                friction=self.friction,
                seed=self.seed,
                robot=find_robot(self.task),
            )
            for value in progress
        ]
        console = Console(highlight=False, soft_wrap=True)
        console.print(_summary(self.task, found), *(_posture(item) for item in found))
        _print_presets(console, found)
        if self.out is not None:
            write_atomically(self.out, _as_csv(self.task, found).encode())
            console.print(f"data {self.out}")
        return 0


def _summary(task: str, found: list[StaticStance]) -> Table:
    table = Table(title=f"{task}: the least α that holds it with |a| ≤ 1", title_justify="left")
    for title in ("K", "α (rad)", "limiting joints", "tilt", "height (m)", "clearance (m)"):
        table.add_column(title)
    for item in found:
        table.add_row(
            f"{item.stiffness:g}",
            f"{item.action_scale:.3f}",
            " ".join(name for name in item.limiting_joints if _shown(name)),
            f"{np.rad2deg(item.tilt):.1f}°",
            f"{item.height:.3f}",
            f"{item.clearance:.3f}",
        )
    return table


def _posture(item: StaticStance) -> Table:
    legs = "torques are those of one leg" if item.robot.planar else "the right legs mirror the left"
    table = Table(title=f"Posture at K = {item.stiffness:g}; {legs}", title_justify="left")
    table.add_column("joint")
    for title in ("q (rad)", "τ (N·m)", "its limit", "q_d (rad)", "q_d − q_0"):
        table.add_column(title, justify="right")
    for index, name in enumerate(item.robot.joint_names):
        if _shown(name):
            table.add_row(
                name,
                f"{item.positions[index]:.3f}",
                f"{item.torques[index]:.1f}",
                f"{item.torque_limits[index]:.1f}",
                f"{item.commands[index]:.3f}",
                f"{item.offsets[index]:.3f}",
            )
    return table


def _shown(joint: str) -> bool:
    """Whether a joint is shown: those of right legs are the left ones' mirror images."""
    return joint[1] != "r"


def _print_presets(console: Console, found: list[StaticStance]) -> None:
    """Say for the action scales of the presets whether they suffice."""
    from adc_wrappers.envs.spot import PRESETS

    for name, preset in PRESETS.items():
        for item in found:
            needed = item.action_scale / preset.action_scale
            verdict = f"suffices, |a| ≤ {needed:.2f}"
            if needed > 1.0:
                verdict = f"does not suffice, it takes |a| = {needed:.2f}"
                if preset.action_limit >= needed:
                    verdict += f" (this preset clips at {preset.action_limit:g})"
            console.print(
                f"preset {name}, α = {preset.action_scale:g}: at K = {item.stiffness:g} {verdict}", markup=False
            )


def _as_csv(task: str, found: list[StaticStance]) -> str:
    """One row per stiffness and joint."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for item in found:
        whole = [item.action_scale, np.rad2deg(item.tilt), item.height, item.clearance, item.squeeze]
        joints = (item.positions, item.torques, item.torque_limits, item.commands, item.offsets)
        for index, name in enumerate(item.robot.joint_names):
            row = [f"{value:.6g}" for value in (*whole, *(column[index] for column in joints))]
            writer.writerow([task, f"{item.stiffness:g}", *row[: len(whole)], name, *row[len(whole) :]])
    return text.getvalue()
