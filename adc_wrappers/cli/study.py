"""``adc study``: run conditions with many seeds, report."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.core.files import full_disk_explained
from adc_wrappers.envs.registry import find_task
from adc_wrappers.runs import FolderLock

from .options import parse_settings
from .progress import CommandProgress, interruption_explained
from .training_options import TrainingOptions, curriculum_options, ppo_options

if TYPE_CHECKING:
    from adc_wrappers.study import Executor, Job, JobResult, Plan, RobotFacts
    from adc_wrappers.study.executors import StudyOutcome
    from adc_wrappers.training import TrainConfig

__all__ = ["Study", "StudyReport"]


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """Write a study's page, tables, numbers and pictures from whatever runs are finished."""

    folder: tyro.conf.Positional[Path]
    """The study's folder: CONDITION/seedN/ are ordinary run folders with an evaluation."""

    out: Path | None = None
    """Where the report goes; by default into the folder `report` of the study."""

    films: bool = True
    """Film a policy of every condition, where that has not been done."""

    seed: int = 0
    """Seed of the bootstrap."""

    def run(self) -> int:
        """Report."""
        from adc_wrappers.study.analysis import analyse
        from adc_wrappers.study.markdown import study_tables
        from adc_wrappers.study.report import write_report
        from adc_wrappers.study.verdict import verdict_of

        console = Console(highlight=False, soft_wrap=True)
        results, page = write_report(self.folder, self.out, films=self.films, seed=self.seed)
        numbers = analyse(results, seed=self.seed)
        for table in study_tables(results, numbers):
            shown = Table(*table.head, title=Text(table.title), title_justify="left")
            for _, cells in table.rows:
                shown.add_row(*(Text(cell.full) for cell in cells))
            console.print(shown)
        found = verdict_of(numbers)
        for part in filter(None, (found.text, found.warning)):
            console.print(f"{part}\n", markup=False)
        others = ("report.md", "runs.csv", "conditions.csv", "curves.png", "estimates.png", "profiles.png")
        console.print(f"page   {page}\nbeside {', '.join(others)}, scores-….npz")
        return 0


_KEPT = "Finished runs and the newest whole checkpoints of the others are kept."
_AFTER_FULL_DISK = f"{_KEPT} Make room, then give the same command again: it goes on."
_PpoChanges: TypeAlias = Annotated[dict[str, Any], tyro.conf.arg(constructor_factory=lambda: ppo_options("--budget"))]
_CurriculumChanges: TypeAlias = Annotated[
    dict[str, Any], tyro.conf.arg(constructor_factory=lambda: curriculum_options("seed"))
]
_QUICK_SEEDS, _QUICK_EPISODES, _QUICK_SHARE = 2, 100, 10


@dataclass(frozen=True, kw_only=True)
class StudyRun(TrainingOptions):
    """Train every condition with every seed, evaluate each policy at exactly the target gains, report."""

    conditions: tuple[str, ...] = ()
    """Names of conditions, or .toml files of your own; by default all."""

    seeds: int | None = None
    """Number of seeds, by default 10."""

    first_seed: int = 0
    """The first of them. Tune on other seeds than those that are reported."""

    episodes: int | None = None
    """Episodes of each evaluation; by default 1000."""

    eval_envs: int | None = None
    """Envs that are stepped together in it; by default 100."""

    quick: bool = False
    """A first look: the task's recipe `quick`, or a tenth of its budget; 2 seeds, 100 episodes."""

    out: Path | None = None
    """Folder of the study; by default runs/study-TASK. One that exists goes on."""

    executor_name: Annotated[
        Literal["local", "ray", "slurm"], tyro.conf.arg(name="executor", aliases=("--engine",))
    ] = "local"
    """local: processes here; ray: a Ray cluster; slurm: jobs through submitit."""

    jobs: int | None = None
    """Runs at a time; by default one per core. Ray decides by itself."""

    devices: str | None = None
    """Numbers of GPUs here, as in 0,1,2: one run at a time on each; by default 0 for a simulator on a GPU. Ray and
    Slurm give every run a GPU themselves."""

    address: str | None = None
    """Address of a Ray cluster, or auto; by default one is started here."""

    cluster: Literal["slurm", "local"] = "slurm"
    """For --executor slurm: local runs submitit's own processes on this machine."""

    slurm: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Parameters of submitit's executor, such as timeout_min=600 slurm_partition=cpu."""

    ppo: _PpoChanges = field(default_factory=dict)
    """The algorithm, the same for all conditions; what is not given is as the recipe says. Another number of envs keeps
    the recipe's numbers of minibatches and of iterations, unless batch_size and steps are given too."""

    curriculum: _CurriculumChanges = field(default_factory=dict)
    """ADC itself, from which conditions differ; what is not given is as the recipe says. Its seed is the run's."""

    report: bool = True
    """Write the report when the runs are done."""

    def run(self) -> int:
        """Run the study."""
        find_task(self.task)  # a mistyped name is answered before the slow imports
        from adc_wrappers.study import Plan, RobotFacts, select_conditions

        console = Console(highlight=False, soft_wrap=True)
        config = self._config(console.print)
        facts = RobotFacts.of(config)
        plan = Plan(
            conditions=tuple(select_conditions(self.conditions, facts)),
            seeds=tuple(range(self.first_seed, self.first_seed + self._number("seeds", _QUICK_SEEDS, 10))),
            config=config,
            episodes=self._number("episodes", _QUICK_EPISODES, 1000),
            eval_envs=self.eval_envs,
        )
        out = Path("runs") / f"study-{self.task}" if self.out is None else self.out
        executor, jobs = self._executor(out, config), plan.jobs(out.resolve(), facts)
        with FolderLock(out, heed_signals=False):  # its workers end when this process is gone
            plan.begin(out, jobs, shlex.join(["adc", *sys.argv[1:]]))
            return self._run(console, plan, facts, jobs, executor, out)

    def _run(
        self, console: Console, plan: Plan, facts: RobotFacts, jobs: list[Job], executor: Executor, out: Path
    ) -> int:
        from adc_wrappers.study.executors import run_study

        config = plan.config
        console.print(
            f"{self.task} on {config.backend}: {len(plan.conditions)} conditions × {len(plan.seeds)} seeds, "
            f"{config.ppo.total_steps:,} steps each"
        )
        if not self.conditions and len(facts.joint_names) == 1:
            console.print("per_joint is left out: the robot has one joint")
        with (
            full_disk_explained(out, lambda: _AFTER_FULL_DISK),
            interruption_explained(lambda: f"{_KEPT} Give the same command again: it goes on."),
            CommandProgress(console, "study", "runs", len(jobs)) as progress,
        ):

            def show(outcome: StudyOutcome, result: JobResult) -> None:
                done = len(outcome.kept) + len(outcome.finished)
                progress.show(done, _line(result))

            outcome = run_study(jobs, executor, show)
        console.print(f"{len(outcome.kept)} runs were finished before, {len(outcome.finished)} now")
        _print_failures(console, outcome, jobs)
        code = StudyReport(folder=out).run() if self.report else 0
        return 1 if outcome.failed else code

    def _number(self, name: str, quick: int, usual: int) -> int:
        value: int | None = getattr(self, name)
        return value if value is not None else quick if self.quick else usual

    def _config(self, say: Callable[[str], None]) -> TrainConfig:
        """Return the base config: ADC, with the schedule fitted to the budget."""
        options = self._quick_options() if self.quick else self
        return self.scheduled(TrainingOptions.new_config(options, 0, say))

    def _quick_options(self) -> StudyRun:
        from adc_wrappers.training.recipes import RECIPES, find_recipe

        if self.recipe is None and "quick" in RECIPES.get(self.task, {}):
            return dataclasses.replace(self, recipe="quick")
        if "total_steps" not in self.ppo:
            steps = find_recipe(self.task, self.recipe).ppo.total_steps // _QUICK_SHARE
            return dataclasses.replace(self, ppo={**self.ppo, "total_steps": steps})
        return self

    def _executor(self, out: Path, config: TrainConfig) -> Executor:
        gpus = int(config.device.startswith("cuda"))
        if self.devices is not None and (self.executor_name != "local" or not gpus):
            raise CurriculumError(
                f"--devices {self.devices}: expected the executor local and a simulator on a GPU; got "
                f"{self.executor_name} and the device {config.device}."
            )
        if self.executor_name == "ray":
            from adc_wrappers.study.executors import RayExecutor

            return RayExecutor(self.address, gpus)
        if self.executor_name == "slurm":
            from adc_wrappers.study.executors import SlurmExecutor

            parameters: dict[str, Any] = parse_settings(self.slurm)
            return SlurmExecutor(
                out.resolve() / "submitit",
                cluster=self.cluster,
                parameters=parameters,
                parallel=self.jobs,
                gpus=gpus,
            )
        if self.slurm or self.address:
            raise CurriculumError("--slurm and --address are of other executors: choose one with --executor.")
        from adc_wrappers.study import LocalExecutor
        from adc_wrappers.training.trainer import check_trainer

        check_trainer(config)  # of other machines nothing is known here
        return LocalExecutor(self.jobs, (self.devices or "0").split(",") if gpus else ())


@dataclass(frozen=True, kw_only=True)
class Study:
    """Compare conditions over many seeds, with honest statistics, on one machine or many."""

    command: Annotated[
        Annotated[StudyRun, tyro.conf.subcommand("run")] | Annotated[StudyReport, tyro.conf.subcommand("report")],
        tyro.conf.arg(name=""),
    ]
    """What to do."""

    def run(self) -> int:
        """Do it."""
        return self.command.run()


def _line(result: JobResult) -> str:
    name = f"{result.condition}, seed {result.seed}"
    if result.summary is None:
        return f"{name}: failed"
    numbers = result.summary
    return (
        f"{name}: success {numbers['success_rate']:.1%}, length {numbers['length_mean']:.0f}, "
        f"return {numbers['return_mean']:.1f}, {result.seconds:.0f} s"
    )


def _print_failures(console: Console, outcome: StudyOutcome, jobs: list[Job]) -> None:
    folders = {(job.condition, job.seed): job.folder for job in jobs}
    for result in outcome.failed:
        last = (result.error or "").strip().splitlines()[-1:] or ["no reason given"]
        console.print(f"failed: {result.condition}, seed {result.seed}: {last[0]}", markup=False)
        console.print(f"        {folders[result.condition, result.seed]}/job.json has the whole of it", markup=False)
