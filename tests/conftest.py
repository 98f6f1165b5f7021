"""Shared set-up: one thread for torch, no screen needed, helpers importable."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

for folder in (Path(__file__).parent, Path(__file__).parents[1]):  # helpers, examples
    sys.path.insert(0, str(folder))
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # as the library sets it, for tests that import gRPC before it


@pytest.fixture
def spot():
    """One Spot in MuJoCo, not randomized."""
    from adc_wrappers import make_env

    env = make_env("spot-handstand", backend="mujoco", randomize=False)
    yield env
    env.close()


@pytest.fixture
def free_port():
    """A TCP port on this machine that nobody uses now."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def robot(tmp_path):
    """A practice robot in this process."""
    from spot_sim_helpers import LocalRobot

    robot = LocalRobot(tmp_path)
    yield robot
    robot.close()


@pytest.fixture
def client(robot):
    """A client of it, logged in."""
    from spot_sim_helpers import Client

    client = Client(robot)
    yield client
    client.close()


@pytest.fixture
def driving(client):
    """The client, in joint control, after one command."""
    client.drive()
    client.step()
    return client
