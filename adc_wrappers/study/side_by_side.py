"""Two conditions side by side: one picture of their training and evaluation, one film of both policies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.files import whole_file
from adc_wrappers.envs.registry import make_env
from adc_wrappers.runs import RunFolder
from adc_wrappers.runs.pictures import pyplot
from adc_wrappers.runs.recording import Film, film_episode
from adc_wrappers.training import load_trained
from adc_wrappers.training.evaluating import pin_and_check

from .job import Job
from .pictures import FILM_SEED, condition_colours
from .results import METRICS, RunRecord, StudyResults

__all__ = ["RunsWatch", "draw_side_by_side", "film_side_by_side", "verdict"]

_PANELS = (
    ("stiffness", "K"),
    ("holding", "share of steps\nin the wanted state"),
    ("episode_length_mean", "episode length"),
)
_WATCH_EVERY = 1.0
_CAPTION = 26


class RunsWatch(AbstractContextManager["RunsWatch"]):
    """A watch on runs in other processes, which tells about once a second how far they are, by their folders.

    Args:
        jobs: The runs.
        show: Is given the run and the last row of its ``metrics.csv``.
    """

    def __init__(self, jobs: Sequence[Job], show: Callable[[Job, dict[str, float]], None]) -> None:
        self._jobs, self._show = jobs, show
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="runs-watch", daemon=True)

    def __enter__(self) -> RunsWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()  # at the end everything is said once more

    def _watch(self) -> None:
        while not self._over.wait(_WATCH_EVERY):
            self._look()

    def _look(self) -> None:
        for job in self._jobs:
            columns = RunFolder(Path(job.folder)).metrics.read()
            if columns.get("steps"):
                self._show(job, {name: values[-1] for name, values in columns.items()})


def verdict(results: StudyResults) -> str:
    """Return one sentence on the first seed's runs; one seed of each is no proof, and the sentence says so."""
    parts = []
    for run in _first_runs(results):
        title = _title(results, run)
        parts.append(f"{title}: {METRICS[0].format(run.score(METRICS[0]))} success, {run.score(METRICS[1]):.0f} steps")
    return "; ".join(parts) + ". One seed each: a look, not a proof (adc study run compares many)."


def draw_side_by_side(results: StudyResults, path: Path) -> Path:
    """Draw K, the share of steps in the wanted state and episode length of each condition's first run, and a table."""
    plt = pyplot()
    runs = _first_runs(results)
    colours = condition_colours([run.condition for run in runs])
    curves = [run.curves() for run in runs]
    panels = [panel for panel in _PANELS if any(panel[0] in columns for columns in curves)]
    heights = [*([1.0] * len(panels)), 0.28 + 0.16 * len(runs)]
    figure, all_axes = plt.subplots(
        len(heights), 1, figsize=(7.6, 1.9 * sum(heights)), height_ratios=heights, constrained_layout=True
    )
    for (column, label), axes in zip(panels, all_axes, strict=False):
        for run, columns in zip(runs, curves, strict=True):
            if column in columns:
                values = columns[column] if column == "stiffness" else _smooth(columns[column])
                axes.plot(columns["steps"], values, color=colours[run.condition], label=_title(results, run), lw=1.8)
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.set_ylim(0.0, 1.0 if column == "holding" else None)
        axes.xaxis.set_major_formatter(plt.matplotlib.ticker.EngFormatter())
    all_axes[0].legend(frameon=False, loc="lower left")
    all_axes[len(panels) - 1].set_xlabel("env steps of training")
    _draw_table(all_axes[-1], results, runs)
    with whole_file(path) as beside:
        figure.savefig(beside, dpi=130)
    plt.close(figure)
    return path


def film_side_by_side(
    results: StudyResults, path: Path, *, seconds: float = 8.0, width: int = 300, fps: float = 12.5
) -> Path:
    """Film each condition's first policy from the same start at the target gains, next to each other.

    Args:
        results: The runs.
        path: A file that ends in .gif or .mp4.
        seconds: Length of the film; an episode that ends before stands still.
        width: Of each picture.
        fps: Pictures per second, as near as whole policy steps allow.
    """
    runs = _first_runs(results)
    films = [_film(run, seconds, width, fps) for run in runs]
    titles = [_title(results, run) for run in runs]
    count = max(len(film.frames) for film in films)
    frames = [
        np.concatenate([_captioned(film, i, title) for film, title in zip(films, titles, strict=True)], axis=1)
        for i in range(count)
    ]
    Film(frames, films[0].fps, max(film.length for film in films), all(film.success for film in films)).write(path)
    return path


def _first_runs(results: StudyResults) -> list[RunRecord]:
    """Return the first finished run of every condition, in the study's order."""
    return [results.of(condition.name)[0] for condition in results.conditions if results.of(condition.name)]


def _title(results: StudyResults, run: RunRecord) -> str:
    title = next(condition.title for condition in results.conditions if condition.name == run.condition)
    return title.replace("K_*", "K*").replace("K_0", "K0").replace("$", "")


def _smooth(values: NDArray[np.float64], width: int = 7) -> NDArray[np.float64]:
    """Return the running mean of what is known; iterations without a completed episode have no length."""
    known = np.isfinite(values)
    window = np.ones(min(width, len(values)))
    weights = np.convolve(known.astype(float), window, mode="same")
    sums = np.convolve(np.where(known, values, 0.0), window, mode="same")
    return np.where(weights > 0, sums / np.maximum(weights, 1.0), np.nan)


def _draw_table(axes: Any, results: StudyResults, runs: Sequence[RunRecord]) -> None:
    axes.set_axis_off()
    target = runs[0].config["curriculum"]["target_stiffness"] if runs[0].config else None
    episodes = runs[0].summary["episodes"] if runs[0].summary else 0
    cells = [[_title(results, run), *(metric.format(run.score(metric)) for metric in METRICS)] for run in runs]
    head = [f"{episodes} episodes at K* = {target:g}", *(metric.label for metric in METRICS)]
    widths = [0.46, *([0.18] * len(METRICS))]
    table = axes.table(cells, colLabels=head, colWidths=widths, loc="center", cellLoc="right", edges="horizontal")
    table.auto_set_font_size(False)
    table.set_fontsize(10)
    table.scale(1.0, 1.35)
    for (_, column), cell in table.get_celld().items():
        cell.set_edgecolor("0.8")
        if column == 0:
            cell.set_text_props(ha="left")


def _film(run: RunRecord, seconds: float, width: int, fps: float) -> Film:
    policy = load_trained(RunFolder.open(run.path))
    config = policy.config
    env = make_env(config.task, backend=config.backend, render_mode="rgb_array", **config.settings)
    try:
        pin_and_check(policy, env)
        return film_episode(policy, env, config.curriculum, seed=FILM_SEED, fps=fps, max_seconds=seconds, width=width)
    finally:
        env.close()


def _captioned(film: Film, i: int, title: str) -> NDArray[np.uint8]:
    """Return a picture with its title above; after the episode's end the last one, paler, with what became of it."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise MissingExtraError("pillow", "viz", "Filming side by side") from error

    ended = i >= len(film.frames)
    frame = film.frames[min(i, len(film.frames) - 1)]
    if ended:
        frame = (0.5 * frame + 127.0).astype(np.uint8)
        title += f": {'done' if film.success else 'fell'} after {len(film.frames) / film.fps:.1f} s"
    picture = Image.new("RGB", (frame.shape[1], frame.shape[0] + _CAPTION), "white")
    picture.paste(Image.fromarray(frame), (0, _CAPTION))
    ImageDraw.Draw(picture).text((8, 5), title, fill="black", font=ImageFont.load_default(14))
    return np.asarray(picture)
