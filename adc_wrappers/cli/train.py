"""``adc train``."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.core.files import full_disk_explained
from adc_wrappers.envs.registry import find_task
from adc_wrappers.runs import CheckpointError, RunFolder
from adc_wrappers.runs.folder import remove_run

from .evaluate import evaluate_run, print_evaluation
from .progress import TrainingProgress, curriculum_in_words, interruption_explained
from .training_options import TrainingOptions

if TYPE_CHECKING:
    from adc_wrappers.training import TrainConfig
    from adc_wrappers.training.wandb_log import WandbReporter

__all__ = ["Train"]


@dataclass(frozen=True, kw_only=True)
class Train(TrainingOptions):
    """Train a policy under the curriculum, evaluate it at the target gains, plot the run."""

    seed: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: 0)")] = None
    """Seed of envs, policy and curriculum."""

    out: Path | None = None
    """Run folder; by default runs/TASK-BACKEND-DRIVER-seedN."""

    start_from: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Run folder whose policy the training begins with: one of the same task, or for spot-handstand one of
    spot-planar-handstand, which is lifted into space."""

    first: bool = True
    """Train what the recipe begins with first (`robot`: `progress`); without it, the training begins from nothing."""

    resume: bool = False
    """Go on from the newest whole checkpoint of the run folder; start if there is none."""

    overwrite: bool = False
    """Replace a run folder that exists."""

    wandb: Annotated[str | None, tyro.conf.arg(metavar="PROJECT")] = None
    """Log to Weights & Biases too, in this project. WANDB_MODE=offline keeps it on this computer."""

    wandb_checkpoints: bool = False
    """Upload the last checkpoint there; by default no file leaves this computer."""

    eval_episodes: int = 100
    """Episodes of the evaluation at the target gains; 0 leaves it out."""

    def run(self) -> int:
        """Train."""
        find_task(self.task)  # a mistyped name is answered before the slow imports
        console = Console(highlight=False, soft_wrap=True)
        if int(os.environ.get("RANK", "0")) > 0:
            return self._join()
        with (
            self._prepared(console.print) as (config, folder, resumed),
            full_disk_explained(folder.path, lambda: f"{_kept(folder)} Make room, then go on with: {_go_on(folder)}"),
            interruption_explained(lambda: f"{_kept(folder)} Go on with: {_go_on(folder)}"),
        ):
            return self._train(console, config, folder, resumed)

    def _train(self, console: Console, config: TrainConfig, folder: RunFolder, resumed: bool) -> int:
        from adc_wrappers.runs.pictures import plot_runs
        from adc_wrappers.training.trainer import steps_done, trainer_for

        start, target = config.curriculum.start_stiffness, config.curriculum.target_stiffness
        console.print(f"{config.task} on {config.backend}: K {start} → {target}, {config.ppo.total_steps:,} steps")
        console.print(curriculum_in_words(config.curriculum))
        done = steps_done(folder) if resumed else 0
        if resumed:
            console.print(f"resuming {folder.path} at {done:,} steps")
        if not done:
            self._train_first(console, config, folder)
        with contextlib.ExitStack() as stack:
            progress = TrainingProgress(console, config.ppo.total_steps, done)
            log = stack.enter_context(self._wandb(progress, config, folder)) if self.wandb else None
            with progress:
                trainer_for(config).train(config, folder, resume=resumed, reporter=log or progress)
            if self.eval_episodes:
                evaluation = evaluate_run(folder, episodes=self.eval_episodes, seed=config.seed + 10_000)
                print_evaluation(console, evaluation)
                if log is not None:
                    log.summarize(evaluation)
        picture, table = plot_runs([folder], folder.plots / "curriculum.png")
        console.print(f"plot   {picture}\ndata   {table}\nrun    {folder.path}")
        return 0

    def _train_first(self, console: Console, config: TrainConfig, folder: RunFolder) -> None:
        """Train what the recipe begins with, or the rest of it."""
        from adc_wrappers.training.recipes import first_config
        from adc_wrappers.training.trainer import finish_run

        before = _first_folder(folder.path)
        if config.start_from != str(before):
            return
        first = first_config(config)
        if first is None:
            return
        console.print(f"first {first.task}, {first.ppo.total_steps:,} steps, in {before}")
        finish_run(first, before, lambda done: TrainingProgress(console, first.ppo.total_steps, done))

    def _wandb(self, progress: TrainingProgress, config: TrainConfig, folder: RunFolder) -> WandbReporter:
        from adc_wrappers.training.wandb_log import WandbReporter

        return WandbReporter(progress, config, folder, project=self.wandb or "", checkpoints=self.wandb_checkpoints)

    def _join(self) -> int:
        """Train as another process under torchrun: the first one keeps the run folder, evaluates and plots."""
        from adc_wrappers.rsl_rl.training import join
        from adc_wrappers.training import TrainConfig

        folder = RunFolder(self.out if self.out is not None else self._default_out())
        resumed = self.resume and bool(folder.checkpoints.paths())
        if resumed:
            config = self.applied_to(TrainConfig.from_dict(folder.config()), _say_nothing)
        else:
            config = self.new_config(self.seed or 0, _say_nothing)
        join(self.scheduled(config, begun=resumed), folder, resume=resumed)
        return 0

    @contextlib.contextmanager
    def _prepared(self, say: Callable[[str], None]) -> Iterator[tuple[TrainConfig, RunFolder, bool]]:
        """Yield the config, the run folder, locked, and whether the run goes on with an earlier part."""
        if self.wandb_checkpoints and not self.wandb:
            raise CurriculumError("--wandb-checkpoints: name a project too, with --wandb.")
        if self.resume and self.overwrite:
            raise CurriculumError("--resume and --overwrite contradict each other: choose one.")
        out = self.out if self.out is not None else self._default_out()
        folder = RunFolder(out)
        if self.resume and folder.config_file.exists():
            with folder.lock():
                yield self._resumed(folder, say), folder, True
            return
        from adc_wrappers.training.trainer import trainer_for

        config = self.scheduled(self.new_config(self.seed or 0, say))
        folder.check_free(overwrite=self.overwrite)
        trainer_for(config)  # what is missing is said before anything is written
        if config.start_from is not None:
            RunFolder.open(Path(config.start_from)).checkpoints.load_latest()
        else:
            config = self._with_first(config, folder)
        with folder.lock():
            made = RunFolder.create(out, config.to_dict(), overwrite=self.overwrite)
            try:
                yield config, made, False
            except ImportError:  # of another package, later: the same command must work once it is there
                if not made.checkpoints.paths():
                    remove_run(made.path)
                raise

    def _with_first(self, config: TrainConfig, folder: RunFolder) -> TrainConfig:
        """Return the config with the run that its recipe wants to begin with; that run is trained later."""
        from adc_wrappers.training.recipes import first_config

        if not self.first or first_config(config) is None:
            return config
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise CurriculumError(
                "the recipe trains another one first, which one process does: train that by itself, and give it "
                "with --start-from under torchrun."
            )
        before = _first_folder(folder.path)
        RunFolder(before).check_free(overwrite=self.overwrite)
        if self.overwrite and before.exists():
            with RunFolder(before).lock():
                remove_run(before)
        return dataclasses.replace(config, start_from=str(before))

    def _resumed(self, folder: RunFolder, say: Callable[[str], None]) -> TrainConfig:
        """Return the config of a run that goes on, and store it."""
        from adc_wrappers.training import TrainConfig
        from adc_wrappers.training.trained import check_settings

        stored = TrainConfig.from_dict(folder.config())
        if folder.checkpoints.paths():
            check_settings(folder, stored, folder.checkpoints.load_latest())
        seed = stored.seed if self.seed is None else self.seed
        config = self.scheduled(dataclasses.replace(self.applied_to(stored, say), seed=seed), begun=True)
        _refuse_changes(stored, config)
        folder.write_json("config.json", config.to_dict())
        folder.log_command()
        return config

    def applied_to(self, base: TrainConfig, say: Callable[[str], None]) -> TrainConfig:
        """Return ``base`` with the options that were given, and with what the training begins with."""
        config = super().applied_to(base, say)
        return config if self.start_from is None else dataclasses.replace(config, start_from=str(self.start_from))

    def _default_out(self) -> Path:
        from adc_wrappers.training.recipes import find_recipe

        recipe = find_recipe(self.task, self.recipe).curriculum
        driver = self.curriculum.get("driver", recipe.get("driver", "episode_length"))
        return Path("runs") / f"{self.task}-{self.engine}-{driver}-seed{self.seed or 0}"


def _first_folder(out: Path) -> Path:
    """Return where the training goes that a recipe begins with: beside the run folder."""
    return out.with_name(f"{out.name}-first")


def _say_nothing(text: str) -> None:
    """Leave it to the first process under torchrun to say what was changed."""


def _refuse_changes(stored: TrainConfig, config: TrainConfig) -> None:
    """Raise if a resumed run was given other settings than it began with; only more steps are possible."""
    allowed = dataclasses.replace(
        stored.moved_to(config.settings.get("device")),
        ppo=dataclasses.replace(stored.ppo, total_steps=config.ppo.total_steps),
        checkpoint_every=config.checkpoint_every,
    )
    before, after = allowed.to_dict(), config.to_dict()
    differing = [f"{key}: was {before[key]!r}, asked {after[key]!r}" for key in before if before[key] != after[key]]
    if differing:
        raise CurriculumError(
            "a resumed run keeps its settings (only --steps, --device and --checkpoint-every may change). "
            + "; ".join(differing)
            + ". Leave the option out, or begin a new run with --out."
        )


def _kept(folder: RunFolder) -> str:
    """Say what of a run that broke off is safe."""
    try:
        return f"The newest whole checkpoint, of {folder.checkpoints.load_latest().step:,} steps, is kept."
    except CheckpointError:
        return "There was no checkpoint yet; the run will begin anew."


def _go_on(folder: RunFolder) -> str:
    """Return the command that goes on with a run."""
    return shlex.join(["adc", "train", folder.config()["task"], "--out", str(folder.path), "--resume"])
