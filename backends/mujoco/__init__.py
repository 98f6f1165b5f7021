"""Robots with position-controlled joints in MuJoCo, a whole batch on a pool of threads."""

from __future__ import annotations

from .backend import MujocoRobotBackend
from .commands import MAX_COMMAND_DELAY
from .layout import RobotLayout

__all__ = ["MAX_COMMAND_DELAY", "MujocoRobotBackend", "RobotLayout"]
