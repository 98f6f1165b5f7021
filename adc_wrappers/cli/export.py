"""``adc export``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.console import Console

from adc_wrappers.runs import RunFolder

if TYPE_CHECKING:
    from adc_wrappers.policy import PolicyMetadata
    from adc_wrappers.policy.export import ExportReport

__all__ = ["Export"]


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a run's newest policy as one ONNX file that says everything needed to run it."""

    run_folder: tyro.conf.Positional[Path]
    """The run folder that `adc train` made."""

    out: Path | None = None
    """The policy file; by default policy.onnx in the run folder."""

    commanded_stiffness: tuple[float, ...] = ()
    """K that the robot is sent, N·m/rad: one number, or one per joint. It is not the simulated K."""

    commanded_damping: tuple[float, ...] = ()
    """B that the robot is sent, N·m·s/rad: one number, or one per joint."""

    device: str | None = None
    """Where a simulator of tensors runs meanwhile; by default where the policy was trained."""

    def run(self) -> int:
        """Export."""
        folder = RunFolder.open(self.run_folder)
        from adc_wrappers.policy.export import export_run

        report = export_run(
            folder,
            self.out if self.out is not None else folder.path / "policy.onnx",
            commanded_stiffness=_joint_values(self.commanded_stiffness),
            commanded_damping=_joint_values(self.commanded_damping),
            device=self.device,
        )
        _print_report(Console(highlight=False, soft_wrap=True), report)
        return 0


def _joint_values(values: tuple[float, ...]) -> float | tuple[float, ...] | None:
    if not values:
        return None
    return values[0] if len(values) == 1 else values


def _print_report(console: Console, report: ExportReport) -> None:
    metadata = report.metadata
    console.print(f"simulated gains  K {_short(metadata.simulated_stiffness)}, B {_short(metadata.simulated_damping)}")
    if metadata.commanded_stiffness is None or metadata.commanded_damping is None:
        console.print("commanded gains  unknown: --commanded-stiffness and --commanded-damping store them")
    else:
        stiffness, damping = _short(metadata.commanded_stiffness), _short(metadata.commanded_damping)
        console.print(f"commanded gains  K {stiffness}, B {damping}")
    console.print(f"equal to torch   within {report.largest_difference:.1e} on {report.observations} observations")
    remark = _remark(metadata)
    if remark:
        console.print(f"note             {remark}")
    console.print(f"policy           {report.path}")


def _remark(metadata: PolicyMetadata) -> str:
    """Say so where training ended before the curriculum arrived at the target."""
    progress = float(metadata.curriculum["progress"])
    if progress >= 1.0 or metadata.curriculum["config"]["driver"] == "uniform":
        return ""
    return f"training ended at progress {progress:.2f}, not yet at the target gains: see what `adc eval` says"


def _short(values: tuple[float, ...]) -> str:
    distinct = sorted(set(values))
    return f"{distinct[0]:g}" if len(distinct) == 1 else f"{distinct[0]:g} to {distinct[-1]:g}"
