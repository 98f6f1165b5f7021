"""Responses and suggested gains as a picture and CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers.core.files import whole_file
from adc_wrappers.runs.pictures import pyplot
from adc_wrappers.viability.pictures import write_rows

from .bench import Bench, JointWeight, Standing
from .responses import JointResponse
from .suggestion import GainSuggestion

__all__ = ["draw_gains", "gain_rows", "write_gains"]

_MEASURED, _FULL, _ANALYTIC, _LIMIT = "#153e66", "#c2571a", "0.55", "#9bb8d3"
_LEGEND = {"frameon": False, "fontsize": 8}


def gain_rows(
    bench: Bench,
    responses: Sequence[JointResponse],
    weights: Sequence[JointWeight],
    suggestions: Sequence[GainSuggestion],
    standing: Standing | None,
) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows, one per joint."""
    header = [
        "joint", "stiffness", "damping", "inertia", "rise_s", "rise_analytic_s", "rise_full_action_s", "overshoot",
        "delay_s", "bandwidth_hz", "bandwidth_analytic_hz", "step_error", "action_scale", "torque_limit",
        "saturation", "weight_torque", "weight_stiffness", "sag", "sag_standing", "stands",
        "suggested_K", "suggested_B", "suggested_alpha", "suggested_K0", "ceiling_K",
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for joint, (item, weight, gains) in enumerate(zip(responses, weights, suggestions, strict=True)):
        scale, limit = float(bench.action_scale[joint]), float(bench.torque_limits[joint])
        rows.append(
            [
                item.joint, item.stiffness, item.damping, item.inertia, item.rise, item.expected_rise, item.full_rise,
                item.overshoot, item.delay, item.bandwidth, item.expected_bandwidth, item.step_error, scale, limit,
                item.stiffness * scale / limit, weight.torque, weight.stiffness, weight.sag(item.stiffness),
                "" if standing is None else float(standing.sag[joint]), "" if standing is None else standing.stands,
                gains.stiffness, gains.damping, gains.action_scale, gains.start_stiffness, gains.ceiling,
            ]
        )  # fmt: skip
    return header, rows


def write_gains(
    folder: Path,
    bench: Bench,
    responses: Sequence[JointResponse],
    weights: Sequence[JointWeight],
    suggestions: Sequence[GainSuggestion],
    standing: Standing | None,
) -> list[Path]:
    """Write the picture, the table of joints, and the curves behind the picture."""
    steps = (
        [item.joint, float(time), float(step), float(full), float(ideal)]
        for item in responses
        for time, step, full, ideal in zip(item.times, item.step, item.full_step, item.expected, strict=True)
    )
    sines = (
        [item.joint, *map(float, row)]
        for item in responses
        for row in zip(item.frequencies, item.gain, item.phase, item.expected_gain, item.expected_phase, strict=True)
    )
    return [
        draw_gains(folder / "gains.png", bench, responses, weights, suggestions),
        write_rows(folder / "gains.csv", *gain_rows(bench, responses, weights, suggestions, standing)),
        write_rows(folder / "steps.csv", ("joint", "time_s", "step", "full_action", "analytic"), steps),
        write_rows(
            folder / "sines.csv", ("joint", "hz", "gain", "lag_deg", "gain_analytic", "lag_analytic_deg"), sines
        ),
    ]


def draw_gains(
    path: Path,
    bench: Bench,
    responses: Sequence[JointResponse],
    weights: Sequence[JointWeight],
    suggestions: Sequence[GainSuggestion],
) -> Path:
    """Draw steps and sines of kinds of joints, and for every joint K between what limits it from below and above."""
    plt = pyplot("Drawing gains")
    shown = _kinds(responses)
    figure = plt.figure(figsize=(10.5, 3.0 + 2.3 * len(shown)), constrained_layout=True)
    grid = figure.add_gridspec(len(shown) + 1, 2, height_ratios=[*[1.0] * len(shown), 1.25])
    for row, item in enumerate(shown):
        _draw_step(figure.add_subplot(grid[row, 0]), item, last=row == len(shown) - 1, first=row == 0)
        _draw_sines(figure.add_subplot(grid[row, 1]), item, last=row == len(shown) - 1, first=row == 0)
    _draw_bounds(figure.add_subplot(grid[-1, :]), weights, suggestions)
    figure.suptitle(f"{bench.name} in {bench.engine}: joints on the bench", fontsize=11)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    with whole_file(path) as beside:
        figure.savefig(beside, dpi=120)
    plt.close(figure)
    return path


def _kinds(responses: Sequence[JointResponse]) -> list[JointResponse]:
    """Return one joint of each kind: those whose K and M are alike within 10 % look alike, at most four."""
    kinds: list[JointResponse] = []
    for item in responses:
        ratios = ((item.stiffness / kind.stiffness, item.inertia / kind.inertia) for kind in kinds)
        if not any(max(abs(np.log(ratio)) for ratio in pair) < 0.1 for pair in ratios):
            kinds.append(item)
    return kinds[:4]


def _draw_step(axes: Any, item: JointResponse, *, first: bool, last: bool) -> None:
    milliseconds = 1e3 * item.times
    axes.plot(milliseconds, item.full_step, color=_FULL, lw=5.0, alpha=0.45, label="full action")
    axes.plot(milliseconds, item.expected, "--", color=_ANALYTIC, lw=2.5, label="analytic")
    axes.plot(milliseconds, item.step, color=_MEASURED, lw=1.0, label="small step")
    axes.set_ylabel(f"{item.joint}\nshare of the step", fontsize=9)
    axes.set(ylim=(-0.05, max(1.15, 1.05 * float(item.step.max()))), xlim=(0.0, milliseconds[-1]))
    axes.text(
        0.97, 0.08, f"K = {item.stiffness:.3g}, B = {item.damping:.3g}, M = {item.inertia:.3g}\n"
        f"rise {1e3 * item.rise:.0f} ms, delay {1e3 * item.delay:.1f} ms",
        transform=axes.transAxes, ha="right", fontsize=8,
    )  # fmt: skip
    if first:
        axes.set_title("step of the target", fontsize=10)
        axes.legend(loc="center right", **_LEGEND)
    if last:
        axes.set_xlabel("ms")


def _draw_sines(axes: Any, item: JointResponse, *, first: bool, last: bool) -> None:
    axes.loglog(item.frequencies, item.expected_gain, "--", color=_ANALYTIC, lw=2.5, label="analytic")
    axes.loglog(item.frequencies, item.gain, "o-", color=_MEASURED, ms=4, lw=1.0, label="measured")
    axes.axhline(np.sqrt(0.5), color=_LIMIT, lw=1.0)
    axes.axvline(item.bandwidth, color=_LIMIT, lw=1.0)
    axes.text(
        item.bandwidth, 0.99, f" {item.bandwidth:.2g} Hz", transform=axes.get_xaxis_transform(), va="top", fontsize=8
    )
    axes.set_ylabel("gain", fontsize=9)
    ticks = [float(f"{value:.2g}") for value in item.frequencies]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_yticks([0.2, 0.5, 1.0], ["0.2", "0.5", "1"])
    axes.set_yticks([], minor=True)
    if first:
        axes.set_title("sines: how much comes through", fontsize=10)
        axes.legend(loc="lower left", **_LEGEND)
    if last:
        axes.set_xlabel("Hz")


def _draw_bounds(axes: Any, weights: Sequence[JointWeight], suggestions: Sequence[GainSuggestion]) -> None:
    places = np.arange(len(suggestions))
    target = np.array([item.stiffness for item in suggestions])
    start = np.array([item.start_stiffness for item in suggestions])
    axes.vlines(places, target, start, color=_LIMIT, lw=6, alpha=0.6)
    axes.plot(places, start, "v", color=_FULL, label="$K_0$")
    axes.plot(places, target, "o", color=_MEASURED, label="$K_*$")
    axes.plot(
        places,
        [item.ceiling for item in suggestions],
        "_",
        color="0.3",
        ms=14,
        label="most that the physics step holds",
    )
    lost = np.array([max(0.0, -weight.stiffness) for weight in weights])
    if (lost > 0.0).any():
        axes.plot(places[lost > 0.0], lost[lost > 0.0], "x", color="#a02020", ms=7, label="taken by the weight")
    axes.set(yscale="log", ylabel="stiffness, N·m/rad (N/m)", xlim=(-0.6, len(places) - 0.4))
    axes.set_xticks(
        places,
        [item.joint for item in suggestions],
        rotation=30 if len(places) > 6 else 0,
        ha="right" if len(places) > 6 else "center",
        fontsize=8,
    )
    axes.set_title("suggested stiffness and what limits it", fontsize=10, loc="left")
    axes.margins(y=0.1)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=4, **_LEGEND)
