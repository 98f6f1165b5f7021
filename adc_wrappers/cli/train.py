"""``adc train``."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.core.files import full_disk_explained
from adc_wrappers.envs.registry import find_task
from adc_wrappers.runs import CheckpointError, RunFolder

from .evaluate import evaluate_run, print_evaluation
from .progress import TrainingProgress
from .training_options import TrainingOptions

if TYPE_CHECKING:
    from adc_wrappers.training import TrainConfig

__all__ = ["Train"]


@dataclass(frozen=True, kw_only=True)
class Train(TrainingOptions):
    """Train a policy under the curriculum, evaluate it at the target gains, plot the run."""

    seed: int | None = None
    """Seed of envs, policy and curriculum."""

    out: Path | None = None
    """Run folder; by default runs/TASK-BACKEND-DRIVER-seedN."""

    resume: bool = False
    """Go on from the newest whole checkpoint of the run folder; start if there is none."""

    overwrite: bool = False
    """Replace a run folder that exists."""

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
            full_disk_explained(folder.path, lambda: _after_full_disk(config.task, folder)),
        ):
            return self._train(console, config, folder, resumed)

    def _train(self, console: Console, config: TrainConfig, folder: RunFolder, resumed: bool) -> int:
        from adc_wrappers.runs.pictures import plot_runs
        from adc_wrappers.training.trainer import find_trainer, steps_done

        start, target = config.curriculum.start_stiffness, config.curriculum.target_stiffness
        console.print(f"{config.task} on {config.backend}: K {start} → {target}, {config.ppo.total_steps:,} steps")
        done = steps_done(folder) if resumed else 0
        if resumed:
            console.print(f"resuming {folder.path} at {done:,} steps")
        with TrainingProgress(console, config.ppo.total_steps, done) as progress:
            find_trainer(config.trainer).train(config, folder, resume=resumed, reporter=progress)
        if self.eval_episodes:
            print_evaluation(console, evaluate_run(folder, episodes=self.eval_episodes, seed=config.seed + 10_000))
        picture, table = plot_runs([folder], folder.plots / "curriculum.png")
        console.print(f"plot   {picture}\ndata   {table}\nrun    {folder.path}")
        return 0

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
        if self.resume and self.overwrite:
            raise CurriculumError("--resume and --overwrite contradict each other: choose one.")
        out = self.out if self.out is not None else self._default_out()
        folder = RunFolder(out)
        if self.resume and folder.config_file.exists():
            with folder.lock():
                yield self._resumed(folder, say), folder, True
            return
        config = self.scheduled(self.new_config(self.seed or 0, say))
        folder.check_free(overwrite=self.overwrite)
        with folder.lock():
            yield config, RunFolder.create(out, config.to_dict(), overwrite=self.overwrite), False

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

    def _default_out(self) -> Path:
        from adc_wrappers.training.recipes import find_recipe

        recipe = find_recipe(self.task, self.recipe).curriculum
        driver = self.curriculum.get("driver", recipe.get("driver", "episode_length"))
        return Path("runs") / f"{self.task}-{self.engine}-{driver}-seed{self.seed or 0}"


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


def _after_full_disk(task: str, folder: RunFolder) -> str:
    """Say what of a run is safe on a disk that is full, and how to go on."""
    try:
        kept = f"The newest whole checkpoint, of {folder.checkpoints.load_latest().step:,} steps, is kept."
    except CheckpointError:
        kept = "There was no checkpoint yet; the run will begin anew."
    command = shlex.join(["adc", "train", task, "--out", str(folder.path), "--resume"])
    return f"{kept} Make room, then go on with: {command}"
