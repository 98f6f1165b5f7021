"""A Spot to practise on: the robot's own gRPC services, over TLS on loopback, with simulated physics behind them."""

from __future__ import annotations

from .faults import FAULTS
from .launcher import PracticeRobot
from .settings import PracticeRobotError, PracticeSettings

__all__ = ["FAULTS", "PracticeRobot", "PracticeRobotError", "PracticeSettings"]
