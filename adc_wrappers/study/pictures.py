"""A study's pictures and films, in colours that the page shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.files import whole_file
from adc_wrappers.envs.registry import make_env
from adc_wrappers.runs import RunFolder
from adc_wrappers.runs.pictures import pyplot
from adc_wrappers.runs.recording import record_episode
from adc_wrappers.training import load_trained
from adc_wrappers.training.evaluating import pin_and_check

from .analysis import CURVES, ConditionNumbers, curves_of, profiles
from .markdown import conditions_shown
from .results import METRICS, RunRecord, StudyResults

__all__ = [
    "FILM",
    "CutRange",
    "condition_colours",
    "cut_range",
    "draw_pictures",
    "film_of",
    "mode_colours",
    "record_films",
]


_PALETTE = (
    "#7f7f7f", "#a0522d", "#2ca02c", "#17a2b8", "#bcbd22", "#d62728",
    "#9467bd", "#e377c2", "#ff7f0e", "#1f77b4", "#0b3c6f", "#00876c", "#8b0045", "#3f3f3f", "#c49000", "#4b0082",
)  # fmt: skip
_MODES = ("#9a6324", "#e6a23c", "#c0392b", "#7d3c98", "#5d6d7e", "#b7950b", "#34495e", "#d98880", "#839192")
_SUCCESS = "#2e8b57"
_FLATTENED = 5.0  # so many times does a curve widen the axis before it is left out


def condition_colours(names: Sequence[str]) -> dict[str, str]:
    """Return a colour for every condition; those of this library always have the same."""
    from .conditions import BY_NAME, CONDITIONS

    known = (*CONDITIONS, *BY_NAME)
    colours = {name: _PALETTE[known.index(name)] for name in names if name in known}
    free = [colour for colour in _PALETTE if colour not in colours.values()]
    own = [name for name in names if name not in known]
    return colours | {name: free[i % len(free)] for i, name in enumerate(own)}


def mode_colours(modes: Sequence[str]) -> dict[str, str]:
    """Return a colour for every way in which an episode may end."""
    failures = [mode for mode in modes if mode != "success"]
    colours = {mode: _MODES[i % len(_MODES)] for i, mode in enumerate(failures)}
    return {mode: colours.get(mode, _SUCCESS) for mode in modes}


def draw_pictures(
    results: StudyResults, numbers: Sequence[ConditionNumbers], out: Path, *, seed: int = 0
) -> list[Path]:
    """Draw ``curves.png``, ``estimates.png`` and ``profiles.png``."""
    plt = pyplot()
    colours = condition_colours([condition.name for condition in results.conditions])
    pictures = {
        "curves.png": _curves(plt, results, colours, seed),
        "estimates.png": _estimates(plt, numbers, colours),
        "profiles.png": _profiles(plt, results, colours, seed),
    }
    for name, figure in pictures.items():
        with whole_file(out / name) as beside:
            figure.savefig(beside, dpi=110)
        plt.close(figure)
    return [out / name for name in pictures]


def _tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def _curves(plt: Any, results: StudyResults, colours: dict[str, str], seed: int) -> Any:
    found = [
        (label, [(c, curve) for c in conditions_shown(results) if (curve := _curve(results, c.name, column, seed))])
        for column, label in CURVES
    ]
    panels = [(label, curves) for label, curves in found if curves]
    figure, all_axes = plt.subplots(-(-len(panels) // 2), 2, figsize=(10, 3.1 * -(-len(panels) // 2)), squeeze=False)
    for axes in all_axes.flat[len(panels) :]:
        axes.set_visible(False)
    for (label, curves), axes in zip(panels, all_axes.flat, strict=False):
        for condition, curve in curves:
            colour = colours[condition.name]
            axes.plot(curve.steps, curve.value, color=colour, linewidth=1.6, label=_plain(condition.title))
            axes.fill_between(curve.steps, curve.low, curve.high, color=colour, alpha=0.12, linewidth=0)
        axes.set_ylabel(label)
        axes.set_xlabel("env steps")
        axes.xaxis.set_major_formatter(plt.matplotlib.ticker.EngFormatter())
        _cut(axes, cut_range({condition.title: curve.value for condition, curve in curves}))
        _tidy(axes)
    handles, labels = all_axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=4, frameon=False, loc="upper center", fontsize=8)
    legend = 0.25 * -(-len(labels) // 4) + 0.1  # inches
    figure.tight_layout(rect=(0, 0, 1, 1.0 - legend / figure.get_figheight()))
    return figure


class CutRange(NamedTuple):
    """The part of an axis in which most curves are."""

    low: float
    high: float
    outside: list[str]
    """Titles of the curves that go far beyond it."""


def cut_range(curves: Mapping[str, NDArray[np.float64]]) -> CutRange | None:
    """Return where curves are when those are left out that would flatten all others; None where none does.

    >>> flat, far = np.array([0.0, 10.0]), np.array([0.0, -90_000.0])
    >>> cut_range({"a": flat, "b": flat + 1.0, "c": far})
    CutRange(low=-0.64..., high=11.64..., outside=['c'])
    """
    ranges = {title: np.nanpercentile(values, [2.0, 98.0]) for title, values in curves.items()}
    outside: list[str] = []
    while len(ranges) > 1:
        rest = {title: _span([r for other, r in ranges.items() if other != title]) for title in ranges}
        far = min(rest, key=lambda title: rest[title])
        if not 0.0 < _FLATTENED * rest[far] < _span(list(ranges.values())):
            break
        outside.append(far)
        del ranges[far]
    if not outside:
        return None
    low, high = float(min(r[0] for r in ranges.values())), float(max(r[1] for r in ranges.values()))
    margin = 0.08 * (high - low)
    return CutRange(low - margin, high + margin, outside)


def _span(ranges: Sequence[NDArray[np.float64]]) -> float:
    return float(max(r[1] for r in ranges) - min(r[0] for r in ranges))


def _cut(axes: Any, cut: CutRange | None) -> None:
    """Leave out of the picture what would hide everything else; the page and the CSV have it."""
    if cut is not None:
        axes.set_ylim(cut.low, cut.high)
        axes.set_ylabel(f"{axes.get_ylabel()} (cut)")


def _curve(results: StudyResults, name: str, column: str, seed: int) -> Any:
    return curves_of(results.of(name), column, seed=seed)


def _estimates(plt: Any, numbers: Sequence[ConditionNumbers], colours: dict[str, str]) -> Any:
    figure, all_axes = plt.subplots(
        1, len(METRICS) + 1, figsize=(12, 0.32 * len(numbers) + 1.4), sharey=True, constrained_layout=True
    )
    places = range(len(numbers))
    for metric, axes in zip(METRICS, all_axes, strict=False):
        for y, row in enumerate(numbers):
            estimate, colour = row.iqm[metric.name], colours[row.condition.name]
            axes.plot([estimate.low, estimate.high], [y, y], color=colour, linewidth=6, alpha=0.35)
            axes.plot([estimate.value], [y], "o", color=colour)
        axes.set_xlabel(f"IQM {metric.label}")
        _tidy(axes)
    modes = list(dict.fromkeys(mode for row in numbers for mode, share in row.modes.items() if share > 0))
    for mode, colour in mode_colours(modes).items():
        before = modes[: modes.index(mode)]
        widths = [row.modes.get(mode, 0.0) for row in numbers]
        lefts = [sum(row.modes.get(other, 0.0) for other in before) for row in numbers]
        all_axes[-1].barh(places, widths, left=lefts, color=colour, label=mode, height=0.7)
    all_axes[-1].set_xlabel("how episodes ended")
    figure.legend(ncols=4, frameon=False, fontsize=7, loc="outside upper right")
    all_axes[0].set_yticks(places, [_plain(row.condition.title) for row in numbers])
    all_axes[0].invert_yaxis()
    return figure


def _profiles(plt: Any, results: StudyResults, colours: dict[str, str], seed: int) -> Any:
    figure, all_axes = plt.subplots(1, len(METRICS), figsize=(12, 3.4), sharey=True, constrained_layout=True)
    titles = {condition.name: condition.title for condition in results.conditions}
    for metric, axes in zip(METRICS, all_axes, strict=True):
        levels, found = profiles(results, metric, seed=seed)
        for name, profile in found.items():
            axes.plot(levels, profile.value, color=colours[name], label=_plain(titles[name]), linewidth=1.6)
            axes.fill_between(levels, profile.low, profile.high, color=colours[name], alpha=0.1, linewidth=0)
        axes.set_xlabel(f"{metric.label} > τ")
        _tidy(axes)
    all_axes[0].set_ylabel("share of runs")
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=6, frameon=False, fontsize=8, loc="outside upper center")
    return figure


def _plain(title: str) -> str:
    """Keep matplotlib from reading a title as mathematics."""
    return title.replace("$", r"\$")


FILM = "film.gif"
FILM_SEED = 20_000
"""Seed of the start state."""


def record_films(results: StudyResults, *, seconds: float = 4.0, width: int = 180, fps: float = 10.0) -> list[Path]:
    """Film the first finished run of every condition; a film that is newer than its evaluation is kept."""
    films = []
    for condition in results.conditions:
        run = _first(results, condition.name)
        if run is None:
            continue
        path = run.path / FILM
        if not path.exists() or path.stat().st_mtime < (run.path / "eval.json").stat().st_mtime:
            _record(run, path, seconds, width, fps)
        films.append(path)
    return films


def film_of(results: StudyResults, condition: str) -> tuple[RunRecord, Path] | None:
    """Return the run that was filmed and its film, if there is one."""
    run = _first(results, condition)
    return None if run is None or not (run.path / FILM).exists() else (run, run.path / FILM)


def _first(results: StudyResults, condition: str) -> RunRecord | None:
    return next(iter(results.of(condition)), None)


def _record(run: RunRecord, path: Path, seconds: float, width: int, fps: float) -> None:
    policy = load_trained(RunFolder.open(run.path))
    config = policy.config
    env = make_env(config.task, backend=config.backend, render_mode="rgb_array", **config.settings)
    try:
        pin_and_check(policy, env)
        record_episode(policy, env, config.curriculum, path, seed=FILM_SEED, max_seconds=seconds, width=width, fps=fps)
    finally:
        env.close()
