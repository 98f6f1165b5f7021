"""A training run with Stable-Baselines3 in a run folder: start, resume, load."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecMonitor

from adc_wrappers.core import CurriculumConfig, CurriculumError
from adc_wrappers.core.errors import did_you_mean
from adc_wrappers.envs.registry import find_task, make_env
from adc_wrappers.runs import RunFolder

from .callbacks import CurriculumCallback
from .presets import PPO_PRESETS, PpoConfig
from .run_callback import ProgressReporter, RunCallback, load_parameters, restore
from .schedules import KLAdaptiveCallback, KLAdaptiveLearningRate
from .vec_env import ActuatorCurriculumVecEnv
from .vector_adapter import VectorEnvAdapter

__all__ = ["TrainConfig", "load_policy", "recommended_curriculum", "train"]

WORKERS = ("dummy", "subproc", "batch")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that decides a run."""

    task: str
    """Name of the task."""

    backend: str
    """Engine."""

    workers: str = "dummy"
    """``"dummy"``: envs one after another in this process, ``"subproc"``: a process each, ``"batch"``: a vector env."""

    seed: int = 0
    """Seed of envs, policy and curriculum."""

    curriculum: CurriculumConfig
    """The curriculum."""

    ppo: PpoConfig
    """The algorithm."""

    settings: dict[str, Any] = field(default_factory=dict)
    """The task's own settings."""

    checkpoint_every: int = 1
    """Iterations between two checkpoints."""

    trainer: str = "sb3"
    """Which adapter trains."""

    def __post_init__(self) -> None:
        find_task(self.task)
        if self.workers not in WORKERS:
            raise CurriculumError(f"unknown workers {self.workers!r}. {did_you_mean(self.workers, WORKERS)}")
        if self.checkpoint_every < 1:
            raise CurriculumError(f"checkpoint_every: expected at least 1, got {self.checkpoint_every}.")
        ppo = self.ppo
        if min(ppo.total_steps, ppo.num_envs, ppo.n_steps, ppo.batch_size, ppo.n_epochs) < 1:
            raise CurriculumError(f"expected positive counts in the PPO settings, got {ppo}.")

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["curriculum"] = self.curriculum.to_dict()
        values["ppo"] = dataclasses.asdict(self.ppo) | {"hidden": list(self.ppo.hidden)}
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainConfig:
        """Build the config that :meth:`to_dict` wrote."""
        ppo = dict(values["ppo"])
        ppo["hidden"] = tuple(ppo["hidden"])
        return cls(
            **{
                **values,
                "curriculum": CurriculumConfig.from_dict(values["curriculum"]),
                "ppo": PpoConfig(**ppo),
            }
        )

    @property
    def iterations(self) -> int:
        """Number of iterations in the whole training."""
        return -(-self.ppo.total_steps // (self.ppo.n_steps * self.ppo.num_envs))


def recommended_curriculum(task: str, backend: str, settings: dict[str, Any]) -> CurriculumConfig:
    """Return the curriculum that a task recommends."""
    env = make_env(task, backend=backend, **settings)
    config: CurriculumConfig = env.adc_config
    env.close()
    return config


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
    torch.set_num_threads(1)
    venv = make_training_env(config)
    try:
        schedule = KLAdaptiveLearningRate(
            config.ppo.learning_rate, config.ppo.target_kl, bounds=(1e-5, config.ppo.max_learning_rate)
        )
        model = build_model(config, venv, schedule)
        if resume:
            restore(model, venv, schedule, folder)
        venv.seed(config.seed + model.num_timesteps)
        model.set_logger(Logger(str(folder.path), [TensorBoardOutputFormat(str(folder.tensorboard))]))
        callbacks = [
            KLAdaptiveCallback(schedule),
            CurriculumCallback(),
            RunCallback(folder, schedule, config.checkpoint_every, reporter),
        ]
        remaining = config.ppo.total_steps - model.num_timesteps
        if remaining > 0:
            model.learn(remaining, callback=callbacks, log_interval=1, reset_num_timesteps=False)
        model.save(folder.path / "model.zip")
    finally:
        venv.close()
    return model


def make_training_env(config: TrainConfig) -> VecEnv:
    """Build the vectorized env with the curriculum and SB3's episode monitor around it."""
    count = config.ppo.num_envs
    if config.workers == "batch":
        from adc_wrappers.core import ActuatorCurriculumVectorWrapper

        batch = make_env(config.task, backend=config.backend, num_envs=count, **config.settings)
        return VecMonitor(VectorEnvAdapter(ActuatorCurriculumVectorWrapper(batch, config.curriculum)))
    make: Callable[[], Any] = functools.partial(make_env, config.task, backend=config.backend, **config.settings)
    children = DummyVecEnv([make] * count) if config.workers == "dummy" else SubprocVecEnv([make] * count)
    return VecMonitor(ActuatorCurriculumVecEnv(children, config.curriculum))


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


def load_policy(folder: RunFolder) -> tuple[TrainConfig, Callable[[NDArray[np.float32]], NDArray[np.float32]], int]:
    """Load a run's newest policy: its config, a deterministic function of observations, and its env steps."""
    config = TrainConfig.from_dict(folder.config())
    checkpoint = folder.checkpoints.load_latest()
    env = VectorEnvAdapter(make_env(config.task, backend=config.backend, num_envs=1, **config.settings))
    model = build_model(config, env, config.ppo.learning_rate)
    load_parameters(model, checkpoint)
    env.close()

    def policy(observation: NDArray[np.float32]) -> NDArray[np.float32]:
        action, _ = model.predict(observation, deterministic=True)
        return np.asarray(action, dtype=np.float32)

    return config, policy, checkpoint.step


def default_ppo(task: str) -> PpoConfig:
    """Return the PPO settings that a task trains with by default."""
    return PPO_PRESETS.get(task, PpoConfig())
