"""The benefit of the curriculum on the planar handstand against the stiffness of the joints.

For every target stiffness K* a study of two conditions (K by task progress from 1.5 K*, and training at K*), both
evaluated at exactly K*; beside it what is known before any training: the static stiffness of Spot's nominal stance
under its own weight, for how long it stands under a zero action, and the narrowness that random exploration meets.
Studies that are begun go on; the figure is drawn from those that have finished runs.

    python benchmarks/where_needed.py --run             # train, 3.5 minutes of a core per run, and draw
    python benchmarks/where_needed.py                   # draw, and write results/where-needed/README.md
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from standing import PinnedStance

from adc_wrappers import make_env
from adc_wrappers.backends.spot_model import NOMINAL_POSE
from adc_wrappers.cli.main import main as adc
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.core.errors import RunFolderError
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.runs.pictures import pyplot
from adc_wrappers.study.results import METRICS, read_results
from adc_wrappers.study.statistics import REPETITIONS, resample
from adc_wrappers.viability import SearchSettings, estimate_narrowness

TASK, WITH, WITHOUT = "spot-planar-handstand", "task_progress", "train_at_target"
STIFFNESSES = (30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0)
RATIO = 1.5
"""K0 over K*."""

_OUT = Path("results/where-needed")
_EPISODES, _STEPS, _SEED = 256, 1000, 0
_SEARCH = SearchSettings(states=32, tries=12, rounds=3)


@dataclass(frozen=True)
class Foretold:
    """The knowledge of a target stiffness before training."""

    stiffness: float
    """K*, N·m/rad."""
    static: float
    """Least stiffness of the nominal stance under the weight, N/m; below 0 it topples by itself."""
    static_start: float
    """The same at K0."""
    standing: float
    """Seconds that robots stand under a zero action, mean over randomized starts."""
    narrowness: tuple[float, float]
    """Bounds of ε, the share of states under random exploration from which the robot can still be saved."""
    length: float
    """Mean length of episodes of random exploration, steps."""


@dataclass(frozen=True)
class Benefit:
    """Success at exactly K* with the curriculum, less without it."""

    stiffness: float
    """K*, N·m/rad."""
    with_it: tuple[float, ...]
    """Success of each seed."""
    without: tuple[float, ...]
    """Success of each seed."""
    value: float
    """Difference of the means."""
    low: float
    """Lower end of its 95 % interval over seeds."""
    high: float
    """Upper end."""


def train(stiffness: float, folder: Path, seeds: int, steps: int, episodes: int, jobs: int) -> None:
    """Do the study of one target stiffness, or what is missing of it."""
    words = [
        "study", "run", TASK, "--conditions", WITH, WITHOUT, "--no-report", "--out", str(folder),
        "--steps", str(steps), "--seeds", str(seeds), "--episodes", str(episodes), "--jobs", str(jobs),
        "--curriculum.target-stiffness", f"{stiffness:g}", "--curriculum.start-stiffness", f"{RATIO * stiffness:g}",
    ]  # fmt: skip
    if adc(words):
        raise SystemExit(f"the study of K* = {stiffness:g} failed.")


def foretell(stiffness: float) -> Foretold:
    """Look at a target stiffness without training."""
    stance = PinnedStance(np.asarray(NOMINAL_POSE))
    env = make_env(TASK, num_envs=_EPISODES, randomize=["friction", "mass", "pose", "velocity", "joints"], preset="cpu")
    try:
        task = env.unwrapped.task
        gains = np.full((_EPISODES, len(task.backend.joint_names)), stiffness)
        task.backend.set_gains(gains, damping_for(gains, task.backend.effective_inertia()))
        env.reset(seed=_SEED)
        alive = np.ones(_EPISODES, dtype=bool)
        lives = np.zeros(_EPISODES)
        for _ in range(_STEPS):
            alive &= ~env.step(np.zeros(env.action_space.shape, np.float32))[2]
            lives += alive
        found = estimate_narrowness(task, [stiffness], _SEARCH, seed=_SEED)[0]
    finally:
        env.close()
    return Foretold(
        stiffness=stiffness,
        static=stance.stiffness(stiffness),
        static_start=stance.stiffness(RATIO * stiffness),
        standing=float(lives.mean()) * task.policy_step,
        narrowness=(found.lower, found.upper),
        length=float(found.lengths.mean()),
    )


def benefit(stiffness: float, folder: Path) -> Benefit | None:
    """Return what the finished runs of a study say; None as long as a condition has none."""
    try:
        scores = read_results(folder).scores(METRICS[0])
    except RunFolderError:
        return None
    if WITH not in scores or WITHOUT not in scores:
        return None
    rng = np.random.default_rng(_SEED)
    drawn = [resample(scores[name], rng, REPETITIONS).mean(axis=(1, 2)) for name in (WITH, WITHOUT)]
    low, high = np.percentile(drawn[0] - drawn[1], [2.5, 97.5])
    with_it, without = (tuple(scores[name][:, 0].tolist()) for name in (WITH, WITHOUT))
    return Benefit(
        stiffness=stiffness,
        with_it=with_it,
        without=without,
        value=float(np.mean(with_it) - np.mean(without)),
        low=float(low),
        high=float(high),
    )


def correlations(rows: list[tuple[Foretold, Benefit]]) -> dict[str, float]:
    """Return Spearman's rank correlation of the benefit with each number that is known before."""
    from scipy.stats import spearmanr

    gained = [row.value for _, row in rows]
    known: dict[str, list[float]] = {
        "static stiffness at K*": [before.static for before, _ in rows],
        "time under a zero action": [before.standing for before, _ in rows],
        "lower bound of ε": [before.narrowness[0] for before, _ in rows],
        "length of random episodes": [before.length for before, _ in rows],
    }
    return {name: float(spearmanr(values, gained).statistic) for name, values in known.items()}


def draw(rows: list[tuple[Foretold, Benefit]], path: Path) -> None:
    """Draw the benefit against K* and against what was known before."""
    plt = pyplot()
    panels: list[tuple[str, list[float]]] = [
        ("target stiffness K*, N·m/rad", [before.stiffness for before, _ in rows]),
        ("static stiffness of the stance at K*, N/m", [before.static for before, _ in rows]),
        ("lower bound of ε at K*", [before.narrowness[0] for before, _ in rows]),
    ]
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), sharey=True, layout="constrained")
    value = np.array([100.0 * row.value for _, row in rows])
    error = np.array([[100.0 * (row.value - row.low), 100.0 * (row.high - row.value)] for _, row in rows]).T
    for axis, (label, at) in zip(axes, panels, strict=True):
        axis.axhline(0.0, color="0.6", linewidth=1)
        axis.errorbar(at, value, yerr=error, fmt="o", capsize=3, color="#1f77b4")
        axis.set_xlabel(label)
    axes[1].axvline(0.0, color="0.6", linewidth=1, linestyle=":")
    axes[0].set_ylabel("success at K*: curriculum − K*, points")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def report(rows: list[tuple[Foretold, Benefit]], seconds: float) -> str:
    """Return the page."""
    lines = [
        "# Where is the curriculum needed?",
        "",
        f"Command: `python benchmarks/where_needed.py --run`, drawn in {seconds:.0f} s, commit {source_commit()}.",
        "The planar handstand, K by task progress from K0 = 1.5 K\\* against training at K\\*, both evaluated",
        "at exactly K\\*. Intervals are 95 % over seeds (bootstrap of each condition's runs).",
        "",
        "![Benefit against K* and what was known before](where_needed.png)",
        "",
        "| K\\* | seeds | with | without | difference | 95 % | static, N/m | at K0 | zero action, s | ε "
        "| random length |",
        "| -: | -: | -: | -: | -: | -: | -: | -: | -: | -: | -: |",
    ]
    for before, row in rows:
        low, high = before.narrowness
        lines.append(
            f"| {row.stiffness:g} | {len(row.with_it)} / {len(row.without)} | {100 * np.mean(row.with_it):.0f} % "
            f"| {100 * np.mean(row.without):.0f} % | {100 * row.value:+.0f} | {100 * row.low:+.0f} to "
            f"{100 * row.high:+.0f} | {before.static:.0f} | {before.static_start:.0f} | {before.standing:.1f} "
            f"| {low:.2f} to {high:.2f} | {before.length:.0f} |"
        )
    if len(rows) > 3:
        lines += ["", "Rank correlation (Spearman) of the difference with:", ""]
        lines += [f"- {name}: {value:+.2f}" for name, value in correlations(rows).items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="train what is missing before")
    parser.add_argument("--stiffness", type=float, nargs="+", default=list(STIFFNESSES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1_500_000)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=_OUT)
    options = parser.parse_args()
    begin = time.monotonic()
    rows: list[tuple[Foretold, Benefit]] = []
    for stiffness in options.stiffness:
        folder = options.out / f"K{stiffness:g}"
        if options.run:
            train(stiffness, folder, options.seeds, options.steps, options.episodes, options.jobs)
        found = benefit(stiffness, folder)
        if found is None:
            print(f"K* = {stiffness:g}: no finished pair of runs in {folder}")
            continue
        rows.append((foretell(stiffness), found))
    if not rows:
        raise SystemExit("nothing to draw: give --run.")
    draw(rows, options.out / "where_needed.png")
    table: list[dict[str, Any]] = [{**asdict(before), **asdict(row)} for before, row in rows]
    (options.out / "where_needed.json").write_text(json.dumps(table, indent=1) + "\n")
    text = report(rows, time.monotonic() - begin)
    (options.out / "README.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
