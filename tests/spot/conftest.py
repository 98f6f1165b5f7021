"""Fixtures of the practice robot."""

from __future__ import annotations

import pytest


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
