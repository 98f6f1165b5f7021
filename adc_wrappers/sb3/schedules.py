"""A learning rate that follows the KL divergence of the last update, as RSL-RL's does."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from adc_wrappers.core.errors import CurriculumError

__all__ = ["KLAdaptiveCallback", "KLAdaptiveLearningRate"]


class KLAdaptiveLearningRate:
    """A learning-rate schedule: down if an update moved the policy too far, up if it hardly did.

    The rule and the bounds are RSL-RL's; there it acts after every minibatch, here after every update, because SB3
    reports the divergence only then. Use with :class:`KLAdaptiveCallback`.

    Args:
        learning_rate: Where to begin.
        target_kl: Wanted divergence per update.
        factor: Factor by which the rate moves.
        bounds: Smallest and largest rate.

    Example:
        >>> schedule = KLAdaptiveLearningRate(1e-3, target_kl=0.01)
        >>> schedule.update(0.05)
        >>> round(schedule(1.0), 6)
        0.000667
    """

    def __init__(
        self,
        learning_rate: float = 1e-3,
        target_kl: float = 0.01,
        factor: float = 1.5,
        bounds: tuple[float, float] = (1e-5, 1e-2),
    ) -> None:
        if not (0 < bounds[0] <= learning_rate <= bounds[1] and target_kl > 0 and factor > 1):
            raise CurriculumError(
                "expected 0 < bounds[0] <= learning_rate <= bounds[1], target_kl > 0 and factor > 1; got "
                f"learning_rate {learning_rate}, bounds {bounds}, target_kl {target_kl}, factor {factor}."
            )
        self.learning_rate = learning_rate
        self.target_kl = target_kl
        self.factor = factor
        self.bounds = bounds

    def __call__(self, progress_remaining: float) -> float:
        """Return the present rate, whatever share of training remains."""
        return self.learning_rate

    def update(self, kl: float) -> None:
        """Take the divergence of an update into account; a value that is not finite lowers the rate."""
        if not np.isfinite(kl) or kl > 2.0 * self.target_kl:
            self.learning_rate /= self.factor
        elif 0.0 < kl < 0.5 * self.target_kl:
            self.learning_rate *= self.factor
        self.learning_rate = float(np.clip(self.learning_rate, *self.bounds))

    def state_dict(self) -> dict[str, float]:
        """Return what a checkpoint needs."""
        return {"learning_rate": self.learning_rate}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a checkpoint's rate."""
        self.learning_rate = float(np.clip(state["learning_rate"], *self.bounds))


class KLAdaptiveCallback(BaseCallback):
    """Feeds ``train/approx_kl`` of each update, the last one included, to a :class:`KLAdaptiveLearningRate`."""

    def __init__(self, schedule: KLAdaptiveLearningRate) -> None:
        super().__init__()
        self.schedule = schedule
        self._fed_at = -1

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        self._feed()

    def _on_training_end(self) -> None:
        self._feed()

    def _feed(self) -> None:
        kl = self.logger.name_to_value.get("train/approx_kl")
        if kl is not None and self.num_timesteps != self._fed_at:
            self.schedule.update(float(kl))
            self._fed_at = self.num_timesteps
