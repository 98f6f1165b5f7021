"""Shared set-up: one thread for torch, no screen needed, the helpers of every room importable."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest

HERE = Path(__file__).parent
ROOMS = sorted(path for path in HERE.iterdir() if path.is_dir() and any(path.glob("test_*.py")))
for folder in (HERE.parent, *ROOMS, HERE):  # examples, and helpers
    sys.path.insert(0, str(folder))
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # as the library sets it, for tests that import gRPC before it
# Hypothesis fails an example that takes 200 ms, or data that take a second to draw: by the wall's clock, on any machine
hypothesis.settings.register_profile(
    "any speed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any speed")


@pytest.fixture
def spot():
    """One Spot in MuJoCo, not randomized."""
    from adc_wrappers import make_env

    env = make_env("spot-handstand", backend="mujoco", randomize=False)
    yield env
    env.close()


@pytest.fixture
def brief_preflight(monkeypatch):
    """Let a preflight watch its robot for half a second: one at rest takes as long for it by the wall's time."""
    from adc_wrappers.deploy.preflight import preflight

    monkeypatch.setitem(preflight.__globals__, "_WATCH_SECONDS", 0.5)


@pytest.fixture
def free_port():
    """A TCP port on this machine that nobody uses now."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
