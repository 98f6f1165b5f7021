"""``adc eval``: the policy that a command is given, and an evaluation in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from adc_wrappers.core.errors import BackendError, CurriculumError, MissingExtraError
from adc_wrappers.envs.registry import find_task
from adc_wrappers.runs import RunFolder, RunFolderError

from .options import parse_settings
from .progress import EvaluationProgress

if TYPE_CHECKING:
    from adc_wrappers.policy import Policy
    from adc_wrappers.training import TrainedPolicy

__all__ = [
    "Evaluate",
    "evaluate_run",
    "evaluation_title",
    "format_rate",
    "is_policy_file",
    "open_policy",
    "print_evaluation",
]


def is_policy_file(path: Path) -> bool:
    """Whether ``path`` names a policy file rather than a run folder."""
    return path.suffix == ".onnx"


def open_policy(path: Path, device: str | None = None) -> TrainedPolicy | Policy:
    """Return the newest policy of a run folder, or the policy of an ``.onnx`` file.

    Both have ``config``, ``steps`` and ``curriculum``, and are called with a batch of observations for a batch of
    actions.

    Args:
        path: The run folder or file.
        device: Where a run's simulator of tensors is to run from now on; by default where it ran.
    """
    if is_policy_file(path):
        from adc_wrappers.policy import load

        return load(path)
    if path.is_file():
        raise RunFolderError(f"{path} is a file; expected a run folder, or a policy that ends in .onnx.")
    from adc_wrappers.training import load_trained

    return load_trained(RunFolder.open(path), device)


def print_evaluation(console: Console, summary: dict[str, Any]) -> None:
    """Print a summary as small tables: success, length and return; how episodes ended; terms of the reward."""
    table = Table(title=evaluation_title(summary), title_justify="left")
    for column in ("success rate (95 %)", "episode length", "return"):
        table.add_column(column)
    table.add_row(
        format_rate(summary["success_rate"], summary["success_95"]),
        f"{summary['length_mean']:.1f} ± {summary['length_std']:.1f}",
        f"{summary['return_mean']:.1f} ± {summary['return_std']:.1f}",
    )
    console.print(table)
    total = summary["episodes"]
    ends = {mode: f"{count} ({count / total:.1%})" for mode, count in summary["modes"].items() if count}
    console.print(_two_columns("how episodes ended", "episodes", ends))
    terms = {name: f"{value:.3g}" for name, value in summary["reward_terms"].items()}
    if terms:
        console.print(_two_columns("reward term", "mean per episode", terms))


def _two_columns(left: str, right: str, rows: dict[str, str]) -> Table:
    table = Table(left, right, box=None, padding=(0, 2))
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def format_rate(rate: float, interval: Sequence[float]) -> str:
    """Return a rate with its interval."""
    return f"{rate:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"


def evaluation_title(summary: dict[str, Any], *, short: bool = False) -> str:
    """Return what was evaluated, at which stiffness, and whether that is the target; ``short`` without the batch."""
    where = f"{summary['episodes']} episodes of {summary['task']} in {summary['backend']}"
    trained = summary["trained"]["backend"]
    if trained != summary["backend"]:
        where += f" (trained in {trained})"
    stiffness = _numbers(summary["stiffness"])
    at = f"at the target stiffness K = {stiffness}"
    if not summary["at_target"]:
        at = f"at K = {stiffness}, which is NOT the target ({_numbers(summary['target_stiffness'])})"
    return f"{where}, {at}" if short else f"{where}, {summary['num_envs']} at a time, {at}"


def _numbers(values: Any) -> str:
    if isinstance(values, dict):
        return ", ".join(f"{name} {value:g}" for name, value in values.items())
    distinct = list(values) if isinstance(values, list | tuple) else [values]
    if len(set(distinct)) == 1:
        distinct = distinct[:1]
    return ", ".join(f"{value:g}" for value in distinct)


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate a policy with the joints at exactly the target gains; say and draw how episodes ended."""

    run_folder: tyro.conf.Positional[Path]
    """The run folder that `adc train` made, or a file that `adc export` wrote."""

    episodes: int = 100
    """Number of episodes."""

    seed: int = 10_000
    """Seed of the start states."""

    num_envs: int | None = None
    """Envs that are stepped together, each for its fixed share of the episodes; by default at most 100."""

    backend: str | None = None
    """Evaluate in another engine than the policy was trained in."""

    stiffness: float | None = None
    """Evaluate at another stiffness than the target."""

    randomize: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """With all of the task's randomization, whatever the training had."""

    no_randomize: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Without randomization, whatever the training had."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Settings of the task that replace the training's, such as start_angle=0.1."""

    device: str | None = None
    """Where a simulator of tensors (isaaclab, mjlab) runs: cuda:0, cpu; by default where the policy was trained."""

    picture: bool = True
    """Draw how episodes ended."""

    def run(self) -> int:
        """Evaluate."""
        from adc_wrappers.training.evaluating import EvaluationSetup, draw_evaluation, evaluate_and_keep

        console = Console(highlight=False, soft_wrap=True)
        policy = open_policy(self.run_folder, self.device)
        settings = self._settings()
        if self.device is not None and (self.backend or policy.config.backend) in find_task(policy.config.task).native:
            settings["device"] = self.device
        setup = EvaluationSetup.of(policy.config, backend=self.backend, settings=settings, stiffness=self.stiffness)
        folder = results_folder(self.run_folder)
        with EvaluationProgress(console, self.episodes) as progress:
            result, summary = evaluate_and_keep(
                policy,
                setup,
                folder,
                episodes=self.episodes,
                seed=self.seed,
                num_envs=self.num_envs,
                on_step=progress.update,
            )
        print_evaluation(console, summary)
        console.print(f"numbers  {folder / setup.name}.json\nepisodes {folder / setup.name}.csv")
        if self.picture:
            picture, title = folder / "plots" / f"{setup.name}.png", evaluation_title(summary, short=True)
            try:
                console.print(f"picture  {draw_evaluation(result, setup, picture, title)}")
            except (MissingExtraError, BackendError) as error:  # the numbers are there all the same
                console.print(f"picture  none: {error}")
        return 0

    def _settings(self) -> dict[str, Any]:
        settings = parse_settings(self.set)
        if self.randomize and self.no_randomize:
            raise CurriculumError("--randomize and --no-randomize contradict each other: choose one.")
        if self.randomize or self.no_randomize:
            if "randomize" in settings:
                raise CurriculumError("randomize was given twice: as a flag and with --set. Leave one out.")
            settings["randomize"] = self.randomize
        return settings


def results_folder(policy: Path) -> Path:
    """Return where the results of a policy go: into its run folder, or into a folder beside its file."""
    return policy if policy.is_dir() else policy.with_name(f"{policy.stem}-eval")


def evaluate_run(folder: RunFolder, *, episodes: int, seed: int) -> dict[str, Any]:
    """Evaluate as trained, write ``eval.json`` and ``eval.csv`` into the run folder, and return the summary."""
    from adc_wrappers.training import load_trained
    from adc_wrappers.training.evaluating import EvaluationSetup, evaluate_and_keep

    policy = load_trained(folder)
    setup = EvaluationSetup.of(policy.config)
    return evaluate_and_keep(policy, setup, folder.path, episodes=episodes, seed=seed)[1]
