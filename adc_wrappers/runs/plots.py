"""The two curves of a run: stiffness, and what drives it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adc_wrappers.core.errors import MissingExtraError

from .folder import RunFolder, RunFolderError

__all__ = ["plot_runs"]


def plot_runs(runs: Sequence[RunFolder], path: Path) -> tuple[Path, Path]:
    """Draw K(t) and episode length of one or several runs.

    Args:
        runs: The run folders.
        path: Where the PNG goes; the CSV with the plotted numbers goes beside it.

    Returns:
        The paths of the PNG and of the CSV.
    """
    try:
        import matplotlib

        matplotlib.use("Agg", force=False)
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("matplotlib", "viz", "Plotting") from error
    series = [_read(run) for run in runs]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7.2, 5.4), sharex=True, constrained_layout=True)
    for run, columns in zip(runs, series, strict=True):
        steps = columns["steps"]
        label = run.path.name
        (line,) = top.plot(steps, columns["stiffness"], label=label, linewidth=1.8)
        colour = line.get_color()
        bottom.plot(steps, columns["episode_length_mean"], ".", color=colour, alpha=0.35, markersize=4)
        bottom.plot(steps, columns["episode_length_ema"], color=colour, linewidth=1.8)
    _mark_gains(top, runs)
    top.set_ylabel("joint stiffness K")
    bottom.set_ylabel("episode length (policy steps)")
    bottom.set_xlabel("env steps")
    bottom.plot([], [], ".", color="0.5", label="mean of an iteration")
    bottom.plot([], [], color="0.5", label="moving average (drives K)")
    bottom.legend(frameon=False, loc="lower right")
    if len(runs) > 1:
        top.legend(frameon=False)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.set_ylim(bottom=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path, _write_csv(runs, series, path.with_suffix(".csv"))


def _read(run: RunFolder) -> dict[str, list[float]]:
    columns = run.metrics.read()
    if not columns or not columns["steps"]:
        raise RunFolderError(f"{run.path} has no metrics yet: there is nothing to plot.")
    return columns


def _mark_gains(axes: Any, runs: Sequence[RunFolder]) -> None:
    """Draw start and target stiffness where all runs share them and they are one number."""
    configs = [run.config()["curriculum"] for run in runs]
    for key, text in (("start_stiffness", "start $K_0$"), ("target_stiffness", "target $K_*$")):
        values = {config[key] for config in configs if isinstance(config[key], float)}
        if len(values) == 1:
            value = values.pop()
            axes.axhline(value, color="0.4", linestyle="--", linewidth=1)
            axes.annotate(
                f"{text} = {value:g}", (0.995, value), xycoords=("axes fraction", "data"),
                xytext=(0, 3), textcoords="offset points", ha="right", color="0.3", fontsize=9,
            )  # fmt: skip


def _write_csv(runs: Sequence[RunFolder], series: Sequence[dict[str, list[float]]], path: Path) -> Path:
    names = ["steps", "iteration", "stiffness", "progress", "episode_length_ema", "episode_length_mean"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", *names])
        for run, columns in zip(runs, series, strict=True):
            for row in zip(*(columns[name] for name in names), strict=True):
                writer.writerow([run.path.name, *row])
    return path
