"""``adc eval``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from adc_wrappers.runs import RunFolder

__all__ = ["Evaluate", "evaluate_run", "print_evaluation"]

_BATCH = 50


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate a run's newest policy with the joints at exactly the target gains."""

    run_folder: tyro.conf.Positional[Path]
    """The run folder that `adc train` made."""

    episodes: int = 100
    """Number of episodes."""

    seed: int = 10_000
    """Seed of the start states."""

    def run(self) -> int:
        """Evaluate."""
        console = Console(highlight=False, soft_wrap=True)
        folder = RunFolder.open(self.run_folder)
        print_evaluation(console, evaluate_run(folder, episodes=self.episodes, seed=self.seed))
        console.print(f"numbers  {folder.path / 'eval.json'}\nepisodes {folder.path / 'eval.csv'}")
        return 0


def evaluate_run(folder: RunFolder, *, episodes: int, seed: int) -> dict[str, Any]:
    """Evaluate, write ``eval.json`` and ``eval.csv`` into the run folder, and return the summary."""
    from adc_wrappers.envs.registry import make_env
    from adc_wrappers.runs.evaluation import evaluate
    from adc_wrappers.training import load_trained

    policy = load_trained(folder)
    config = policy.config
    envs = make_env(config.task, backend=config.backend, num_envs=min(_BATCH, max(1, episodes)), **config.settings)
    try:
        result = evaluate(policy, envs, config.curriculum, episodes=episodes, seed=seed)
    finally:
        envs.close()
    summary = {"steps": policy.steps, "seed": seed, **result.summary()}
    folder.write_json("eval.json", summary)
    result.write_csv(folder.path / "eval.csv")
    return summary


def print_evaluation(console: Console, summary: dict[str, Any]) -> None:
    """Print a summary as a small table."""
    stiffness = ", ".join(f"{value:g}" for value in summary["stiffness"])
    low, high = summary["success_95"]
    table = Table(title=f"{summary['episodes']} episodes at the target stiffness K = {stiffness}", title_justify="left")
    table.add_column("success rate (95 %)")
    table.add_column("episode length")
    table.add_column("return")
    table.add_row(
        f"{summary['success_rate']:.1%} ({low:.1%} to {high:.1%})",
        f"{summary['length_mean']:.1f} ± {summary['length_std']:.1f}",
        f"{summary['return_mean']:.1f} ± {summary['return_std']:.1f}",
    )
    console.print(table)
