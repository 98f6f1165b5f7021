"""The guard: what must hold before a policy may go on moving a robot. Pure numpy, the same in simulation."""

from .guard import Breach, Guard, Moment, PhaseTracker, lean_and_side
from .limits import PRACTICE_LIMITS, ROBOT_LIMITS, ByKind, Envelope, GuardLimits, find_limits

__all__ = [
    "PRACTICE_LIMITS",
    "ROBOT_LIMITS",
    "Breach",
    "ByKind",
    "Envelope",
    "Guard",
    "GuardLimits",
    "Moment",
    "PhaseTracker",
    "find_limits",
    "lean_and_side",
]
