"""Motion, what the joints are told step by step: limp, moving to a pose, or following joint commands."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import NOMINAL_POSE

from .clock import SECOND
from .readings import Reading

__all__ = [
    "ARM_JOINTS",
    "ARM_POSE",
    "SIT_POSE",
    "STAND_POSE",
    "DatedCommand",
    "JointControl",
    "Limp",
    "Motion",
    "Move",
    "PdTargets",
]

_Array = NDArray[np.float64]

STAND_POSE: _Array = np.array(NOMINAL_POSE)
"""Spot's stance in this library's tasks, so that a policy takes over where its episodes begin."""

SIT_POSE: _Array = np.tile([0.0, 1.35, -2.7], 4)
"""Legs folded under the body."""

ARM_JOINTS = ("sh0", "sh1", "el0", "el1", "wr0", "wr1", "f1x")
ARM_POSE: _Array = np.array([0.0, -3.1, 3.1, 1.57, 0.0, -1.57, 0.0])
"""The arm roughly stowed, rad."""

_STIFFNESS: _Array = np.tile([624.0, 936.0, 286.0], 4)  # the SDK's gains for position control
_DAMPING: _Array = np.tile([5.2, 5.2, 2.04], 4)
_ZERO: _Array = np.zeros(12)
_MOVE_SECONDS = 1.5
_SETTLE_SECONDS = 0.3


class PdTargets(NamedTuple):
    """``τ = K (position − q) + B (velocity − q̇) + load``, each ``(12,)``."""

    position: _Array
    velocity: _Array
    load: _Array
    stiffness: _Array
    damping: _Array


class Motion(ABC):
    """A way to drive the joints."""

    @abstractmethod
    def order(self, elapsed: int) -> PdTargets:
        """Return what holds for the next physics step."""

    @abstractmethod
    def finished(self, elapsed: int) -> bool:
        """Return whether nothing more will change by itself."""


class Limp(Motion):
    """Motors that only brake: without power, or after a fault.

    Args:
        begin: When it begins, ns.
        damping: N·m·s/rad.
    """

    def __init__(self, begin: int, damping: float = 6.0) -> None:
        self._end = begin + round(_MOVE_SECONDS * SECOND)
        self._order = PdTargets(STAND_POSE, _ZERO, _ZERO, _ZERO, np.full(12, damping))

    def order(self, elapsed: int) -> PdTargets:
        """Brake."""
        return self._order

    def finished(self, elapsed: int) -> bool:
        """After the time that it takes to sink to the ground."""
        return elapsed >= self._end


class Move(Motion):
    """A smooth way to a pose with stiff joints, without a bump at its beginning, and holding there.

    It begins at the target that gives the torque the joints have now, ``q + τ/K``: a hold that began at the measured
    pose would have no torque, and the robot would drop.

    Args:
        pose: Where to, rad.
        reading: The present.
        seconds: How long to take; 0 holds at once.
    """

    def __init__(self, pose: _Array, reading: Reading, seconds: float = _MOVE_SECONDS) -> None:
        self._from = reading.positions + (reading.torques + _DAMPING * reading.velocities) / _STIFFNESS
        self._to = pose
        self._begin = reading.elapsed
        self._span = round(seconds * SECOND)

    @classmethod
    def hold(cls, reading: Reading) -> Move:
        """Return the motion that stays where the robot is."""
        move = cls(reading.positions, reading, 0.0)
        move._to = move._from
        return move

    def order(self, elapsed: int) -> PdTargets:
        """Return the place on the way: half a cosine from the beginning to the end."""
        done = 1.0 if self._span == 0 else min((elapsed - self._begin) / self._span, 1.0)
        share = 0.5 - 0.5 * math.cos(math.pi * done)
        return PdTargets(self._from + share * (self._to - self._from), _ZERO, _ZERO, _STIFFNESS, _DAMPING)

    def finished(self, elapsed: int) -> bool:
        """When the way is over and the robot has come to rest."""
        return elapsed >= self._begin + self._span + (round(_SETTLE_SECONDS * SECOND) if self._span else 0)


class DatedCommand(NamedTuple):
    """A joint command as it was received; times are in simulation, ns."""

    order: PdTargets
    key: int
    received: int
    reference: int
    extrapolation: int
    end: int
    speed_limit: float | None


class JointControl(Motion):
    """Joint mode: the latest command, or a hold until the first one comes.

    Args:
        reading: The present.
    """

    def __init__(self, reading: Reading) -> None:
        self.command: DatedCommand | None = None
        self._hold = Move.hold(reading)

    def order(self, elapsed: int) -> PdTargets:
        """Return the command, its position carried on by its velocity for as long as it allows."""
        command = self.command
        if command is None:
            return self._hold.order(elapsed)
        since = min(max(elapsed - command.reference, 0), command.extrapolation) / SECOND
        if since == 0.0:
            return command.order
        return command.order._replace(position=command.order.position + since * command.order.velocity)

    def finished(self, elapsed: int) -> bool:
        """Never: it waits for commands."""
        return False
