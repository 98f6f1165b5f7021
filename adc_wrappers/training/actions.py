"""What happens to actions between the policy and the env while it trains; nothing, unless a study asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from adc_wrappers.core.action_wrappers import VectorActionNoiseCurriculum, VectorActionScaleCoupling
from adc_wrappers.core.errors import CurriculumError

__all__ = ["ActionConfig", "wrap_actions"]


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
    """Put around a vector env with a curriculum inside what the config asks for; the env itself if nothing."""
    if config.constant_torque:
        env = VectorActionScaleCoupling(env)
    if config.noise_std > 0.0:
        env = VectorActionNoiseCurriculum(env, start_std=config.noise_std, seed=seed)
    return env
