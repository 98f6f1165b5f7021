"""Tuning of PPO on the planar handstand, for the curriculum and for training at K* with the same effort.

Both conditions are trained with every setting and with the same seeds, none of which a study uses, and evaluated at
exactly K*. What changes is α, the scale of actions; then, with the α that was best for either condition, the target KL
divergence, which sets the learning rate, and how long episodes of training are. A setting is best when its mean success
is highest. Runs that are finished are kept, and the table is written from those.

    python benchmarks/tuning.py --run             # train what is missing, 1.5 minutes of a core per run
    python benchmarks/tuning.py                   # write benchmarks/tuning.md
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adc_wrappers.cli.main import main as adc
from adc_wrappers.core.errors import RunFolderError
from adc_wrappers.study.results import METRICS, StudyResults, read_results

TASK, CONDITIONS = "spot-planar-handstand", ("task_progress", "train_at_target")
ALPHAS, KLS, LENGTHS = (0.9, 1.2, 1.6), (0.02, 0.03, 0.05), (250, 1000)
KL, LENGTH, DEVIATION = 0.03, 1000, 0.42
"""The target KL and the steps of an episode with which α is chosen, and the first deviation of actions in rad."""

_PAGE = Path("benchmarks/tuning.md")


@dataclass(frozen=True)
class Setting:
    """Settings that are tried."""

    alpha: float
    """α, rad."""
    kl: float = KL
    """Target KL divergence at the start of training."""
    length: int = LENGTH
    """Policy steps after which an episode of training is cut short; those of an evaluation have 1000."""

    @property
    def folder(self) -> str:
        """Name of its study's folder."""
        return f"alpha{self.alpha:g}-kl{self.kl:g}-steps{self.length}"


def train(setting: Setting, out: Path, options: argparse.Namespace) -> None:
    """Do the study of a setting, or what is missing of it."""
    words = [
        "study", "run", TASK, "--conditions", *CONDITIONS, "--no-report", "--out", str(out / setting.folder),
        "--steps", str(options.steps), "--seeds", str(options.seeds), "--first-seed", str(options.first_seed),
        "--episodes", str(options.episodes), "--jobs", str(options.jobs), "--set", f"action_scale={setting.alpha:g}",
        "--ppo.target-kl", f"{setting.kl:g}", "--ppo.initial-std", f"{DEVIATION / setting.alpha:.4g}",
        "--episode-steps", str(setting.length),
    ]  # fmt: skip
    if adc(words):
        raise SystemExit(f"the study of {setting} failed.")


def results_of(setting: Setting, out: Path) -> StudyResults | None:
    """Return the finished runs; None if no condition has any."""
    try:
        return read_results(out / setting.folder)
    except RunFolderError:
        return None


def successes(setting: Setting, out: Path) -> dict[str, np.ndarray]:
    """Return the success of every finished run, by condition."""
    results = results_of(setting, out)
    if results is None:
        return {}
    return {name: scores[:, 0] for name, scores in results.scores(METRICS[0]).items()}


def best_alphas(out: Path) -> list[float]:
    """Return the α that was best for either condition, each once."""
    found = {alpha: successes(Setting(alpha), out) for alpha in ALPHAS}
    return sorted({max(ALPHAS, key=lambda alpha: found[alpha][name].mean()) for name in CONDITIONS})


def page(settings: list[Setting], out: Path, command: str) -> str:
    """Return the table."""
    read = [results for results in (results_of(setting, out) for setting in settings) if results is not None]
    commits = sorted({run.commit() or "unknown" for results in read for run in results.runs})
    lines = [
        "# Tuning on the planar handstand",
        "",
        f"Command: `{command}`, commits {', '.join(commits)}.",
        "Success at exactly K\\* of every seed and the mean, and the mean return. The first deviation of actions is",
        f"{DEVIATION} rad throughout.",
        "",
        "| α | target KL | steps of an episode | seeds | K by task progress | return | training at K\\* | return |",
        "| -: | -: | -: | -: | -: | -: | -: | -: |",
    ]
    for setting in settings:
        results = results_of(setting, out)
        if results is None:
            continue
        success, returned = (results.scores(METRICS[index]) for index in (0, 2))
        cells = []
        for name in CONDITIONS:
            if name not in success:
                cells += ["–", "–"]
                continue
            each = ", ".join(f"{100 * value:.0f}" for value in success[name][:, 0])
            cells += [f"{each}: **{100 * success[name].mean():.0f} %**", f"{returned[name].mean():.1f}"]
        seeds = max(len(scores) for scores in success.values())
        lines.append(f"| {setting.alpha:g} | {setting.kl:g} | {setting.length} | {seeds} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="train what is missing before")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=1_500_000)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/tuning"))
    options = parser.parse_args()
    first = [Setting(alpha) for alpha in ALPHAS]
    if options.run:
        for setting in first:
            train(setting, options.out, options)
    best = best_alphas(options.out)
    settings = [
        *first,
        *(Setting(alpha, kl) for alpha in best for kl in KLS if kl != KL),
        *(Setting(alpha, length=length) for alpha in best for length in LENGTHS if length != LENGTH),
    ]
    if options.run:
        for setting in settings[len(first) :]:
            train(setting, options.out, options)
    command = f"python benchmarks/tuning.py --run --seeds {options.seeds} --steps {options.steps}"
    text = page(settings, options.out, command)
    _PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
