"""RSL-RL's runner with the curriculum closed after every policy update, over all ranks, and one for a run folder."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import replace
from typing import Any

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner

from adc_wrappers.core.env_states import EnvState, EnvStateError
from adc_wrappers.core.episode_totals import EpisodeTotals
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.core.wrapper_methods import CurriculumMethods
from adc_wrappers.core.wrapper_methods import find_curriculum as find_inside
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

from .vec_env import RslRlVecEnv, TensorVecEnv

__all__ = ["CurriculumRunner", "RunFolderRunner", "find_curriculum", "rank", "sum_over_ranks"]


def sum_over_ranks(totals: EpisodeTotals) -> EpisodeTotals:
    """Add up the completed episodes of all ranks; the ``combine`` of a curriculum's wrapper under torchrun.

    Every rank must call it once per iteration, one whose gains are not as they should be too: the others learn of it
    and stop, instead of waiting. Outside a process group the totals come back as they are.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return totals
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    tensor = torch.tensor((*totals.sums, totals.failures), dtype=torch.float64, device=device)
    torch.distributed.all_reduce(tensor, op=torch.distributed.ReduceOp.SUM)
    *sums, failures = tensor.tolist()
    return replace(EpisodeTotals.from_sums(sums), failures=round(failures))


_KEY, _TASK = "adc_curriculum", "adc_task"


def find_curriculum(env: Any) -> CurriculumMethods:
    """Return the curriculum's wrapper inside an RSL-RL env, Isaac Lab's own ``RslRlVecEnvWrapper`` included."""
    return find_inside(
        env,
        CurriculumError(
            "there is no curriculum in the env: wrap it in ActuatorCurriculumWrapper before it is given to RSL-RL."
        ),
    )


class CurriculumRunner(OnPolicyRunner):
    """``OnPolicyRunner`` for an env with a curriculum in it; made and used like its parent.

    - After every update the iteration is closed: the curriculum moves by the episodes completed in it.
    - ``save`` puts the curriculum's state, and what a task of this library has learned beside it, into the checkpoint's
      ``infos``; ``load`` takes them out and writes the gains.
      A checkpoint without one loads too, with a warning, and leaves the curriculum where it is.
    - Under ``torchrun`` the episodes of all ranks are added up, so that all ranks have the same stiffness. On the CPU
      the ranks talk through gloo.

    Args:
        env: RSL-RL's view of the env, such as :class:`RslRlVecEnv`.
        train_cfg: RSL-RL's config, see :func:`runner_config`.
        log_dir: Where RSL-RL writes TensorBoard logs and checkpoints; None for neither.
        device: Where the policy lives.
    """

    _joined = False

    def __init__(self, env: VecEnv, train_cfg: dict[str, Any], log_dir: str | None = None, device: str = "cpu") -> None:
        self.curriculum_env = find_curriculum(env)
        self.curriculum_env.refuse_own_iterations("this runner")
        super().__init__(env, train_cfg, log_dir, device)
        if self.is_distributed and self.curriculum_env.adc.combine is None:
            self.curriculum_env.adc.combine = sum_over_ranks
        self._plain_update = self.alg.update
        self.alg.update = self._update

    def _update(self) -> dict[str, float]:
        losses: dict[str, float] = self._plain_update()
        self.curriculum_env.end_iteration()
        self.after_iteration(losses)
        return losses

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train; episodes that begin with a clock set at random are cut short, and are not counted."""
        self.curriculum_env.watch_clocks()
        super().learn(num_learning_iterations, init_at_random_ep_len)

    def after_iteration(self, losses: dict[str, float]) -> None:
        """Called after every update, with the curriculum moved and the new gains written; for subclasses."""

    def save(self, path: str, infos: dict[str, Any] | None = None) -> None:
        """Save models, optimizer and curriculum."""
        own: dict[str, Any] = {_KEY: self.curriculum_env.state_dict()}
        if self.curriculum_env.inner_task is not None:
            own[_TASK] = self.curriculum_env.inner_task.state_dict()
        super().save(path, {**(infos or {}), **own})

    def load(self, path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Load what :meth:`save` or the plain runner wrote."""
        infos: dict[str, Any] = super().load(path, *args, **kwargs) or {}
        if _KEY in infos:
            self.curriculum_env.load_state_dict(infos[_KEY])
        else:
            stiffness = self.curriculum_env.adc.report["stiffness"]
            warnings.warn(f"{path} has no curriculum in it: going on at K = {stiffness:g}.", stacklevel=2)
        if _TASK in infos and self.curriculum_env.inner_task is not None:
            self.curriculum_env.inner_task.load_state_dict(infos[_TASK])
        return infos

    def _configure_multi_gpu(self) -> None:
        """Join the process group; RSL-RL's own way knows CUDA only."""
        world_size = int(os.environ.get("WORLD_SIZE", "1"))
        if world_size == 1 or torch.device(self.device).type != "cpu":
            super()._configure_multi_gpu()
            return
        rank = int(os.environ.get("RANK", "0"))
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.is_distributed, self.gpu_world_size = True, world_size
        self.gpu_global_rank, self.gpu_local_rank = rank, local_rank
        self.cfg["multi_gpu"] = {"global_rank": rank, "local_rank": local_rank, "world_size": world_size}
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", rank=rank, world_size=world_size)
            self._joined = True

    def leave(self) -> None:
        """Leave the process group, if it is this runner that joined it: its threads may not outlive the program."""
        if self._joined and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        self._joined = False


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
        """Save what has not been saved."""
        if self._folder is not None and self.steps > 0 and rank() == 0:
            self._save(self.curriculum_env.curriculum.iteration)

    def close(self) -> None:
        """End the threads of TensorBoard's writer, the algorithm and the ranks, however the training has ended."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        end_algorithm = getattr(self.alg, "close", None)  # RSL-RL's own has no thread
        if end_algorithm is not None:
            end_algorithm()
        self.leave()

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
