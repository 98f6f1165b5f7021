"""Words for what the robot is doing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["BehaviorFault", "Mode", "Motors"]


class Motors(Enum):
    """Motor power; the values end the names of ``MotorPowerState``."""

    OFF = "OFF"
    POWERING_ON = "POWERING_ON"
    ON = "ON"


class Mode(Enum):
    """What the robot is doing."""

    OFF = "off"
    SIT = "sit"
    STAND = "stand"
    JOINT = "joint"
    FAULT = "fault"


@dataclass(frozen=True)
class BehaviorFault:
    """Something that must be cleared before the robot moves again."""

    number: int
    cause: str
    """``unknown``, ``fall``, ``hardware`` or ``lease_timeout``."""
    stamp: int
