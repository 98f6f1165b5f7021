"""The curriculum against fixed gains: several seeds each, one budget, one plot.

    python examples/compare_conditions.py --seeds 3 --steps 1500000

Trains every condition with every seed by ``adc train`` (two runs at a time, a core each), evaluates each policy at
exactly the target stiffness, and writes ``comparison.png``, ``comparison.csv`` and ``comparison.md`` into ``--out``.
Killed and started again it repeats nothing that was finished.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CONDITIONS = {
    "curriculum": [],
    "curriculum, success-driven": ["--recipe", "success"],
    "fixed at K*": ["--curriculum.driver", "fixed", "--curriculum.fixed-progress", "1"],
    "fixed at K0": ["--curriculum.driver", "fixed", "--curriculum.fixed-progress", "0", "--curriculum.hold-share", "0"],
}
"""Options of ``adc train`` in which the conditions differ from the task's recipe."""

T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""Student's t for a 95 % interval of the mean of so many seeds."""

CURVES = (("holding", "share of steps in the stance"), ("episode_length_mean", "episode length"), ("stiffness", "K"))


def folder_of(out: Path, condition: str, seed: int) -> Path:
    """Where a run is."""
    name = condition.replace(",", "").replace(" ", "_").replace("K*", "target").replace("K0", "start")
    return out / f"{name}-seed{seed}"


def finished(run: Path) -> bool:
    """Whether a run was trained and evaluated to the end."""
    return (run / "done.json").exists()


def train_and_evaluate(arguments: argparse.Namespace, condition: str, seed: int, core: int) -> None:
    """Train one run on one core, or go on with it, then evaluate it."""
    run = folder_of(arguments.out, condition, seed)
    if finished(run):
        return
    begin = time.time()
    adc = [sys.executable, "-m", "adc_wrappers.cli"]
    train = [*adc, "train", arguments.task, "--seed", str(seed), "--steps", str(arguments.steps), "--out", str(run)]
    evaluate = [*adc, "eval", str(run), "--episodes", str(arguments.episodes)]
    commands = [[*train, "--resume", "--eval-episodes", "0", *CONDITIONS[condition]], evaluate]
    run.parent.mkdir(parents=True, exist_ok=True)
    with run.with_suffix(".log").open("a") as log:
        for command in commands:
            subprocess.run(command, stdout=log, stderr=log, check=True, preexec_fn=lambda: _pin(core))
    (run / "done.json").write_text(json.dumps({"seconds": time.time() - begin}))
    print(f"{condition}, seed {seed}: {time.time() - begin:.0f} s", flush=True)


def _pin(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def run_all(arguments: argparse.Namespace) -> None:
    """Run everything that is not finished, one run per core."""
    cores: Queue[int] = Queue()
    for core in sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1):
        cores.put(core)

    def job(condition: str, seed: int) -> None:
        core = cores.get()
        try:
            train_and_evaluate(arguments, condition, seed, core)
        finally:
            cores.put(core)

    with ThreadPoolExecutor(cores.qsize()) as pool:
        futures = [pool.submit(job, name, seed) for seed in range(arguments.seeds) for name in arguments.conditions]
        for future in futures:
            future.result()


def read_curves(run: Path) -> dict[str, np.ndarray]:
    """Columns of a run's ``metrics.csv``."""
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds and half the width of its 95 % interval."""
    seeds = len(values)
    if seeds < 2:
        return values.mean(axis=0), np.zeros(values.shape[1])
    return values.mean(axis=0), T_95[seeds] * values.std(axis=0, ddof=1) / math.sqrt(seeds)


def smooth(values: np.ndarray, width: int = 15) -> np.ndarray:
    """Running mean over iterations; gaps (no episode ended) are left out."""
    known = np.isfinite(values).astype(float)
    kernel = np.ones(width)
    total = np.convolve(np.nan_to_num(values), kernel, "same")
    return total / np.maximum(np.convolve(known, kernel, "same"), 1e-9)


def plot(arguments: argparse.Namespace) -> None:
    """Draw the curves and write the numbers behind them."""
    figure, axes = plt.subplots(len(CURVES), 1, figsize=(7.2, 7.6), sharex=True, constrained_layout=True)
    table: list[dict[str, Any]] = []
    for condition in arguments.conditions:
        runs = [read_curves(folder_of(arguments.out, condition, seed)) for seed in range(arguments.seeds)]
        length = min(len(run["steps"]) for run in runs)
        steps = runs[0]["steps"][:length]
        numbers: dict[str, Any] = {}
        for (name, label), axis in zip(CURVES, axes, strict=True):
            mean, half = band(np.stack([smooth(run[name][:length]) for run in runs]))
            (line,) = axis.plot(steps, mean, label=condition, linewidth=1.8)
            axis.fill_between(steps, mean - half, mean + half, color=line.get_color(), alpha=0.18, linewidth=0)
            axis.set_ylabel(label)
            numbers |= {name: mean, f"{name}_half_95": half}
        table += [
            {"condition": condition, "steps": int(steps[i]), **{name: values[i] for name, values in numbers.items()}}
            for i in range(0, length, 5)
        ]
    axes[0].set_ylim(0, 1)
    axes[0].legend(frameon=False)
    axes[-1].set_xlabel("env steps")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.savefig(arguments.out / "comparison.png", dpi=130)
    with (arguments.out / "comparison.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def report(arguments: argparse.Namespace) -> str:
    """Write the table of the evaluations at the target stiffness."""
    lines = ["| condition | success | episode length | return | K at the end |", "|---|---:|---:|---:|---:|"]
    for condition in arguments.conditions:
        runs = [folder_of(arguments.out, condition, seed) for seed in range(arguments.seeds)]
        results = [json.loads((run / "eval.json").read_text()) for run in runs]
        cells = []
        for key, form in (("success_rate", "{:.1%}"), ("length_mean", "{:.0f}"), ("return_mean", "{:.1f}")):
            values = np.array([result[key] for result in results])
            deviation = values.std(ddof=1) if len(values) > 1 else 0.0
            cells.append(f"{form.format(values.mean())} ± {form.format(deviation)}")
        stiffness = np.mean([read_curves(run)["stiffness"][-1] for run in runs])
        lines.append(f"| {condition} | {' | '.join(cells)} | {stiffness:.1f} |")
    text = "\n".join(lines)
    (arguments.out / "comparison.md").write_text(
        f"# {arguments.task}: the curriculum against fixed gains\n\n"
        f"Command: `python examples/compare_conditions.py {' '.join(sys.argv[1:])}`. {arguments.seeds} seeds, "
        f"{arguments.steps:,} steps each, {arguments.episodes} episodes at exactly the target stiffness; mean ± "
        f"standard deviation over seeds.\n\n{text}\n"
    )
    return text


def main() -> None:
    """Train, evaluate, plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="spot-handstand")
    parser.add_argument("--conditions", nargs="+", default=list(CONDITIONS), choices=list(CONDITIONS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1_500_000)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("runs/comparison"))
    arguments = parser.parse_args()
    if not 1 <= arguments.seeds <= max(T_95):
        parser.error(f"--seeds: expected 1 to {max(T_95)}, got {arguments.seeds}.")
    run_all(arguments)
    plot(arguments)
    print(report(arguments))
    print(f"plot {arguments.out / 'comparison.png'}\ndata {arguments.out / 'comparison.csv'}")


if __name__ == "__main__":
    main()
