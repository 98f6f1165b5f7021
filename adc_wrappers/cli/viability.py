"""``adc viability``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from adc_wrappers.core.errors import CurriculumError

from .progress import narrow_table

if TYPE_CHECKING:
    from adc_wrappers.viability import CartPlant, Coverage, Inclusion, PairCheck, SuccessCurve

__all__ = ["Viability", "steps_shown"]

_QUICK: dict[str, Any] = {
    "frequencies": (1.0, 2.0, 4.0, 6.0, 10.0, 20.0),
    "start_points": 31,
    "influence": False,
    "kernel_frequencies": (2.0, 6.0, 20.0),
    "kernel_points": (9, 11),
    "pairs": ((2.5, 2.75), (6.0, 9.0)),
    "samples": 100,
}
"""What ``--quick`` sets where nothing else is said."""

_WIDE = (1.0, 2.0, 4.0, 6.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0)


@dataclass(frozen=True, kw_only=True)
class Viability:
    """Draw the paper's cart-pole figure, compute the viability kernel, and check the proposition."""

    system: tyro.conf.Positional[Literal["cartpole"]] = "cartpole"
    """The paper's representative system."""

    frequencies: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0)
    """Natural frequencies ω_n, rad/s; at each, K = M ω_n² and B = 2 M ω_n."""

    slices: tuple[float, ...] = (2.0, 6.0, 20.0)
    """Frequencies whose surviving starts are drawn."""

    start_angle: float = 0.8
    """Starts: θ_0 from − to + this, rad."""

    start_rate: float = 5.0
    """Starts: θ̇_0 from − to + this, rad/s."""

    start_points: int = 61
    """Points along each axis of the starts."""

    cart_mass: float = 1.0
    """M, kg."""

    pole_mass: float = 0.1
    """m, kg."""

    pole_length: float = 0.5
    """l, m."""

    command_limit: float = 1.0
    """Largest |x_d|, m."""

    force_limit: float = np.inf
    """Largest force on the cart, N."""

    position_limit: float = 1.0
    """Admissible |x|, m."""

    angle_limit: float = np.pi / 2
    """Admissible |θ|, rad."""

    weights: tuple[float, float, float, float] = (1.0, 0.1, 1.0, 0.1)
    """Diagonal of the outer LQR's Q."""

    effort: float = 10.0
    """R of the outer LQR."""

    command_rate: float | None = None
    """Hz at which the LQR's command is renewed and held; by default it follows the state continuously."""

    sampled_design: bool = False
    """Design the LQR for the held command."""

    horizon: float = 5.0
    """Seconds that the LQR must keep a start inside the box."""

    influence: bool = True
    """Vary one at a time what the paper leaves open."""

    kernel: bool = True
    """Compute the kernel, its coverage and whether kernels contain each other."""

    kernel_frequencies: tuple[float, ...] = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0)
    """ω_n of the kernels."""

    kernel_points: tuple[int, ...] = (11, 15, 21)
    """Points along each of the four axes; several, so that the numerical error shows."""

    kernel_horizon: float = 2.0
    """T of the kernels, s."""

    kernel_rate: float = 50.0
    """Commands per second of the kernels' discrete-time system."""

    proposition: bool = True
    """Check assumptions and conclusion of the paper's proposition."""

    pairs: tuple[tuple[float, float], ...] = (
        (2.5, 2.6),
        (2.5, 2.75),
        (2.5, 4.0),
        (2.5, 6.0),
        (6.0, 6.6),
        (6.0, 9.0),
        (6.0, 12.0),
    )
    """Pairs ω_1 ω_2 for that."""

    samples: int = 400
    """States sampled in each V_T(ω_1)."""

    seed: int = 0
    """Seed of those samples."""

    quick: bool = False
    """A first look: fewer frequencies, starts, grid points and pairs, nothing varied; what else is given wins."""

    out: Path = Path("runs/viability-cartpole")
    """Folder for pictures and tables."""

    def plant(self, frequency: float) -> CartPlant:
        """Return the plant at a natural frequency."""
        from adc_wrappers.backends.cartpole import CartPoleModel
        from adc_wrappers.viability import CartPlant

        return CartPlant(
            natural_frequency=frequency,
            model=CartPoleModel(cart_mass=self.cart_mass, pole_mass=self.pole_mass, pole_length=self.pole_length),
            command_limit=self.command_limit,
            force_limit=self.force_limit,
            position_limit=self.position_limit,
            angle_limit=self.angle_limit,
        )

    def run(self) -> int:
        """Compute, draw, print."""
        if self.quick:
            return self.coarse().run()
        if not set(self.slices) <= set(self.frequencies):
            raise CurriculumError(f"--slices: expected some of --frequencies, got {self.slices}.")
        console = Console(highlight=False, soft_wrap=True)
        made = [*self._figure(console)]
        if self.influence:
            made += self._influence()
        if self.proposition:
            made += self._proposition(console)
        for path in made:
            console.print(f"{'plot' if path.suffix == '.png' else 'data'} {path}")
        return 0

    def coarse(self) -> Viability:
        """Return what ``--quick`` computes: coarser values wherever the default stands."""
        usual = {each.name: each.default for each in fields(self)}
        changes = {name: value for name, value in _QUICK.items() if getattr(self, name) == usual[name]}
        return replace(self, quick=False, **changes)

    def _figure(self, console: Console) -> list[Path]:
        from adc_wrappers.viability import linear_bound, success_curve
        from adc_wrappers.viability.pictures import draw_viability, write_success

        starts, settings = self._starts(self.start_points), self._regulator()
        with steps_shown("simulating", len(self.frequencies)) as step:
            curve = success_curve(self.plant, self.frequencies, settings, starts, step)
        console.print(_success_table(curve))
        made = write_success(self.out, curve)
        coverage: list[Coverage] = []
        if self.kernel:
            coverage, paths = self._kernels(console)
            made += paths
        finest = [row for row in coverage if row.points == max(self.kernel_points)]
        bounds = [linear_bound(self.plant(frequency), starts) for frequency in curve.frequencies]
        return [draw_viability(curve, self.slices, finest, bounds, self.out / "viability.png"), *made]

    def _kernels(self, console: Console) -> tuple[list[Coverage], list[Path]]:
        from adc_wrappers.viability import (
            KernelSettings,
            common_states,
            compare_kernels,
            kernel_coverage,
            kernel_family,
        )
        from adc_wrappers.viability.pictures import write_records

        settings = KernelSettings(horizon=self.kernel_horizon, command_rate=self.kernel_rate)
        frequencies, points = sorted(self.kernel_frequencies), sorted(self.kernel_points)
        with steps_shown("computing kernels", 3 * len(frequencies) * len(points)) as step:
            kernels = kernel_family(self.plant, frequencies, settings, points, step)
            coverage = []
            for kernel in kernels.values():
                coverage.append(kernel_coverage(kernel, self._starts(min(self.start_points, 41))))
                step()
            states = common_states(self.plant(frequencies[0]))
            inclusions = [
                row for size in points for row in compare_kernels([kernels[f, size] for f in frequencies], states, step)
            ]
        console.print(_coverage_table(coverage, frequencies, points), _inclusion_table(inclusions))
        made = [write_records(self.out / "coverage.csv", coverage)]
        if inclusions:
            made.append(write_records(self.out / "inclusion.csv", inclusions))
        return coverage, made

    def _influence(self) -> list[Path]:
        from adc_wrappers.viability.pictures import draw_influence, write_rows
        from adc_wrappers.viability.success import VARIANTS, influence_curves

        with steps_shown("varying settings", sum(map(len, VARIANTS.values()))) as step:
            curves = influence_curves(self.plant, _WIDE, self._regulator(), self._starts(31), step)
        rows = [
            [group, name, frequency, rate, error]
            for group, variants in curves.items()
            for name, curve in variants.items()
            for frequency, rate, error in zip(
                curve.frequencies, curve.rates.tolist(), curve.errors.tolist(), strict=True
            )
        ]
        header = ("group", "setting", "natural_frequency", "success_rate", "error")
        table = write_rows(self.out / "influence.csv", header, rows)
        return [draw_influence(curves, self.out / "influence.png"), table]

    def _proposition(self, console: Console) -> list[Path]:
        from adc_wrappers.viability import KernelSettings, check_proposition
        from adc_wrappers.viability.pictures import write_records
        from adc_wrappers.viability.proposition import MARGINS

        settings = KernelSettings(horizon=self.kernel_horizon, command_rate=self.kernel_rate, points=15)
        total = len({low for low, _ in self.pairs}) * len(MARGINS) + len(self.pairs)
        with steps_shown("checking the proposition", total) as step:
            rows = check_proposition(
                self.plant, self.pairs, settings, samples=self.samples, seed=self.seed, progress=step
            )
        console.print(_proposition_table(rows))
        return [write_records(self.out / "proposition.csv", rows)]

    def _starts(self, points: int) -> Any:
        from adc_wrappers.viability import StartGrid

        return StartGrid(angle=self.start_angle, rate=self.start_rate, points=points)

    def _regulator(self) -> Any:
        from adc_wrappers.viability import RegulatorSettings

        return RegulatorSettings(
            weights=self.weights,
            effort=self.effort,
            command_rate=self.command_rate,
            sampled_design=self.sampled_design,
            horizon=self.horizon,
        )


@contextmanager
def steps_shown(text: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar on stderr and give the function that moves it by one."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda: bar.advance(task)


def _success_table(curve: SuccessCurve) -> Table:
    title = "p(ω_n): share of the starts that the LQR keeps inside the box"
    table = narrow_table(title, ("ω_n", "p", "± grid"))
    for frequency, rate, error in zip(curve.frequencies, curve.rates, curve.errors, strict=True):
        table.add_row(f"{frequency:g}", f"{rate:.3f}", f"{error:.3f}")
    return table


def _coverage_table(rows: list[Coverage], frequencies: list[float], points: list[int]) -> Table:
    sizes = [f"{kind}\n{size}⁴" for kind in ("value,", "verified,") for size in points]
    table = narrow_table("C_T(ω_n): share of the starts in the kernel", ("ω_n", *sizes, "± grid", "linear\nbound"))
    found = {(row.frequency, row.points): row for row in rows}
    for frequency in frequencies:
        line = [found[frequency, size] for size in points]
        table.add_row(
            f"{frequency:g}",
            *(f"{row.estimate:.3f}" for row in line),
            *(f"{row.verified:.3f}" for row in line),
            f"{line[-1].error:.3f}",
            f"{line[-1].outer:.3f}",
        )
    return table


def _inclusion_table(rows: list[Inclusion]) -> Table:
    heads: tuple[str, ...] = ("ω_1", "ω_2", "grid", "viable\nat ω_1", "at ω_2", "verified:\noutside", "of which\nfast")
    heads += ("by value:\noutside", "numerical")
    table = narrow_table("V_T(ω_1) in V_T(ω_2), on one common set of states", heads)
    for row in rows:
        shares = (row.viable_low, row.viable_high, row.outside, row.explained, row.outside_value, row.numerical)
        table.add_row(f"{row.low:g}", f"{row.high:g}", f"{row.points}⁴", *(f"{share:.1%}" for share in shares))
    return table


def _proposition_table(rows: list[PairCheck]) -> Table:
    heads: tuple[str, ...] = ("ω_1", "ω_2", "A1:\nδ > 0", "median\nδ", "median\nΔ", "one Δ\nfor all", "A2:\nΔ ≤ δ")
    heads += ("|x_d⁽²⁾|\n≤ x̄_d", "in\nV_T(ω_2)")
    title = "The proposition, linearized plant; shares of sampled states of V_T(ω_1)"
    table = narrow_table(title, heads)
    for row in rows:
        table.add_row(
            f"{row.low:g}",
            f"{row.high:g}",
            f"{row.margin_share:.1%}",
            f"{row.margin_median:.2f}",
            f"{row.correction_median:.2f}",
            f"{row.bound:.2f}",
            *(f"{share:.1%}" for share in (row.closeness_share, row.admissible_share, row.included_share)),
        )
    return table
