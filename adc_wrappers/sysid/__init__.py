"""System identification: from logged trajectories to the stiffness that a simulation needs, with intervals."""

from .excitation import Chirp, Excitation, PolicyExcitation, record, start_of
from .identify import DEFAULT_FREE, IdentifySettings, identify
from .losses import Scales
from .parameters import KINDS, FreeParameter, ParameterSpace, parse_free
from .rehearsal import HiddenParameters, HiddenRobot
from .result import Identification, IdentifiedParameter, TraceErrors
from .windows import WindowSettings

__all__ = [
    "DEFAULT_FREE",
    "KINDS",
    "Chirp",
    "Excitation",
    "FreeParameter",
    "HiddenParameters",
    "HiddenRobot",
    "Identification",
    "IdentifiedParameter",
    "IdentifySettings",
    "ParameterSpace",
    "PolicyExcitation",
    "Scales",
    "TraceErrors",
    "WindowSettings",
    "identify",
    "parse_free",
    "record",
    "start_of",
]
