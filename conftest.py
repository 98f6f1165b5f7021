"""What is not collected where an optional package is missing; its tests say themselves why they are skipped."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

_RLLIB_ADAPTER = Path(__file__).parent / "adc_wrappers" / "rllib"

collect_ignore_glob = (
    []
    if importlib.util.find_spec("isaaclab")
    else ["*/spot_isaaclab/*", "tests/backends/isaac_helpers.py", "examples/isaaclab/*"]
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore the RLlib adapter without RLlib, which is looked for only now, because importing it takes seconds."""
    if _RLLIB_ADAPTER not in (collection_path, collection_path.parent) or _rllib_is_there():
        return None
    return True


@functools.cache
def _rllib_is_there() -> bool:
    try:
        import ray.rllib  # noqa: F401
    except ImportError:
        return False
    return True
