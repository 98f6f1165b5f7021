"""RSL-RL's runner with the curriculum closed after every policy update, over all ranks, and kept in checkpoints."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner

from adc_wrappers.core.episode_totals import EpisodeTotals
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.core.wrapper_methods import CurriculumMethods
from adc_wrappers.core.wrapper_methods import find_curriculum as find_inside

__all__ = ["CurriculumRunner", "find_curriculum", "sum_over_ranks"]


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
