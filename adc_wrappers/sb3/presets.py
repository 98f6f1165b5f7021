"""PPO settings for Stable-Baselines3, by task."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PPO_PRESETS", "PpoConfig"]


@dataclass(frozen=True, kw_only=True)
class PpoConfig:
    """Settings of PPO; the defaults are the paper's where SB3 has the same setting."""

    total_steps: int = 1_000_000
    """Env steps of the whole training, summed over envs."""

    num_envs: int = 8
    """Envs that are stepped together."""

    n_steps: int = 24
    """Policy steps per env in one iteration."""

    batch_size: int = 48
    """Samples in a minibatch; SB3 counts samples where the paper counts minibatches (4)."""

    n_epochs: int = 5
    """Passes over an iteration's samples."""

    gamma: float = 0.99
    """Discount factor."""

    gae_lambda: float = 0.95
    """λ of the advantage estimate."""

    learning_rate: float = 1e-3
    """Where the learning rate begins; it then follows the KL divergence."""

    target_kl: float = 0.01
    """KL divergence per update that the learning rate aims at."""

    max_learning_rate: float = 1e-2
    """Upper bound of the learning rate."""

    clip_range: float = 0.2
    """Ratio clip."""

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


PPO_PRESETS: dict[str, PpoConfig] = {
    "cartpole": PpoConfig(
        total_steps=250_000,
        num_envs=8,
        n_steps=256,
        batch_size=512,
        n_epochs=10,
        max_learning_rate=3e-3,
        entropy_coef=0.0,
        hidden=(64, 64),
    ),
    "double-cartpole": PpoConfig(
        total_steps=1_000_000,
        num_envs=64,
        n_steps=64,
        batch_size=1024,
        n_epochs=10,
        max_learning_rate=1e-3,
        entropy_coef=0.0,
        initial_std=0.5,
        hidden=(64, 64),
    ),
}
"""Settings by task name; a task without an entry trains with the defaults."""
