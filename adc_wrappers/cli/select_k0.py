"""``adc select-k0``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import tyro
from rich.console import Console
from rich.table import Table

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.core.files import full_disk_explained
from adc_wrappers.envs.registry import find_task
from adc_wrappers.runs import FolderLock, RunFolder

from .evaluate import format_rate
from .progress import EvaluationProgress, TrainingProgress, interruption_explained
from .training_options import TrainingOptions, curriculum_options

if TYPE_CHECKING:
    from adc_wrappers.training import TrainConfig
    from adc_wrappers.training.selection import Selection, SelectionRule

__all__ = ["SelectK0"]

_EVALUATION_SEED = 10_000
_KEPT = "What was evaluated and the newest whole checkpoint of the run under way are kept."
_AFTER_FULL_DISK = f"{_KEPT} Make room, then give the same command with --resume."
_OF_THE_SEARCH = (
    "start_stiffness", "target_stiffness", "driver", "fixed_progress", "monotone", "hold_share", "total_iterations",
    "seed",
)  # fmt: skip
"""Settings of the curriculum that the search gives every policy itself."""

_CurriculumChanges: TypeAlias = Annotated[
    dict[str, Any], tyro.conf.arg(constructor_factory=lambda: curriculum_options(*_OF_THE_SEARCH))
]


@dataclass(frozen=True, kw_only=True)
class SelectK0(TrainingOptions):
    """Choose K_0 by the paper's rule: raise K from the target until a policy trained at that K passes."""

    target_stiffness: float | None = None
    """K_*, where the search begins; by default the task's."""

    step: float = 5.0
    """From one stiffness to the next."""

    max: float | None = None
    """Largest stiffness that is tried; by default twice the target. A search that goes on may be given another."""

    threshold: float = 0.98
    """Success rate that must be exceeded."""

    episodes: int = 1000
    """Episodes of each evaluation."""

    eval_envs: int | None = None
    """Envs that are stepped together in evaluations; by default at most 100."""

    seeds: tuple[int, ...] = (0,)
    """Train one policy with each of these seeds per stiffness; their episodes are pooled."""

    out: Path | None = None
    """Folder with one run per policy; by default runs/select-k0-TASK-BACKEND."""

    resume: bool = False
    """Go on with a search that was interrupted; what is finished is not repeated."""

    curriculum: _CurriculumChanges = field(default_factory=dict)
    """What policies are trained with at their fixed stiffness; the rest of the curriculum is the search's."""

    def run(self) -> int:
        """Search, and say what was found."""
        find_task(self.task)  # a mistyped name is answered before the slow imports
        from adc_wrappers.training.selection import Selection, check_stiffness, fixed_config
        from adc_wrappers.training.trainer import check_trainer

        console = Console(highlight=False, soft_wrap=True)
        rule, config = self._rule_and_config(console.print)
        check_trainer(config)
        check_stiffness(fixed_config(config, rule.stiffnesses()[-1], rule.seeds[0]))
        folder = self.out if self.out is not None else Path("runs") / f"select-k0-{self.task}-{self.engine}"
        with (
            FolderLock(folder),
            full_disk_explained(folder, lambda: _AFTER_FULL_DISK),
            interruption_explained(lambda: f"{_KEPT} Give the same command with --resume."),
        ):
            selection = (Selection.resume if self.resume else Selection.create)(folder, rule, config)
            for stiffness in rule.stiffnesses():
                for seed in rule.seeds:
                    self._try(console, selection, stiffness, seed)
                if selection.passed(stiffness):
                    break
            self._report(console, selection)
        return 0

    def _rule_and_config(self, say: Callable[[str], None]) -> tuple[SelectionRule, TrainConfig]:
        from adc_wrappers.training.selection import SelectionRule

        config = self.new_config(0, say)
        config = dataclasses.replace(config, curriculum=dataclasses.replace(config.curriculum, **self.curriculum))
        target = config.curriculum.target_stiffness if self.target_stiffness is None else self.target_stiffness
        if not isinstance(target, float | int):
            raise CurriculumError(
                f"the task's target stiffness differs between joints ({target}); the rule raises one number. "
                "Name one with --target-stiffness."
            )
        rule = SelectionRule(
            target=float(target),
            step=self.step,
            threshold=self.threshold,
            episodes=self.episodes,
            maximum=2.0 * target if self.max is None else self.max,
            seeds=self.seeds,
        )
        if self.eval_envs is not None and not 1 <= self.eval_envs <= self.episodes:
            raise CurriculumError(
                f"eval_envs: expected 1 to {self.episodes}, the number of episodes, got {self.eval_envs}."
            )
        return rule, config

    def _try(self, console: Console, selection: Selection, stiffness: float, seed: int) -> None:
        """Train and evaluate one policy, or what is missing of that."""
        from adc_wrappers.training import load_trained
        from adc_wrappers.training.evaluating import EvaluationSetup
        from adc_wrappers.training.selection import Candidate, fixed_config
        from adc_wrappers.training.trainer import finish_run

        candidate = selection.find(stiffness, seed)
        if candidate is not None and candidate.complete:
            return
        console.print(f"K = {stiffness:g}, seed {seed}")
        config = fixed_config(selection.config, stiffness, seed)
        folder = finish_run(
            config,
            selection.run_path(stiffness, seed),
            lambda done: TrainingProgress(console, config.ppo.total_steps, done),
        )
        policy = load_trained(folder)
        if candidate is None or candidate.own is None:
            own = self._evaluate(console, folder, policy, EvaluationSetup.of(policy.config))
            candidate = Candidate(stiffness=stiffness, seed=seed, steps=policy.steps, own=own)
            selection.record(candidate)
        at_target = EvaluationSetup.of(policy.config, stiffness=selection.rule.target)
        target = candidate.own if at_target.at_target else self._evaluate(console, folder, policy, at_target)
        selection.record(dataclasses.replace(candidate, target=target))

    def _evaluate(self, console: Console, folder: RunFolder, policy: Any, setup: Any) -> dict[str, Any]:
        from adc_wrappers.training.evaluating import evaluate_and_keep

        with EvaluationProgress(console, self.episodes) as progress:
            result, summary = evaluate_and_keep(
                policy,
                setup,
                folder.path,
                episodes=self.episodes,
                seed=_EVALUATION_SEED + policy.config.seed,
                num_envs=self.eval_envs,
                on_step=progress.update,
            )
        kept = ("episodes", "num_envs", "success_rate", "success_95", "length_mean", "modes")
        return {"successes": int(result.successes.sum()), **{name: summary[name] for name in kept}}

    def _report(self, console: Console, selection: Selection) -> None:
        from adc_wrappers.training.selection_report import draw_selection, write_selection_csv

        rule = selection.rule
        table = Table(title=f"{rule.episodes} episodes per policy, 95 % intervals", title_justify="left")
        for column in ("trained at K", "success there", "length there", f"success at K_* = {rule.target:g}", ""):
            table.add_column(column)
        for stiffness in rule.stiffnesses():
            own, target = selection.pooled(stiffness), selection.pooled(stiffness, "target")
            if own is not None and target is not None:
                rates = [format_rate(result["success_rate"], result["success_95"]) for result in (own, target)]
                mark = "passed" if selection.passed(stiffness) else ""
                table.add_row(f"{stiffness:g}", rates[0], f"{own['length_mean']:.1f}", rates[1], mark)
        console.print(table)
        console.print(_verdict(selection), style="bold")
        console.print(f"plot   {draw_selection(selection)}\ndata   {write_selection_csv(selection)}")
        console.print(f"search {selection.folder}")


def _verdict(selection: Selection) -> str:
    rule, chosen = selection.rule, selection.chosen
    if chosen is None:
        tried = ", ".join(f"{value:g}" for value in rule.stiffnesses())
        return (
            f"None of K = {tried} exceeded {rule.threshold:.1%} success: no K_0 is chosen. "
            "Go on with a larger --max (and --resume), or begin anew with more --steps."
        )
    text = f"K_0 = {chosen:g}: the smallest stiffness that exceeded {rule.threshold:.1%} success"
    if chosen == rule.target:
        text += ". It is the target itself: by this rule the task needs no curriculum"
    return text + "."
