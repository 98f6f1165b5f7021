"""A training run with RSL-RL in a run folder: start, resume, load."""

from __future__ import annotations

import contextlib
import io

import torch

from adc_wrappers.core import ActuatorCurriculumVectorWrapper, ActuatorCurriculumWrapper
from adc_wrappers.envs.registry import make_env, make_vector_env
from adc_wrappers.runs import Checkpoint, RunFolder, holding_folder
from adc_wrappers.training.config import ProgressReporter, TrainConfig
from adc_wrappers.training.deterministic import DeterministicPolicy
from adc_wrappers.training.ppo import wrap_actions
from adc_wrappers.training.resuming import seed_generators
from adc_wrappers.training.trained import check_weights, keep_settings, read_tensors

from .config import runner_config
from .run_folder_runner import RunFolderRunner, rank
from .starting import begin_with
from .tensor_env import TensorVecEnv
from .vec_env import RslRlVecEnv

__all__ = ["join", "load_module", "make_training_env", "train"]


@holding_folder
def train(config: TrainConfig, folder: RunFolder, *, resume: bool, reporter: ProgressReporter) -> RunFolderRunner:
    """Train in a run folder, from the start or from its newest whole checkpoint.

    Args:
        config: The run's settings.
        folder: The run folder, already made.
        resume: Go on from the newest checkpoint.
        reporter: Is told about every iteration.

    Returns:
        The runner; its last state is in the newest checkpoint too.
    """
    keep_settings(config, folder, resume=resume)
    return _learn(config, folder, resume=resume, reporter=reporter)


def join(config: TrainConfig, folder: RunFolder, *, resume: bool) -> RunFolderRunner:
    """Train as one of the other processes under ``torchrun``; the first keeps the run folder.

    Args:
        config: The run's settings, the same for all.
        folder: The run folder, which is only read, and only to resume.
        resume: Go on from the newest checkpoint.
    """
    return _learn(config, folder, resume=resume, reporter=None)


def _learn(
    config: TrainConfig, folder: RunFolder, *, resume: bool, reporter: ProgressReporter | None
) -> RunFolderRunner:
    if not config.on_tensors:
        torch.set_num_threads(1)
    seed_generators(config.seed + rank())
    env = make_training_env(config)
    try:
        runner = _build(config, env, folder, reporter)
        if resume and not runner.restore():
            env.reset(seed=config.seed + rank() + runner.steps)
        if config.start_from is not None and runner.steps == 0:
            begin_with(runner.alg, env, config)
        remaining = config.iterations - runner.curriculum_env.curriculum.iteration
        if remaining > 0:
            runner.learn(remaining, init_at_random_ep_len=config.on_tensors)
        runner.finish()
    finally:
        env.close()
    return runner


def make_training_env(config: TrainConfig) -> RslRlVecEnv | TensorVecEnv:
    """Build the vector env, or the batch of tensors, with the curriculum around it, as RSL-RL sees it."""
    seed = config.seed + rank()
    own = {"device": config.device, "seed": seed} if config.on_tensors else {}
    batch = make_env(
        config.task,
        backend=config.backend,
        num_envs=config.ppo.num_envs,
        early_termination=config.early_termination,
        **{**config.settings, **own},
    )
    curriculum = ActuatorCurriculumWrapper(batch, config.curriculum)
    wrapped = wrap_actions(curriculum, config.actions, seed)
    view = TensorVecEnv if config.on_tensors else RslRlVecEnv
    return view(wrapped, reward_scale=config.ppo.reward_scale, seed=seed)


def load_module(config: TrainConfig, checkpoint: Checkpoint) -> torch.nn.Module:
    """Return the policy of a checkpoint: from observations to the mean action, clipped to the action space."""
    envs = make_vector_env(config.task, backend=config.backend, num_envs=1, settings=config.settings)
    env = RslRlVecEnv(ActuatorCurriculumVectorWrapper(envs, config.curriculum))
    runner = _build(config, env, None, None)
    parameters, where = read_tensors(checkpoint, "parameters.pt"), f"{checkpoint.path}: parameters.pt"
    weights = parameters.get("actor_state_dict") if isinstance(parameters, dict) else None
    check_weights(runner.alg.get_policy().state_dict(), weights, where)
    runner.alg.get_policy().load_state_dict(weights)
    env.close()
    return DeterministicPolicy(runner.alg.get_policy().as_onnx(verbose=False), envs.single_action_space)


def _build(
    config: TrainConfig, env: RslRlVecEnv | TensorVecEnv, folder: RunFolder | None, reporter: ProgressReporter | None
) -> RunFolderRunner:
    with contextlib.redirect_stdout(io.StringIO()):  # RSL-RL prints its networks
        return RunFolderRunner(env, runner_config(config.ppo, env), config, folder, reporter)
