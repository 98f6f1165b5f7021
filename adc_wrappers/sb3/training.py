"""A training run with Stable-Baselines3 in a run folder: start, resume, load."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecMonitor

from adc_wrappers.core import ActuatorCurriculumVectorWrapper, CurriculumError
from adc_wrappers.core.files import whole_file
from adc_wrappers.envs.registry import make_env, make_vector_env
from adc_wrappers.runs import Checkpoint, RunFolder, holding_folder
from adc_wrappers.training.config import ProgressReporter, TrainConfig
from adc_wrappers.training.deterministic import DeterministicPolicy
from adc_wrappers.training.ppo import ActionConfig, PpoConfig, wrap_actions
from adc_wrappers.training.trained import keep_settings

from .callbacks import CurriculumCallback, KLAdaptiveCallback, KLAdaptiveLearningRate
from .run_callback import RunCallback, load_parameters, restore
from .vec_env import ActionVecEnv, ActuatorCurriculumVecEnv, VectorEnvAdapter, find_curriculum

__all__ = ["build_model", "load_module", "make_training_env", "train"]


@holding_folder
def train(config: TrainConfig, folder: RunFolder, *, resume: bool, reporter: ProgressReporter) -> PPO:
    """Train in a run folder, from the start or from its newest whole checkpoint.

    Args:
        config: The run's settings.
        folder: The run folder, already made.
        resume: Go on from the newest checkpoint.
        reporter: Is told about every iteration.

    Returns:
        The trained model; its last state is in the newest checkpoint too.
    """
    _refuse_unknown(config.ppo)
    keep_settings(config, folder, resume=resume)
    torch.set_num_threads(1)
    venv = make_training_env(config)
    try:
        schedule = KLAdaptiveLearningRate(
            config.ppo.learning_rate, config.ppo.target_kl, bounds=(1e-5, config.ppo.max_learning_rate)
        )
        model = build_model(config, venv, schedule)
        running = resume and restore(model, venv, schedule, folder)
        if not running:
            venv.seed(config.seed + model.num_timesteps)
        log = Logger(str(folder.path), [TensorBoardOutputFormat(str(folder.tensorboard))])
        model.set_logger(log)
        done = find_curriculum(venv).curriculum.iteration
        callbacks = [
            KLAdaptiveCallback(schedule),
            CurriculumCallback(),
            RunCallback(folder, schedule, config.checkpoint_every, reporter, done),
        ]
        remaining = config.ppo.total_steps - model.num_timesteps
        with contextlib.closing(log):  # TensorBoard has a file and a thread
            if remaining > 0:
                model.learn(remaining, callback=callbacks, log_interval=1, reset_num_timesteps=False)
        model.set_logger(Logger(None, []))
        with whole_file(folder.path / "model.zip") as beside:
            model.save(beside)
    finally:
        venv.close()
    return model


def make_training_env(config: TrainConfig) -> VecEnv:
    """Build the vectorized env with the curriculum and SB3's episode monitor around it."""
    count = config.ppo.num_envs
    make: Callable[..., Any] = functools.partial(
        make_env,
        config.task,
        backend=config.backend,
        early_termination=config.early_termination,
        tensors=False,
        **config.training_settings,
    )
    if config.workers == "batch":
        batch = ActuatorCurriculumVectorWrapper(make(num_envs=count), config.curriculum)
        return VecMonitor(VectorEnvAdapter(wrap_actions(batch, config.actions, config.seed)))
    children = DummyVecEnv([make] * count) if config.workers == "dummy" else SubprocVecEnv([make] * count)
    venv = ActuatorCurriculumVecEnv(children, config.curriculum)
    return VecMonitor(venv if config.actions == ActionConfig() else ActionVecEnv(venv, config.actions, config.seed))


def build_model(config: TrainConfig, env: VecEnv, schedule: KLAdaptiveLearningRate | float) -> PPO:
    """Build an untrained PPO."""
    ppo = config.ppo
    set_random_seed(config.seed)
    layers = list(ppo.hidden)
    return PPO(
        "MlpPolicy",
        env,
        learning_rate=schedule,
        n_steps=ppo.n_steps,
        batch_size=min(ppo.batch_size, ppo.n_steps * env.num_envs),
        n_epochs=ppo.n_epochs,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip_range,
        clip_range_vf=ppo.clip_range if ppo.clip_value else None,
        ent_coef=ppo.entropy_coef,
        vf_coef=ppo.value_coef,
        max_grad_norm=ppo.max_grad_norm,
        policy_kwargs={
            "net_arch": {"pi": layers, "vf": layers},
            "activation_fn": torch.nn.ELU,
            "log_std_init": float(np.log(ppo.initial_std)),
        },
        device="cpu",
    )


def load_module(config: TrainConfig, checkpoint: Checkpoint) -> torch.nn.Module:
    """Return the policy of a checkpoint: from observations to the mean action, clipped to the action space."""
    env = VectorEnvAdapter(make_vector_env(config.task, backend=config.backend, num_envs=1, settings=config.settings))
    model = build_model(config, env, config.ppo.learning_rate)
    load_parameters(model, checkpoint)
    env.close()
    return DeterministicPolicy(_MeanAction(model.policy), model.action_space)


class _MeanAction(torch.nn.Module):
    """The mean action of an SB3 policy as a function of observations.

    Args:
        policy: An actor-critic policy with a Gaussian over a box.
    """

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the mean actions for a batch of observations."""
        policy = self.policy
        features: Any = policy.extract_features(observation, policy.pi_features_extractor)
        latent = policy.mlp_extractor.forward_actor(features)
        mean: torch.Tensor = policy.action_net(latent)
        return mean


def _refuse_unknown(ppo: PpoConfig) -> None:
    """Raise if a setting that this trainer does not have was changed."""
    changed = ppo.of_rsl_rl_only()
    if changed:
        raise CurriculumError(
            f"trainer 'sb3' has no {', '.join(changed)}. Leave the option out, or train with --trainer rsl_rl."
        )
