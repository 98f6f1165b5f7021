"""Whether a stance on two feet can be held at all: statics, and the action scale that it takes."""

from .action_scale import InfeasibleStanceError, smallest_action_scale
from .stance import STANCES, StaticStance, find_robot, find_stance

__all__ = [
    "STANCES",
    "InfeasibleStanceError",
    "StaticStance",
    "find_robot",
    "find_stance",
    "smallest_action_scale",
]
