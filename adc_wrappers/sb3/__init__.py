"""Stable-Baselines3: one curriculum in the main process for any VecEnv, closed by a callback."""

from adc_wrappers.core.errors import MissingExtraError

try:
    import stable_baselines3  # noqa: F401
except ImportError as error:
    raise MissingExtraError("stable-baselines3", "sb3", "adc_wrappers.sb3") from error

from .callbacks import (
    CurriculumCallback,
    CurriculumCheckpointCallback,
    KLAdaptiveCallback,
    KLAdaptiveLearningRate,
    TargetGainsEvalCallback,
)
from .vec_env import ActuatorCurriculumVecEnv, VectorEnvAdapter, find_curriculum

__all__ = [
    "ActuatorCurriculumVecEnv",
    "CurriculumCallback",
    "CurriculumCheckpointCallback",
    "KLAdaptiveCallback",
    "KLAdaptiveLearningRate",
    "TargetGainsEvalCallback",
    "VectorEnvAdapter",
    "find_curriculum",
]
