"""Modules that are not collected where an optional package is missing; tests say themselves why they are skipped."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

_WITHOUT = {
    "isaaclab": ["*/spot_isaaclab/*", "tests/backends/isaac_helpers.py", "examples/isaaclab/*"],
    "mjlab": [
        "*/backends/mjlab/*",
        "*/spot_mjlab/*",
        "*/rsl_rl/mjlab_task.py",
        "tests/backends/mjlab_helpers.py",
    ],
}

_RLLIB_ADAPTER = Path(__file__).parent / "adc_wrappers" / "rllib"

collect_ignore_glob = [
    pattern
    for package, patterns in _WITHOUT.items()
    if importlib.util.find_spec(package) is None
    for pattern in patterns
]


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
