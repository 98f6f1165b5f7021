"""Feasibility of a stance on two feet: statics, and the action scale that it takes."""

from .action_scale import InfeasibleStanceError, smallest_action_scale
from .statics import STANCES, StaticStance, find_robot, find_stance

__all__ = [
    "STANCES",
    "InfeasibleStanceError",
    "StaticStance",
    "find_robot",
    "find_stance",
    "smallest_action_scale",
]
