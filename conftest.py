"""Leaves the RLlib adapter's modules out of the doctests where ray[rllib] is not installed."""

from __future__ import annotations

from pathlib import Path

_ADAPTER = Path(__file__).parent / "adc_wrappers" / "rllib"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Look for RLlib only if its adapter is about to be collected: importing it takes seconds."""
    if collection_path != _ADAPTER:
        return None
    try:
        import ray.rllib  # noqa: F401
    except ImportError:
        return True
    return None
