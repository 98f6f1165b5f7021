"""Spot on two feet: the paper's handstand, and its mirror, the hind-leg stand."""

from .presets import PRESETS, SpotPreset
from .settings import SpotSettings
from .task import SpotStandTask, make_handstand_task, make_hindstand_task, make_planar_handstand_task
from .terms import HANDSTAND, HINDSTAND, Stance

__all__ = [
    "HANDSTAND",
    "HINDSTAND",
    "PRESETS",
    "SpotPreset",
    "SpotSettings",
    "SpotStandTask",
    "Stance",
    "make_handstand_task",
    "make_hindstand_task",
    "make_planar_handstand_task",
]
