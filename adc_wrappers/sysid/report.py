"""The report: a picture, the table behind it, JSON, a curriculum, and a page that shows them."""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers.core.files import whole_file, write_atomically, write_json
from adc_wrappers.runs.pictures import pyplot

from .result import Identification

__all__ = ["draw_report", "write_report"]

_MEASURED, _FITTED, _PLAIN = "0.15", "#c2571a", "#9bb8d3"


def write_report(found: Identification, folder: Path, *, start_ratio: float = 1.5) -> list[Path]:
    """Write identification, traces, picture and page, and a curriculum if the stiffness is known.

    Args:
        found: The identification.
        folder: Where to.
        start_ratio: Start stiffness over target in the curriculum.

    Returns:
        The files.
    """
    made = [folder / "identification.json", folder / "traces.csv"]
    write_json(made[0], found.to_dict())
    write_atomically(made[1], _traces(found).encode())
    if found.identified:
        made.append(folder / "curriculum.json")
        write_json(made[-1], found.curriculum(start_ratio).to_dict())
    picture = draw_report(found, folder / "report.png")
    page = folder / "report.html"
    write_atomically(page, _page(found, picture).encode())
    return [*made, picture, page]


def draw_report(found: Identification, path: Path) -> Path:
    """Draw measured against simulated traces of one leg, and every parameter in its bounds."""
    plt = pyplot("Drawing an identification")
    shown = min(3, len(found.joint_names))
    figure, grid = plt.subplots(3, shown, figsize=(10.5, 7.2), constrained_layout=True, squeeze=False)
    windows = found.windows
    chosen = np.flatnonzero(windows.log_index[windows.row_window] == 0)
    time = windows.logs[0].time[windows.row[chosen]] - windows.logs[0].time[0]
    for joint in range(shown):
        name = found.joint_names[joint]
        for row, (part, unit) in enumerate((("positions", "rad"), ("velocities", "rad/s"))):
            axes = grid[row, joint]
            measured = getattr(found.measured, part)[chosen, joint]
            plain = getattr(found.prediction_as_commanded, part)[0, chosen, joint]
            fitted = getattr(found.prediction, part)[0, chosen, joint]
            axes.plot(time, plain, color=_PLAIN, lw=1.0, label="simulated, gains as commanded")
            axes.plot(time, measured, color=_MEASURED, lw=1.6, label="measured")
            axes.plot(time, fitted, color=_FITTED, lw=1.0, ls="--", label="simulated, identified")
            axes.set_title(f"{name}, {part} ({unit})", fontsize=9)
            axes.set_xlabel("time (s)", fontsize=8)
    lines, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    for axes in grid[2]:
        axes.remove()
    _draw_parameters(figure.add_subplot(grid[2, 0].get_gridspec()[2, :]), found)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7)
    with whole_file(path) as beside:
        figure.savefig(beside, dpi=100)
    plt.close(figure)
    return path


def _draw_parameters(axes: Any, found: Identification) -> None:
    """Draw where each parameter is between its bounds, and its interval."""
    colours = {"identified": "#153e66", "weak": "#d69a2d", "not identified": "#b03030", "not judged": "0.4"}
    for place, parameter in enumerate(reversed(found.parameters)):
        low, high = parameter.bounds
        extent = high - low
        colour = colours[parameter.verdict]
        axes.plot([0, 1], [place, place], color="0.85", lw=5, solid_capstyle="butt")
        if parameter.lower is not None and parameter.upper is not None:
            ends = [max(0.0, (parameter.lower - low) / extent), min(1.0, (parameter.upper - low) / extent)]
            axes.plot(ends, [place, place], color=colour, lw=5, solid_capstyle="butt", alpha=0.6)
        axes.plot((parameter.value - low) / extent, place, "o", color=colour, ms=4)
    names = [f"{p.name} = {p.value:.4g} {p.unit}" for p in reversed(found.parameters)]
    axes.set_yticks(range(len(names)), names)
    axes.set(xlim=(-0.01, 1.01), xticks=[0, 1], xticklabels=["lower bound", "upper bound"])
    if found.loss_name == "trajectory":
        axes.set_title(f"parameters and their intervals, {found.confidence:.0%} for all together", fontsize=9)


def _traces(found: Identification) -> str:
    """Return measured and simulated positions and velocities at every row that was compared, as CSV."""
    windows = found.windows
    header = ["log", "row"]
    parts = []
    for part in ("positions", "velocities"):
        for label, table in (
            ("measured", getattr(found.measured, part)),
            ("identified", getattr(found.prediction, part)[0]),
        ):
            header += [f"{label}.{part}.{joint}" for joint in found.joint_names]
            parts.append(table)
    numbers = np.concatenate(parts, axis=1)
    logs = windows.log_index[windows.row_window]
    lines = [",".join(header)]
    lines += [
        f"{log},{row + 1}," + ",".join(f"{value:.6g}" for value in values)
        for log, row, values in zip(logs, windows.row, numbers, strict=True)
    ]
    return "\n".join(lines) + "\n"


def _page(found: Identification, picture: Path) -> str:
    """Return a page that needs no other file."""
    image = base64.b64encode(picture.read_bytes()).decode()
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(parameter)) + "</tr>"
        for parameter in found.parameters
    )
    warnings = "".join(f"<li>{html.escape(text)}</li>" for text in found.warnings) or "<li>none</li>"
    gains = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{kc:g}</td><td>{ks:.4g}</td><td>{bc:g}</td><td>{bs:.4g}</td></tr>"
        for name, kc, ks, bc, bs in zip(
            found.joint_names, found.commanded_stiffness, found.simulated_stiffness, found.commanded_damping,
            found.simulated_damping, strict=True,
        )
    )  # fmt: skip
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>System identification</title>'
        "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
        "td,th{padding:.15rem .8rem;text-align:left;border-bottom:1px solid #ddd}img{max-width:100%}</style>"
        f"<h1>System identification</h1><p>{html.escape('; '.join(found.sources))}</p>"
        f"<h2>Parameters</h2><table><tr><th>parameter<th>value<th>interval ({found.confidence:.0%} together)<th>unit"
        f"<th>bounds<th>verdict</tr>{rows}</table><h2>Warnings</h2><ul>{warnings}</ul>"
        f'<h2>Measured against simulated</h2><img alt="traces" src="data:image/png;base64,{image}">'
        "<h2>Gains</h2><table><tr><th>joint<th>commanded K<th>simulated K<th>commanded B<th>simulated B</tr>"
        f"{gains}</table></html>\n"
    )


def _cells(parameter: Any) -> tuple[str, ...]:
    interval = "–" if parameter.lower is None else f"{parameter.lower:.4g} to {parameter.upper:.4g}"
    verdict = parameter.verdict + (f", at its {parameter.at_bound} bound" if parameter.at_bound else "")
    low, high = parameter.bounds
    return parameter.name, f"{parameter.value:.4g}", interval, parameter.unit, f"{low:g} to {high:g}", verdict
