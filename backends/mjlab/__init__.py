"""mjlab: the gains of any of its envs, and its env as a Gymnasium env."""

from adc_wrappers.core.errors import MissingExtraError

try:
    import mjlab  # noqa: F401
except ImportError as error:
    raise MissingExtraError("mjlab", "mjlab", "adc_wrappers.backends.mjlab") from error

from adc_wrappers.backends.tensor_gains import randomize_gain_factors

from .backend import MjlabBackend
from .env import GymMjlabEnv
from .groups import find_groups

__all__ = ["GymMjlabEnv", "MjlabBackend", "find_groups", "randomize_gain_factors"]
