"""Spot in PyBullet: one physics client per robot, in this process or spread over worker processes."""

from __future__ import annotations

from .backend import BulletRobotBackend
from .probe import BulletProbe

__all__ = ["BulletProbe", "BulletRobotBackend"]
