"""Checkpoints, metrics and TensorBoard of a run, once per iteration."""

from __future__ import annotations

import math
import os
from typing import Any

from adc_wrappers.core.env_states import EnvState, EnvStateError
from adc_wrappers.runs import CheckpointError, RunFolder
from adc_wrappers.training.config import ProgressReporter, TrainConfig
from adc_wrappers.training.metrics import Pace, metrics_row, scalar_name
from adc_wrappers.training.resuming import (
    checkpoint_parts,
    load_random_states,
    load_running,
    load_torch_random_state,
    read_learning_rate,
    read_state,
    running_state,
)
from adc_wrappers.training.trained import read_tensors

from .runner import CurriculumRunner
from .tensor_env import TensorVecEnv
from .vec_env import RslRlVecEnv

__all__ = ["RunFolderRunner", "rank"]


def rank() -> int:
    """Return the number of this process under ``torchrun``; 0 without it."""
    return int(os.environ.get("RANK", "0"))


class RunFolderRunner(CurriculumRunner):
    """A :class:`CurriculumRunner` that keeps a run folder.

    Args:
        env: The env.
        train_cfg: RSL-RL's config.
        config: The run's settings.
        folder: Where metrics, logs and checkpoints go; None for nowhere. Under ``torchrun`` the first process writes.
        reporter: Is told about every iteration.
    """

    env: RslRlVecEnv | TensorVecEnv

    def __init__(
        self,
        env: RslRlVecEnv | TensorVecEnv,
        train_cfg: dict[str, Any],
        config: TrainConfig,
        folder: RunFolder | None,
        reporter: ProgressReporter | None,
    ) -> None:
        super().__init__(env, train_cfg, None, env.device)
        self.steps = 0
        """Env steps so far, summed over envs."""
        self._config = config
        self._folder = folder
        self._reporter = reporter
        self._writer: Any = None
        self._pace = Pace()
        self._saved = -1
        self._running: EnvState | None = None

    def after_iteration(self, losses: dict[str, float]) -> None:
        """Bound the learning rate, anneal, write the metrics, and save if it is time to."""
        self.alg.learning_rate = min(self.alg.learning_rate, self._config.ppo.max_learning_rate)
        self.steps += self._config.ppo.iteration_steps
        self._anneal()
        if self._folder is None or rank() > 0:
            return
        row = self._row()
        self._folder.metrics.append(row)
        self._log(row, losses)
        self._running = running_state(self.curriculum_env, self.env.trainer_state())
        if int(row["iteration"]) % self._config.checkpoint_every == 0:
            self._save(int(row["iteration"]))
        if self._reporter is not None:
            self._reporter.update(self.steps, row)

    def _anneal(self) -> None:
        self.alg.desired_kl, self.alg.entropy_coef = self._config.ppo.annealed(self.steps)

    def finish(self) -> None:
        """Save what has not been saved and close the logs."""
        if self._folder is not None and self.steps > 0 and rank() == 0:
            self._save(self.curriculum_env.curriculum.iteration)
        if self._writer is not None:
            self._writer.close()

    def restore(self) -> bool:
        """Go to the state of the folder's newest whole checkpoint, if there is any.

        Returns:
            Whether the envs are in the midst of their episodes, so that they must not be reset.
        """
        folder = self._folder
        if folder is None:
            return False
        if not folder.checkpoints.paths():
            self._keep_metrics(0)
            return False
        checkpoint = folder.checkpoints.load_latest()
        state = read_state(checkpoint)
        parameters = read_tensors(checkpoint, "parameters.pt")
        try:
            self.alg.load(parameters, None, True)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:  # in torch's words
            raise CheckpointError(f"{checkpoint.path}: parameters.pt does not fit the networks ({error}).") from error
        self.alg.learning_rate = read_learning_rate(checkpoint, state.get("learning_rate"))
        self.curriculum_env.load_state_dict(state["curriculum"])
        self.env.unwrapped.task.load_state_dict(state.get("task") or {})
        self.steps = int(state["num_timesteps"])
        self._anneal()
        self._saved = int(state["curriculum"]["iteration"])
        self._pace.restart(self.steps)
        self._keep_metrics(self._saved)
        trainer = load_running(checkpoint, self.curriculum_env)
        if trainer is not None:
            try:
                self.env.load_trainer_state(trainer)
            except EnvStateError as error:
                raise CheckpointError(f"{checkpoint.path}: {error}") from error
        if rank() > 0:  # whose numbers are its own
            return trainer is not None
        if "numpy_rng" in state:
            load_random_states(state)
        load_torch_random_state(checkpoint, read_tensors(checkpoint, "torch_rng.pt"))
        return trainer is not None

    def _keep_metrics(self, iteration: int) -> None:
        """Forget rows after the checkpoint, which are written anew."""
        if self._folder is not None and rank() == 0:
            self._folder.metrics.keep_until(iteration)

    def _row(self) -> dict[str, float]:
        holding, self.env.holding = self.env.holding / self._config.ppo.n_steps, 0.0
        return metrics_row(
            self.curriculum_env,
            steps=self.steps,
            returns=self.env.recent_returns,
            learning_rate=self.alg.learning_rate,
            pace=self._pace,
            holding=holding,
            action_std=self.alg.get_policy().output_std.mean().item(),
        )

    def _log(self, row: dict[str, float], losses: dict[str, float]) -> None:
        if self._folder is None:
            return
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._folder.tensorboard))
        for name, value in row.items():
            if name not in ("iteration", "steps") and math.isfinite(value):
                self._writer.add_scalar(scalar_name(name), value, self.steps)
        for name, value in losses.items():
            self._writer.add_scalar(f"loss/{name}", value, self.steps)

    def _save(self, iteration: int) -> None:
        if self._folder is None or iteration == self._saved:
            return
        parts = checkpoint_parts(
            self.curriculum_env,
            steps=self.steps,
            learning_rate=self.alg.learning_rate,
            parameters=self.alg.save(),
            running=self._running,
        )
        self._folder.checkpoints.save(self.steps, parts)
        self._saved = iteration
