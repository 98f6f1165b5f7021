"""``adc demo``: a task with the curriculum and without it, side by side."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.console import Console

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.registry import find_task
from adc_wrappers.runs import FolderLock

from .progress import RunsProgress
from .training_options import TrainingOptions

if TYPE_CHECKING:
    from adc_wrappers.study import Job, Plan

__all__ = ["Demo"]

_TASK = "spot-planar-handstand"


@dataclass(frozen=True, kw_only=True)
class Demo(TrainingOptions):
    """Train with the curriculum and at the target stiffness side by side, evaluate both there, draw and film them."""

    task: tyro.conf.Positional[str] = _TASK
    """Name of a task; `adc envs` lists them."""

    conditions: tuple[str, ...] = ("adc", "train_at_target")
    """What is put side by side: conditions of `adc study`, or .toml files of your own."""

    seed: int = 0
    """Seed of both trainings."""

    episodes: int = 200
    """Episodes of each evaluation at the target stiffness."""

    seconds: float = 8.0
    """Length of the film."""

    out: Path = Path("runs/demo")
    """Folder; one that exists goes on where it was."""

    def run(self) -> int:
        """Train, evaluate, draw, film."""
        find_task(self.task)  # a mistyped name is answered before the slow imports
        if not self.seconds > 0.0:
            raise CurriculumError(f"--seconds: expected a positive number, got {self.seconds}.")
        from adc_wrappers.study import RobotFacts
        from adc_wrappers.training.trainer import check_trainer

        console = Console(highlight=False, soft_wrap=True)
        plan = self._plan(console.print)
        check_trainer(plan.config)
        jobs = plan.jobs(self.out.resolve(), RobotFacts.of(plan.config))
        with FolderLock(self.out, heed_signals=False):  # its workers end when this process is gone
            plan.begin(self.out, jobs, shlex.join(["adc", *sys.argv[1:]]))
            if not self._train(console, plan, jobs):
                return 1
        self._show(console)
        return 0

    def _plan(self, say: Callable[[str], None]) -> Plan:
        from adc_wrappers.study import Plan, RobotFacts, select_conditions

        options = dataclasses.replace(self, recipe="demo") if self._has_recipe() else self
        config = self.scheduled(TrainingOptions.new_config(options, 0, say))
        return Plan(
            conditions=tuple(select_conditions(self.conditions, RobotFacts.of(config))),
            seeds=(self.seed,),
            config=config,
            episodes=self.episodes,
        )

    def _has_recipe(self) -> bool:
        """Whether no recipe was named and the task has one for this."""
        from adc_wrappers.training.recipes import recipe_names

        return self.recipe is None and "demo" in recipe_names(self.task)

    def _train(self, console: Console, plan: Plan, jobs: list[Job]) -> bool:
        """Do the runs, a process each; whether all of them came to their end."""
        from adc_wrappers.study.executors import LocalExecutor, run_study
        from adc_wrappers.study.side_by_side import RunsWatch

        console.print(f"{self.task}: {len(jobs)} trainings of {plan.config.ppo.total_steps:,} steps side by side")
        titles = {condition.name: condition.title for condition in plan.conditions}
        with (
            RunsProgress(console, list(titles.values()), plan.config.ppo.total_steps) as progress,
            RunsWatch(jobs, lambda job, row: progress.update(titles[job.condition], row)),
        ):
            outcome = run_study(jobs, LocalExecutor(len(jobs)))
        for result in outcome.failed:
            last = (result.error or "").strip().splitlines()[-1:] or ["no reason given"]
            console.print(f"failed: {titles[result.condition]}: {last[0]}", markup=False)
        return not outcome.failed

    def _show(self, console: Console) -> None:
        from adc_wrappers.study.results import read_results
        from adc_wrappers.study.side_by_side import draw_side_by_side, film_side_by_side, verdict

        results = read_results(self.out)
        console.print(verdict(results), markup=False)
        console.print(f"plot   {draw_side_by_side(results, self.out / 'demo.png')}")
        console.print(f"film   {film_side_by_side(results, self.out / 'demo.gif', seconds=self.seconds)}")
