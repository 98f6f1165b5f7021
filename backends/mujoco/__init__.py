"""Robots with position-controlled joints in MuJoCo, a whole batch on a pool of threads."""

from __future__ import annotations

from .backend import MujocoRobotBackend
from .layout import RobotLayout
from .probe import MujocoProbe

__all__ = ["MujocoProbe", "MujocoRobotBackend", "RobotLayout"]
