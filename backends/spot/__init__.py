"""A real Spot, through Boston Dynamics' SDK."""

from .settings import SpotRobotSettings

__all__ = ["SpotRobotSettings"]
