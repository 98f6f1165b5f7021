"""Isaac Lab: the gains of any of its envs, in every release from 2.1 on.

Isaac Lab itself is imported only where an env of its own has been made already; a plain import of this package needs
torch and nothing else.
"""

from adc_wrappers.core.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("torch", "isaaclab", "adc_wrappers.backends.isaaclab") from error

from adc_wrappers.backends.tensor_gains import randomize_gain_factors

from .backend import IsaacLabBackend, check_gain_events, find_gain_events
from .groups import ActuatorGroup, ExplicitGroup, ImplicitGroup, NativeGroup, find_groups

__all__ = [
    "ActuatorGroup",
    "ExplicitGroup",
    "ImplicitGroup",
    "IsaacLabBackend",
    "NativeGroup",
    "check_gain_events",
    "find_gain_events",
    "find_groups",
    "randomize_gain_factors",
]
