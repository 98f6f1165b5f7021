"""Pictures of a run: its curves, how its episodes ended, frames of the commonest failures."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError, RunFolderError
from adc_wrappers.core.files import whole_file

from .episode_log import SUCCESS, Clip
from .evaluation import EvaluationResult
from .folder import RunFolder

__all__ = ["draw_failures", "plot_runs", "pyplot"]


def pyplot(what: str = "Plotting") -> Any:
    """Return ``matplotlib.pyplot``, drawing into files unless a program has chosen a window before.

    Args:
        what: What needs it, for the error.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg", force=False)
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("matplotlib", "viz", what) from error
    return plt


def plot_runs(runs: Sequence[RunFolder], path: Path) -> tuple[Path, Path]:
    """Draw K, episode length and, where there is any, success of one or several runs.

    Args:
        runs: The run folders.
        path: Where the PNG goes; the CSV with the plotted numbers goes beside it.

    Returns:
        The paths of the PNG and of the CSV.
    """
    plt = pyplot()
    series = [_read(run) for run in runs]
    panels = [_draw_stiffness, _draw_lengths]
    if any(_has_success(columns) for columns in series):
        panels.append(_draw_success)
    figure, all_axes = plt.subplots(
        len(panels), 1, figsize=(7.2, 2.7 * len(panels)), sharex=True, constrained_layout=True
    )
    for draw, axes in zip(panels, all_axes, strict=True):
        draw(axes, runs, series)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.set_ylim(bottom=0)
    all_axes[-1].set_xlabel("env steps")
    figure.align_ylabels()
    if len(runs) > 1:
        all_axes[0].legend(frameon=False)
    with whole_file(path) as beside:
        figure.savefig(beside, dpi=150)
    plt.close(figure)
    return path, _write_csv(runs, series, path.with_suffix(".csv"))


def _read(run: RunFolder) -> dict[str, list[float]]:
    columns = run.metrics.read()
    if not columns or not columns["steps"]:
        raise RunFolderError(f"{run.path} has no metrics yet: there is nothing to plot.")
    return columns


def _has_success(columns: dict[str, list[float]]) -> bool:
    """Whether an episode has ever been a success; an older run may not have the column."""
    return any(value > 0.0 for value in columns.get("success_ema", ()))


def _draw_stiffness(axes: Any, runs: Sequence[RunFolder], series: Sequence[dict[str, list[float]]]) -> None:
    for run, columns in zip(runs, series, strict=True):
        axes.plot(columns["steps"], columns["stiffness"], label=run.path.name, linewidth=1.8)
    _mark_gains(axes, runs)
    axes.set_ylabel("joint\nstiffness K")


def _draw_lengths(axes: Any, runs: Sequence[RunFolder], series: Sequence[dict[str, list[float]]]) -> None:
    for columns in series:
        (line,) = axes.plot(columns["steps"], columns["episode_length_ema"], linewidth=1.8)
        axes.plot(
            columns["steps"], columns["episode_length_mean"], ".", color=line.get_color(), alpha=0.35, markersize=4
        )
    axes.plot([], [], ".", color="0.5", label="mean of an iteration")
    axes.plot([], [], color="0.5", label="moving average")
    axes.legend(frameon=False, loc="lower right")
    axes.set_ylabel("episode length\n(policy steps)")


def _draw_success(axes: Any, runs: Sequence[RunFolder], series: Sequence[dict[str, list[float]]]) -> None:
    for columns in series:
        values = columns.get("success_ema") or [math.nan] * len(columns["steps"])
        axes.plot(columns["steps"], values, linewidth=1.8)
    axes.set_ylabel("success rate\n(moving average)")
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_formatter("{x:.0%}")


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
    names = ["steps", "iteration", "stiffness", "progress", "episode_length_ema", "episode_length_mean", "success_ema"]
    with whole_file(path) as beside, beside.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", *names])
        for run, columns in zip(runs, series, strict=True):
            blank = [math.nan] * len(columns["steps"])
            for row in zip(*(columns.get(name, blank) for name in names), strict=True):
                writer.writerow([run.path.name, *row])
    return path


FRAMES = 6
ROWS = 4


def draw_failures(
    result: EvaluationResult, draw_pose: Callable[[NDArray[np.float64]], NDArray[np.uint8]], path: Path, title: str
) -> Path:
    """Draw the counts of all modes, and below them the last seconds of an episode of each of the commonest failures.

    Args:
        result: The evaluation.
        draw_pose: From a pose of a clip to its picture (``Task.draw_pose``).
        path: Where the PNG goes.
        title: What was evaluated.
    """
    plt = pyplot("The picture of the failures")
    from PIL import Image  # matplotlib needs it too

    counts = result.mode_counts()
    shown = [mode for mode in sorted(result.clips, key=lambda mode: -counts[mode]) if counts[mode]][:ROWS]
    frames = {mode: _pick(result.clips[mode]) for mode in shown}
    pictures = {mode: [draw_pose(pose) for _, pose in picked] for mode, picked in frames.items()}
    chart_height = 0.55 + 0.26 * len(counts)
    heights = [chart_height] + [1.62] * len(shown)
    figure = plt.figure(figsize=(9.6, sum(heights)), constrained_layout=True)
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    _draw_counts(parts[0].subplots(), counts, title)
    for part, mode in zip(parts[1:], shown, strict=True):
        _draw_frames(part, result, mode, pictures[mode], [seconds for seconds, _ in frames[mode]])
    figure.set_dpi(100)
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    with whole_file(path) as beside:
        Image.fromarray(pixels).quantize(256).save(beside, optimize=True)  # a third of the size, and enough colours
    plt.close(figure)
    return path


def _pick(clip: Clip) -> list[tuple[float, NDArray[np.float64]]]:
    """Return evenly spaced poses and how many seconds before the end each is; the last is the end."""
    last = len(clip.poses) - 1
    chosen = np.unique(np.linspace(0, last, FRAMES).round().astype(int))
    return [((last - i) * clip.policy_step, clip.poses[i]) for i in chosen]


def _draw_counts(axes: Any, counts: dict[str, int], title: str) -> None:
    total = sum(counts.values())
    colours = ["#2a7f4f" if mode == SUCCESS else "#b5482f" for mode in counts]
    bars = axes.barh(list(counts), list(counts.values()), color=colours, height=0.7)
    labels = [f"{count}  ({count / total:.1%})" for count in counts.values()]
    axes.bar_label(bars, labels, padding=4, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.16 * max(counts.values()))
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("episodes", fontsize=9)


def _draw_frames(
    part: Any, result: EvaluationResult, mode: str, pictures: list[NDArray[np.uint8]], seconds: list[float]
) -> None:
    clip = result.clips[mode]
    text = f"{mode}: the end of episode {result.episode_number(clip)}, {clip.length} steps"
    part.suptitle(text, x=0.01, ha="left", fontsize=10)
    for axes in part.subplots(1, FRAMES).flat:
        axes.set_axis_off()
    for axes, picture, before in zip(part.axes, pictures, seconds, strict=False):
        axes.imshow(picture, interpolation="antialiased")
        axes.set_title(f"−{before:.2f} s" if before else "end", fontsize=8, pad=2)
