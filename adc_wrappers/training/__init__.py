"""Training runs, the same for every trainer: settings, recipes, trained policies."""

from .config import TRAINERS, TrainConfig, recommended_curriculum
from .ppo import ActionConfig, PpoConfig
from .recipes import default_config
from .trained import TrainedPolicy, load_trained, trainer_module

__all__ = [
    "TRAINERS",
    "ActionConfig",
    "PpoConfig",
    "TrainConfig",
    "TrainedPolicy",
    "default_config",
    "load_trained",
    "recommended_curriculum",
    "trainer_module",
]
