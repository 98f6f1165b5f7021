"""The import of RSL-RL without Weights & Biases, which it loads for a log writer that few use."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

__all__ = ["import_rsl_rl"]

_SLOW, _USER = "wandb", "rsl_rl.utils.wandb_log_writer"


class _ImportedWhenUsed:
    """A module's stand-in that imports it when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(_SLOW), name)


def import_rsl_rl() -> None:
    """Import RSL-RL; its log writer gets Weights & Biases when it is used, if that is installed.

    Raises:
        ImportError: RSL-RL is not installed.
    """
    importlib.import_module("rsl_rl")
    if _SLOW in sys.modules or importlib.util.find_spec(_SLOW) is None:
        importlib.import_module("rsl_rl.runners")
        return
    sys.modules[_SLOW] = None  # type: ignore[assignment]  # Python's way to say that there is none
    try:
        importlib.import_module("rsl_rl.runners")
    finally:
        del sys.modules[_SLOW]
    user: Any = sys.modules.get(_USER)
    if user is not None and user.wandb is None:
        user.wandb = _ImportedWhenUsed()
