"""RLlib (new API stack): one curriculum in the driver for the envs of all env runners, closed by a callback."""

from adc_wrappers.core.errors import MissingExtraError

try:
    import ray.rllib  # noqa: F401
except ImportError as error:
    raise MissingExtraError("ray[rllib]", "rllib", "adc_wrappers.rllib") from error

from .callbacks import CurriculumCallbacks, add_curriculum, find_curriculum, latest_checkpoint, save_checkpoint
from .runner import NextStepAutoreset

__all__ = [
    "CurriculumCallbacks",
    "NextStepAutoreset",
    "add_curriculum",
    "find_curriculum",
    "latest_checkpoint",
    "save_checkpoint",
]
