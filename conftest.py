"""Leaves the RLlib adapter's modules out of the doctests where ray[rllib] is not installed."""

from __future__ import annotations

import functools
from pathlib import Path

_ADAPTER = Path(__file__).parent / "adc_wrappers" / "rllib"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore them; RLlib is looked for only if they are about to be collected, because importing it takes seconds."""
    return None if _ADAPTER not in (collection_path, collection_path.parent) or _rllib_is_there() else True


@functools.cache
def _rllib_is_there() -> bool:
    try:
        import ray.rllib  # noqa: F401
    except ImportError:
        return False
    return True
"""What is not collected where an optional simulator is missing; its tests say themselves why they are skipped."""
import importlib.util
collect_ignore_glob = (
    []
    if importlib.util.find_spec("isaaclab")
    else ["*/spot_isaaclab/*", "tests/isaac_helpers.py", "examples/isaaclab/*"]
)
