"""Modules that are not collected where an optional package is missing; tests say themselves why they are skipped."""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path

import pytest

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


@pytest.hookimpl(optionalhook=True)  # pytest-xdist is not in every environment
def pytest_xdist_auto_num_workers() -> int | None:
    """Return three workers for every two cores: about half of the tests' time is waiting for robots and processes."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    from adc_wrappers.core.cores import available_cores

    return max(1, 3 * available_cores() // 2)


@functools.cache
def _rllib_is_there() -> bool:
    try:
        import ray.rllib  # noqa: F401
    except ImportError:
        return False
    return True
