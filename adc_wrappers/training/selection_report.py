"""A search for K_0 as a picture and the CSV behind it."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from adc_wrappers.core.files import whole_file, write_atomically
from adc_wrappers.runs.pictures import pyplot

from .selection import Selection, pool

__all__ = ["draw_selection", "write_selection_csv"]

_WHICH = {"own": "at the stiffness it was trained with", "target": "at the target stiffness"}


def write_selection_csv(selection: Selection) -> Path:
    """Write one row per policy and, where there are several seeds, one for all of them: ``select_k0.csv``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ("episodes", "successes", "success_rate", "success_low", "success_high", "length_mean")
    writer.writerow(["stiffness", "seed", *columns, *(f"target_{name}" for name in columns), "passed"])
    for stiffness in selection.rule.stiffnesses():
        rows: list[tuple[Any, dict[str, Any] | None, dict[str, Any] | None]] = []
        for seed in selection.rule.seeds:
            found = selection.find(stiffness, seed)
            if found is not None:
                rows.append((seed, found.own and pool([found.own]), found.target and pool([found.target])))
        if len(selection.rule.seeds) > 1 and len(rows) == len(selection.rule.seeds):
            rows.append(("all", selection.pooled(stiffness), selection.pooled(stiffness, "target")))
        for seed, own, target in rows:
            writer.writerow([stiffness, seed, *_cells(own), *_cells(target), int(selection.passed(stiffness))])
    path = selection.folder / "select_k0.csv"
    write_atomically(path, text.getvalue().encode())
    return path


def _cells(result: dict[str, Any] | None) -> list[Any]:
    if result is None:
        return [""] * 6
    rates = (result["success_rate"], *result["success_95"])
    return [result["episodes"], result["successes"], *rates, result["length_mean"]]


def draw_selection(selection: Selection) -> Path:
    """Draw success against stiffness with its 95 % intervals: ``select_k0.png``."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7.2, 3.8), constrained_layout=True)
    shift = 0.06 * selection.rule.step
    for which, marker, colour, offset in (("own", "o", "C0", -shift), ("target", "s", "C1", shift)):
        points = [(value, selection.pooled(value, which)) for value in selection.rule.stiffnesses()]
        known = [(value + offset, result) for value, result in points if result is not None]
        rates = [result["success_rate"] for _, result in known]
        below = [max(0.0, result["success_rate"] - result["success_95"][0]) for _, result in known]
        above = [max(0.0, result["success_95"][1] - result["success_rate"]) for _, result in known]
        axes.errorbar(
            [value for value, _ in known], rates, yerr=[below, above], fmt=marker, color=colour, capsize=3,
            markerfacecolor=colour if which == "own" else "white", label=_WHICH[which],
        )  # fmt: skip
    axes.axhline(selection.rule.threshold, color="0.4", linestyle="--", linewidth=1)
    axes.annotate(
        f"threshold {selection.rule.threshold:.1%}", (0.005, selection.rule.threshold),
        xycoords=("axes fraction", "data"), xytext=(0, -3), textcoords="offset points",
        va="top", color="0.3", fontsize=9,
    )  # fmt: skip
    if selection.chosen is not None:
        axes.axvline(selection.chosen, color="0.75", linewidth=6, zorder=0, alpha=0.6)
    axes.set_title(_title(selection), loc="left", fontsize=10)
    axes.set_xlabel("stiffness K of the training")
    axes.set_ylabel("success rate (95 % interval)")
    axes.set_ylim(-0.04, 1.04)
    axes.yaxis.set_major_formatter("{x:.0%}")
    tried = {candidate.stiffness for candidate in selection.candidates}
    axes.set_xticks(sorted(tried))
    axes.set_xlim(min(tried) - selection.rule.step, max(tried) + selection.rule.step)
    figure.legend(frameon=False, loc="outside lower center", ncols=2, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    path = selection.folder / "select_k0.png"
    with whole_file(path) as beside:
        figure.savefig(beside, dpi=130)
    plt.close(figure)
    return path


def _title(selection: Selection) -> str:
    rule, config = selection.rule, selection.config
    seeds = f"seed {rule.seeds[0]}" if len(rule.seeds) == 1 else f"{len(rule.seeds)} seeds"
    found = "none passed" if selection.chosen is None else f"$K_0$ = {selection.chosen:g}"
    return f"{config.task} in {config.backend}, {config.ppo.total_steps:,} steps each, {seeds}: {found}"
