"""matplotlib, imported where something is drawn and set up for files instead of windows."""

from __future__ import annotations

from typing import Any

from adc_wrappers.core.errors import MissingExtraError

__all__ = ["pyplot"]


def pyplot(what: str = "Plotting") -> Any:
    """Return ``matplotlib.pyplot``, drawing into files unless a program has chosen a window before.

    Args:
        what: What needs it, for the error.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg", force=False)
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("matplotlib", "viz", what) from error
    return plt
