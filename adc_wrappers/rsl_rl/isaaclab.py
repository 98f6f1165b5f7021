"""The paper's PPO for any number of Isaac Lab's envs."""

from __future__ import annotations

import dataclasses
from typing import Any

from adc_wrappers.training.recipes import PAPER_PPO

from .config import runner_config

__all__ = ["paper_config"]

_MINIBATCHES = 4


def paper_config(num_envs: int, **changes: Any) -> dict[str, Any]:
    """Return the runner's config of the paper's tables, four minibatches whatever the number of envs.

    Args:
        num_envs: Robots that are stepped together.
        **changes: Other settings of :class:`~adc_wrappers.training.ppo.PpoConfig`.

    >>> paper_config(64)["algorithm"]["num_mini_batches"]
    4
    """
    steps = int(changes.get("n_steps", PAPER_PPO.n_steps))
    batch = max(1, steps * num_envs // _MINIBATCHES)
    return runner_config(dataclasses.replace(PAPER_PPO, num_envs=num_envs, batch_size=batch, **changes))
