"""Viability as pictures and CSV files."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers.core.files import whole_file, write_atomically
from adc_wrappers.runs.pictures import pyplot

from .coverage import Coverage
from .narrowness import Narrowness
from .success import SuccessCurve

__all__ = [
    "draw_influence",
    "draw_narrowness",
    "draw_viability",
    "narrowness_rows",
    "survival_rows",
    "write_records",
    "write_rows",
    "write_success",
]


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a table; floats with six digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in row])
    write_atomically(path, text.getvalue().encode())
    return path


def write_records(path: Path, records: Sequence[Any]) -> Path:
    """Write dataclass instances of one kind, a column per field."""
    header = [field.name for field in dataclasses.fields(records[0])]
    return write_rows(path, header, ([getattr(record, name) for name in header] for record in records))


def write_success(folder: Path, curve: SuccessCurve) -> list[Path]:
    """Write p(ω_n), and the maps behind it, one row per start."""
    rates = zip(curve.frequencies, curve.rates.tolist(), curve.errors.tolist(), strict=True)
    angles, angular = curve.starts.axes()
    maps = (
        [angle, rate, *curve.maps[:, i, j].astype(int).tolist()]
        for i, angle in enumerate(angles.tolist())
        for j, rate in enumerate(angular.tolist())
    )
    return [
        write_rows(folder / "success.csv", ("natural_frequency", "success_rate", "error"), rates),
        write_rows(folder / "maps.csv", ("angle", "rate", *(f"{value:g}" for value in curve.frequencies)), maps),
    ]


def narrowness_rows(
    found: Sequence[Narrowness], kernel: Sequence[float] | None = None
) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows, one per stiffness."""
    header = ["stiffness", "epsilon_lower", "epsilon_upper", "interval_low", "interval_high", "alive_share"]
    header += ["coverage_lower", "coverage_upper", "random_length_mean", "random_length_median"]
    rows = []
    for item in found:
        numbers = [item.stiffness, item.lower, item.upper, *item.interval, item.alive_share, *item.coverage]
        rows.append([*numbers, float(item.lengths.mean()), float(sorted(item.lengths)[len(item.lengths) // 2])])
    if kernel is not None:
        header.append("epsilon_kernel")
        rows = [[*row, value] for row, value in zip(rows, kernel, strict=True)]
    return header, rows


def survival_rows(found: Sequence[Narrowness]) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows of the survival curves, one per policy step."""
    header = ["step", *(f"K={item.stiffness:g}" for item in found)]
    return header, [[step, *(float(item.survival[step]) for item in found)] for step in range(found[0].horizon + 1)]


_COLOURS = ("#9bb8d3", "#4b86b8", "#153e66")


def draw_viability(
    curve: SuccessCurve, shown: Sequence[float], coverage: Sequence[Coverage], bounds: Sequence[float], path: Path
) -> Path:
    """Draw the paper's figure: slices for some ω_n, and the success rate with what bounds it.

    Args:
        curve: p(ω_n).
        shown: The ω_n of the slices.
        coverage: The kernel's coverage, at any ω_n.
        bounds: The linearized plant's bound at each ω_n of the curve, so that no line is drawn past its points.
        path: The picture.
    """
    plt = pyplot("Drawing viability")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9), constrained_layout=True)
    angles, rates = curve.starts.axes()
    order = sorted(shown, reverse=True)
    colours = [_COLOURS[round(i * (len(_COLOURS) - 1) / max(1, len(order) - 1))] for i in range(len(order))]
    for frequency, colour in zip(order, colours, strict=True):
        inside = curve.maps[curve.frequencies.index(frequency)].T.astype(float)
        left.contourf(angles, rates, inside, levels=[0.5, 1.5], colors=[colour])
        left.plot([], [], "s", color=colour, label=f"$\\omega_n$ = {frequency:g}")
    left.set(xlabel="pole angle $\\theta_0$ (rad)", ylabel="pole rate $\\dot\\theta_0$ (rad/s)")
    left.set_title("starts that one LQR keeps inside the box", fontsize=10)
    left.legend(frameon=True, fontsize=8, loc="upper right")
    right.errorbar(
        curve.frequencies,
        curve.rates,
        curve.errors,
        fmt="o-",
        ms=3,
        lw=1.4,
        color="#153e66",
        capsize=2,
        label="p: one LQR",
    )
    if coverage:
        frequencies = [row.frequency for row in coverage]
        verified, error = [row.verified for row in coverage], [row.error for row in coverage]
        right.errorbar(
            frequencies, verified, error, fmt="s", ms=4, color="#c2571a", capsize=2, label="$C_T$: kernel, verified"
        )
    right.plot(curve.frequencies, bounds, "--", lw=1, color="0.5", label="bound of the linearized plant")
    right.set(xlabel="natural frequency $\\omega_n$ (rad/s)", ylabel="share of the starts", ylim=(0, 1), xlim=(0, None))
    right.legend(frameon=False, fontsize=8, loc="lower right")
    return _save(plt, figure, (left, right), path)


def draw_influence(curves: Mapping[str, Mapping[str, SuccessCurve]], path: Path) -> Path:
    """Draw p(ω_n) for groups of settings, one panel per group."""
    plt = pyplot("Drawing viability")
    columns = 3
    rows = -(-len(curves) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(9.6, 2.6 * rows), sharex=True, sharey=True, constrained_layout=True, squeeze=False
    )
    panels = list(grid.flat)
    for axes, (title, group) in zip(panels, curves.items(), strict=False):
        for label, curve in group.items():
            default = "default" in label
            style = {"color": "0.2", "lw": 2.0, "zorder": 1} if default else {"lw": 1.2, "marker": "o", "ms": 2.5}
            axes.plot(curve.frequencies, curve.rates, label=label, **style)
        axes.set_title(title, fontsize=9)
        axes.legend(frameon=False, fontsize=7)
        axes.set(xscale="log", ylim=(0, 1))
    for axes in panels[len(curves) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("$\\omega_n$ (rad/s)")
    for axes in grid[:, 0]:
        axes.set_ylabel("success rate p")
    return _save(plt, figure, panels, path)


def draw_narrowness(task: str, found: Sequence[Narrowness], path: Path, kernel: Sequence[float] | None = None) -> Path:
    """Draw the survival of random exploration, and the bounds of ε over K."""
    plt = pyplot("Drawing viability")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), constrained_layout=True)
    shades = plt.get_cmap("viridis")(np.linspace(0.85, 0.1, len(found)))
    for item, colour in zip(found, shades, strict=True):
        left.plot(item.survival, color=colour, lw=1.5, label=f"K = {item.stiffness:g}")
    left.set(xlabel="policy steps", ylabel="share alive", ylim=(0, 1.02), xlim=(0, found[0].horizon))
    left.set_title(f"{task}: random exploration", fontsize=10)
    left.legend(frameon=False, fontsize=8)
    stiffness = np.array([item.stiffness for item in found])
    lower, upper = np.array([item.lower for item in found]), np.array([item.upper for item in found])
    ends = np.array([item.interval for item in found])
    ends = np.stack((np.minimum(ends[:, 0], lower), np.maximum(ends[:, 1], upper)), axis=1)  # equal but for rounding
    right.fill_between(stiffness, lower, upper, color="#4b86b8", alpha=0.25, label="not decided")
    right.errorbar(
        stiffness, lower, [lower - ends[:, 0], 0 * lower], fmt="o-", color="#153e66", capsize=2, label="saved"
    )
    right.errorbar(
        stiffness, upper, [0 * upper, ends[:, 1] - upper], fmt="v-", color="#9bb8d3", capsize=2, label="not given up"
    )
    if kernel is not None:
        right.plot(stiffness, kernel, "s", ms=9, mfc="none", color="#c2571a", label="kernel", zorder=5)
    right.set(xlabel="stiffness K", ylabel="ε: viable share of visited states", ylim=(0, 1))
    right.legend(frameon=False, fontsize=8)
    return _save(plt, figure, (left, right), path)


def _save(plt: Any, figure: Any, panels: Sequence[Any], path: Path) -> Path:
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    with whole_file(path) as beside:
        figure.savefig(beside, dpi=120)
    plt.close(figure)
    return path
