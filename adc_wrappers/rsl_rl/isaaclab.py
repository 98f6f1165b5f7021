"""The paper's PPO for Isaac Lab's own tools, as the config class that they expect."""

from __future__ import annotations

from typing import Any

from adc_wrappers.training.presets import PAPER_PPO

from .config import runner_config

__all__ = ["HandstandRunnerCfg", "paper_config"]

ITERATIONS = 10_000


def paper_config(num_envs: int, **changes: Any) -> dict[str, Any]:
    """Return the runner's config of the paper's tables, four minibatches whatever the number of envs.

    Args:
        num_envs: Robots that are stepped together.
        **changes: Other settings of :class:`~adc_wrappers.training.ppo.PpoConfig`.
    """
    import dataclasses

    steps = int(changes.get("n_steps", PAPER_PPO.n_steps))
    ppo = dataclasses.replace(PAPER_PPO, num_envs=num_envs, batch_size=max(1, steps * num_envs // 4), **changes)
    return runner_config(ppo)


class HandstandRunnerCfg:
    """What ``isaaclab train --rl_library rsl_rl --task ADC-Spot-Handstand-v0`` reads; it trains without a curriculum.

    ``examples/isaaclab/train.py`` trains with it.
    """

    seed = 42
    device = "cuda:0"
    max_iterations = ITERATIONS
    experiment_name = "spot_handstand"
    run_name = ""
    logger = "tensorboard"
    resume = False
    load_run = ".*"
    load_checkpoint = "model_.*.pt"
    clip_actions = None
    class_name = "OnPolicyRunner"

    def to_dict(self) -> dict[str, Any]:
        """Return the runner's config."""
        return {**paper_config(PAPER_PPO.num_envs), "seed": self.seed, "logger": self.logger}
