"""System identification: from logged trajectories to the stiffness that a simulation needs, with intervals."""

from .excitation import Chirp, Excitation, PolicyExcitation, record, start_of
from .identify import DEFAULT_FREE, IdentifySettings, identify
from .losses import Scales
from .parameters import KINDS, FreeParameter, ParameterSpace, parse_free
from .rehearsal import HiddenParameters, HiddenRobot
from .report import write_report
from .result import Identification, IdentifiedParameter, TraceErrors
from .validation import Validation, load_identification, validate
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
    "Validation",
    "WindowSettings",
    "identify",
    "load_identification",
    "parse_free",
    "record",
    "start_of",
    "validate",
    "write_report",
]
