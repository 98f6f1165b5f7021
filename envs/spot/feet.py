"""Where Spot's feet are: forward kinematics for a whole batch, in numpy or torch."""

from __future__ import annotations

from .body import SPATIAL, rotate

__all__ = ["feet_in_body", "feet_in_world", "rotate", "touchdown_height"]

feet_in_body = SPATIAL.feet_in_body
feet_in_world = SPATIAL.feet_in_world
touchdown_height = SPATIAL.touchdown_height
