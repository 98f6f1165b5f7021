"""``adc sysid``: fit, collect, validate."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.core.files import write_json

from .sysid_collect import Collect

if TYPE_CHECKING:
    from adc_wrappers.sysid import Identification, IdentifiedParameter, IdentifySettings, TraceErrors

__all__ = ["Sysid"]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Identify parameters from trajectory logs."""

    logs: tyro.conf.Positional[tuple[Path, ...]]
    """Logs of one robot, .csv or .parquet, each with its .json beside it."""

    free: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KIND[:SCOPE][=LOWER,UPPER]")] = (
        "stiffness", "damping:type", "coulomb:type", "delay",
    )  # fmt: skip
    """Free parameters: stiffness, damping (bounds as multiples of the commanded gains), armature, coulomb, viscous,
    delay, offset; shared by all joints, per joint type, or per joint."""

    loss: Literal["trajectory", "wasserstein", "mmd"] = "trajectory"
    """Row by row, or between distributions of joint positions and velocities."""

    torques: bool = False
    """Compare measured torques too; let viscous be free then."""

    window: float = 0.5
    """Seconds compared in one window."""

    burn_in: float = 0.2
    """Seconds simulated before, for the noise of the start to die away."""

    population: int | None = None
    """Candidates per generation of CMA-ES; by default 4 + 3 ln n for n numbers, at least 8."""

    generations: int = 60
    """Most generations; 0 leaves CMA-ES out, and Gauss-Newton begins in the middle of the bounds."""

    confidence: float = 0.95
    """Of all intervals together."""

    validate_with: tuple[Path, ...] = ()
    """Logs to validate with, best recorded at other gains."""

    start_ratio: float = 1.5
    """Start stiffness over target in the curriculum that is written."""

    model: Path | None = None
    """MJCF or URDF of a robot with Spot's joint names; by default Spot. Other robots: see docs/sysid.md."""

    seed: int = 0
    """Seed of the search."""

    resume: bool = False
    """Go on with a search that was interrupted."""

    out: Path | None = None
    """Folder; by default runs/sysid-LOG."""

    def run(self) -> int:
        """Read, search, report."""
        from adc_wrappers.sysid import identify, write_report
        from adc_wrappers.trajectories import read_log

        console = Console(highlight=False, soft_wrap=True)
        if not self.logs:
            raise CurriculumError("expected at least one log. `adc sysid collect` records them.")
        logs = [read_log(path) for path in self.logs]
        others = [read_log(path) for path in self.validate_with]
        settings = self._settings()
        folder = self.out or Path("runs") / f"sysid-{self.logs[0].stem}"
        state = folder / "search.json"
        if state.exists() and not self.resume:
            raise CurriculumError(f"{folder} has a search already. Go on with it (--resume), or choose another --out.")
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("searching", total=self.generations)

            def show(generation: int, loss: float, spread: float) -> None:
                bar.update(task, completed=generation, description=f"loss {loss:.4g}, spread {spread:.1%}")

            found = identify(logs, settings, state_file=state, on_generation=show)
        console.print(_parameter_table(found.parameters, found.confidence), _gain_table(found))
        _print_errors(console, found.errors, found.errors_as_commanded)
        for text in found.warnings:
            console.print(f"warning: {text}", markup=False)
        made = write_report(found, folder, start_ratio=self.start_ratio)
        if others:
            made.append(_validate(console, found, others, settings, folder))
        _print_next(console, found, self.start_ratio)
        for path in made:
            console.print(f"{'plot' if path.suffix == '.png' else 'data'} {path}")
        return 0 if found.identified else 1

    def _settings(self) -> IdentifySettings:
        from adc_wrappers.sysid import IdentifySettings, WindowSettings, parse_free

        return IdentifySettings(
            free=tuple(parse_free(text) for text in self.free),
            loss=self.loss,
            use_torques=self.torques,
            windows=WindowSettings(length=self.window, burn_in=self.burn_in),
            population=self.population,
            generations=self.generations,
            confidence=self.confidence,
            seed=self.seed,
            robot={} if self.model is None else {"model": self.model},
        )


@dataclass(frozen=True, kw_only=True)
class Validate:
    """Simulate a log that was not used under identified parameters."""

    identification: tyro.conf.Positional[Path]
    """An identification.json, or the folder it is in."""

    logs: tyro.conf.Positional[tuple[Path, ...]]
    """Logs, best recorded at other commanded gains."""

    model: Path | None = None
    """MJCF or URDF that the identification was made with; by default Spot."""

    def run(self) -> int:
        """Simulate and compare."""
        from adc_wrappers.sysid import load_identification
        from adc_wrappers.trajectories import read_log

        if not self.logs:
            raise CurriculumError("expected at least one log.")
        path = self.identification / "identification.json" if self.identification.is_dir() else self.identification
        saved = load_identification(path)
        logs = [read_log(log) for log in self.logs]
        console = Console(highlight=False, soft_wrap=True)
        settings = saved.with_robot({} if self.model is None else {"model": self.model})
        console.print(f"data {_validate(console, saved, logs, settings, path.parent)}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Sysid:
    """Identify a robot: collect a log, fit parameters, validate them."""

    command: tyro.conf.OmitSubcommandPrefixes[
        Annotated[Fit, tyro.conf.subcommand("fit")]
        | Annotated[Collect, tyro.conf.subcommand("collect")]
        | Annotated[Validate, tyro.conf.subcommand("validate")]
    ] = field()

    def run(self) -> int:
        """Run the chosen one."""
        return self.command.run()


def _validate(console: Console, found: Any, logs: Any, settings: IdentifySettings, folder: Path) -> Path:
    from adc_wrappers.sysid import validate

    validation = validate(found, logs, settings)
    console.print("Validation with logs that were not used:")
    _print_errors(console, validation.errors, validation.errors_as_commanded)
    console.print(_parameter_table(validation.refitted, settings.confidence, "fitted to them instead"))
    console.print(
        "The mapping of gains holds there too." if validation.agrees
        else "The mapping of gains does not hold there: the stiffness differs. Identify at the gains you deploy with."
    )  # fmt: skip
    path = folder / "validation.json"
    write_json(path, validation.to_dict())
    return path


def _parameter_table(
    parameters: tuple[IdentifiedParameter, ...], confidence: float, title: str = "identified"
) -> Table:
    table = Table(title=f"{title}; intervals hold for all together at {confidence:.0%}", title_justify="left")
    for name in ("parameter", "value", "interval", "unit", ""):
        table.add_column(name)
    for item in parameters:
        interval = "" if item.lower is None else f"{item.lower:.4g} to {item.upper:.4g}"
        note = item.verdict + (f", at its {item.at_bound} bound" if item.at_bound else "")
        table.add_row(item.name.replace("[", "\\["), f"{item.value:.4g}", interval, item.unit, note)
    return table


def _gain_table(found: Identification) -> Table:
    table = Table(title="gains: what is sent to the robot, and what a simulation needs", title_justify="left")
    for name in ("joint", "commanded K", "simulated K", "commanded B", "simulated B"):
        table.add_column(name, justify="right")
    rows = zip(
        found.joint_names, found.commanded_stiffness, found.simulated_stiffness, found.commanded_damping,
        found.simulated_damping, strict=True,
    )  # fmt: skip
    for name, *numbers in rows:
        table.add_row(name, *(f"{number:.4g}" for number in numbers))
    return table


def _print_errors(console: Console, ours: TraceErrors, plain: TraceErrors) -> None:
    console.print(
        f"trace errors, rms: positions {ours.position:.4g} rad, velocities {ours.velocity:.4g} rad/s; with the "
        f"commanded gains as they are {plain.position:.4g} and {plain.velocity:.4g}"
    )


def _print_next(console: Console, found: Identification, start_ratio: float) -> None:
    if not found.identified:
        console.print("The stiffness is not identified: no curriculum is written.", style="bold")
        return
    target = found.target_stiffness()
    if isinstance(target, float):
        console.print(
            f"adc train spot-handstand --curriculum.start-stiffness {start_ratio * target:.4g} "
            f"--curriculum.target-stiffness {target:.4g}"
        )
