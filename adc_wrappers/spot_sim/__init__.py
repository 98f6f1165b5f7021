"""A Spot to practise on: the robot's own gRPC services, over TLS on loopback, with simulated physics behind them."""

from __future__ import annotations

from .errors import PracticeRobotError
from .fault_table import FAULTS
from .launcher import PracticeRobot
from .settings import PracticeSettings

__all__ = ["FAULTS", "PracticeRobot", "PracticeRobotError", "PracticeSettings"]
