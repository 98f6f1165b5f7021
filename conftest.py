"""What is not collected where an optional simulator is missing; its tests say themselves why they are skipped."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = (
    []
    if importlib.util.find_spec("isaaclab")
    else ["*/spot_isaaclab/*", "tests/isaac_helpers.py", "examples/isaaclab/*"]
)
