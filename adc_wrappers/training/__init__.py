"""Training runs, the same for every trainer: settings, recipes, trained policies."""

from .config import TRAINERS, TrainConfig, recommended_curriculum
from .ppo import ActionConfig, PpoConfig
from .recipes import default_config
from .trained import TrainedPolicy, load_trained
from .trainer import Trainer, find_trainer, trainer_module

__all__ = [
    "TRAINERS",
    "ActionConfig",
    "PpoConfig",
    "TrainConfig",
    "TrainedPolicy",
    "Trainer",
    "default_config",
    "find_trainer",
    "load_trained",
    "recommended_curriculum",
    "trainer_module",
]
