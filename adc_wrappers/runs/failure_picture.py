"""A picture of how episodes ended: how many in which way, and frames of the commonest failures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.files import whole_file

from .clips import Clip
from .episode_log import SUCCESS
from .evaluation import EvaluationResult

__all__ = ["draw_failures"]

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
    try:
        import matplotlib

        matplotlib.use("Agg", force=False)
        import matplotlib.pyplot as plt
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("matplotlib", "viz", "The picture of the failures") from error
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
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]  # type: ignore[attr-defined]
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
