"""Settings of PPO, the same words for every trainer, and what happens to actions while it trains."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from adc_wrappers.core.action_wrappers import (
    ActionNoiseCurriculum,
    ActionScaleCoupling,
    VectorActionNoiseCurriculum,
    VectorActionScaleCoupling,
)
from adc_wrappers.core.errors import CurriculumError

__all__ = ["ActionConfig", "PpoConfig", "wrap_actions"]


@dataclass(frozen=True, kw_only=True)
class ActionConfig:
    """The paper's two action ablations. Evaluation has neither: the noise is of training, and K_*/K is 1 there."""

    noise_std: float = 0.0
    """Standard deviation of noise that is added to actions at progress 0; it falls to 0 at progress 1."""

    constant_torque: bool = False
    """Scale actions by K_*/K, so that K·α stays what it is at the target."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.noise_std) and self.noise_std >= 0.0):
            raise CurriculumError(f"actions.noise_std: expected a number that is not negative, got {self.noise_std}.")


def wrap_actions(env: Any, config: ActionConfig, seed: int) -> Any:
    """Put around a vector env, or a batch of tensors, with a curriculum inside what the config asks for."""
    arrays = isinstance(env, VectorEnv)
    if config.constant_torque:
        env = VectorActionScaleCoupling(env) if arrays else ActionScaleCoupling(env)
    if config.noise_std > 0.0:
        noise = VectorActionNoiseCurriculum if arrays else ActionNoiseCurriculum
        env = noise(env, start_std=config.noise_std, seed=seed)
    return env


_POSITIVE = (
    "learning_rate", "max_learning_rate", "target_kl", "final_target_kl", "clip_range", "initial_std", "sideways_std",
    "min_std", "max_grad_norm", "reward_scale", "output_gain",
)  # fmt: skip
_COUNTS = ("total_steps", "num_envs", "n_steps", "batch_size", "n_epochs")
_RSL_RL_ONLY = (
    "equivariant", "final_entropy_coef", "final_target_kl", "min_std", "mirrored", "output_gain", "privileged_value",
    "reward_scale", "scale_observations", "sideways_std",
)  # fmt: skip
_NOT_NEGATIVE = ("entropy_coef", "final_entropy_coef", "value_coef")


@dataclass(frozen=True, kw_only=True)
class PpoConfig:
    """Settings of PPO; the defaults are the paper's."""

    total_steps: int = 1_000_000
    """Env steps of the whole training, summed over envs."""

    num_envs: int = 8
    """Envs that are stepped together."""

    n_steps: int = 24
    """Policy steps per env in one iteration."""

    batch_size: int = 48
    """Samples in a minibatch; the paper counts minibatches (4)."""

    n_epochs: int = 5
    """Passes over an iteration's samples."""

    gamma: float = 0.99
    """Discount factor."""

    gae_lambda: float = 0.95
    """λ of the advantage estimate."""

    learning_rate: float = 1e-3
    """Where the learning rate begins; it then follows the KL divergence."""

    target_kl: float = 0.01
    """KL divergence that the learning rate aims at: per iteration with SB3, per minibatch with RSL-RL."""

    max_learning_rate: float = 1e-2
    """Upper bound of the learning rate; with RSL-RL, whose own is 1e-2, it is applied after every iteration."""

    clip_range: float = 0.2
    """Ratio clip."""

    clip_value: bool = True
    """Clip the value loss at ``clip_range`` too. Returns that are large beside it then learn slowly."""

    entropy_coef: float = 0.0025
    """Entropy loss scale."""

    value_coef: float = 0.5
    """Value loss scale."""

    max_grad_norm: float = 1.0
    """Gradient norm clip."""

    initial_std: float = 1.0
    """Initial standard deviation of the policy."""

    hidden: tuple[int, ...] = (512, 256, 128)
    """Hidden layers of the policy and of the value network, ELU between them."""

    reward_scale: float = 1.0
    """Factor on the reward that the algorithm sees; returns in logs and evaluations are without it."""

    min_std: float = 1e-6
    """Lower bound of the policy's standard deviation. RSL-RL only."""

    sideways_std: float | None = None
    """Initial standard deviation of the antisymmetric half of a mirrored policy; by default ``initial_std``. RSL-RL
    only."""

    mirrored: bool = False
    """Use the task's left-right symmetry: what the policy does in a mirrored state is the mirrored action, exactly, and
    exploration has symmetric and antisymmetric parts of their own. RSL-RL only."""

    equivariant: bool = False
    """Make mirrored networks of layers that are symmetric themselves, half of ``hidden`` even and half odd, instead of
    averaging over an observation and its mirror image: one pass instead of two. RSL-RL only."""

    scale_observations: bool = False
    """Multiply observations by the task's fixed scales before the networks see them. RSL-RL only."""

    privileged_value: bool = False
    """Let the value network see what only a simulator knows (the true state, what was drawn at random) instead of what
    the policy sees; it is not needed after training. RSL-RL on a batch of envs only."""

    final_target_kl: float | None = None
    """Where ``target_kl`` goes, linearly over ``total_steps``; None keeps it. Large steps find a skill, small ones
    polish it. RSL-RL only."""

    final_entropy_coef: float | None = None
    """Where ``entropy_coef`` goes likewise. RSL-RL only."""

    output_gain: float = 1.0
    """Factor on the initial weights of the policy's last layer; a small one begins at the nominal pose. RSL-RL only."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise CurriculumError(f"ppo.{name}: expected a positive count, got {getattr(self, name)}.")
        if not self.hidden or min(self.hidden) < 1:
            raise CurriculumError(f"ppo.hidden: expected positive sizes of one or more layers, got {self.hidden}.")
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0.0):
                raise CurriculumError(f"ppo.{name}: expected a positive number, got {value}.")
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value >= 0.0):
                raise CurriculumError(f"ppo.{name}: expected a number that is not negative, got {value}.")
        for name in ("gamma", "gae_lambda"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise CurriculumError(f"ppo.{name}: expected a number in [0, 1], got {getattr(self, name)}.")

    def of_rsl_rl_only(self) -> list[str]:
        """Return the settings that were changed and that only RSL-RL has.

        >>> PpoConfig(mirrored=True, gamma=0.9).of_rsl_rl_only()
        ['mirrored']
        """
        plain = PpoConfig()
        return [name for name in _RSL_RL_ONLY if getattr(self, name) != getattr(plain, name)]

    def annealed(self, steps: int) -> tuple[float, float]:
        """Return target KL and entropy coefficient after so many env steps.

        >>> PpoConfig(total_steps=100, target_kl=0.03, final_target_kl=0.01).annealed(50)
        (0.02, 0.0025)
        """
        share = min(steps / self.total_steps, 1.0)
        pairs = ((self.target_kl, self.final_target_kl), (self.entropy_coef, self.final_entropy_coef))
        kl, entropy = (first if last is None else first + share * (last - first) for first, last in pairs)
        return kl, entropy

    def changed(self, changes: Mapping[str, Any]) -> tuple[PpoConfig, str]:
        """Return these settings with changes, and what else became of them in words.

        Another number of envs keeps the numbers of minibatches and of iterations: the size of a minibatch and the steps
        of the training follow, unless they are among the changes.

        >>> ppo, said = PpoConfig(num_envs=8, n_steps=25, batch_size=50).changed({"num_envs": 4, "total_steps": 900})
        >>> said
        'num_envs 8 → 4: batch_size 50 → 25 (still 4 minibatches)'
        """
        following: dict[str, int] = {}
        envs = changes.get("num_envs", self.num_envs)
        if envs != self.num_envs:
            samples = envs * changes.get("n_steps", self.n_steps)
            following = {"batch_size": -(-samples // self.minibatches), "total_steps": samples * self.iterations}
        new = dataclasses.replace(self, **{**following, **changes})
        kept = {"batch_size": f"{new.minibatches} minibatches", "total_steps": f"{new.iterations:,} iterations"}
        said = [
            f"{name} {getattr(self, name):,} → {value:,} (still {kept[name]})"
            for name, value in following.items()
            if name not in changes and value != getattr(self, name)
        ]
        return new, f"num_envs {self.num_envs:,} → {envs:,}: {', '.join(said)}" if said else ""

    @property
    def minibatches(self) -> int:
        """Minibatches in one pass over an iteration's samples."""
        return max(1, round(self.iteration_steps / self.batch_size))

    @property
    def iteration_steps(self) -> int:
        """Env steps of one iteration, summed over envs."""
        return self.n_steps * self.num_envs

    @property
    def iterations(self) -> int:
        """Iterations in the whole training."""
        return -(-self.total_steps // self.iteration_steps)
