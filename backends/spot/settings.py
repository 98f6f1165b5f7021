"""Settings of the connection to a Spot; needs no SDK."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.guard import PRACTICE_LIMITS, GuardLimits, find_limits
from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.core.errors import BackendError

from .connection import SpotConnection, is_loopback, is_practice

__all__ = ["SpotRobotSettings", "is_loopback", "is_practice"]

STATE_RATE: Final = 333.0
"""Messages per second of the robot's state stream."""


@dataclass(frozen=True, kw_only=True)
class SpotRobotSettings(SpotConnection):
    """Settings of the way a Spot is reached and driven."""

    stiffness: float | Sequence[float] | None = None
    """Commanded stiffness, N·m/rad, one number or one per joint, fixed for the life of the env. None is allowed on a
    practice robot only, and means those of the task's curriculum at its target."""

    damping: float | Sequence[float] | None = None
    """Commanded damping, N·m·s/rad, likewise."""

    clock: Literal["realtime", "lockstep"] = "realtime"
    """``"lockstep"``: one command per policy step, and the clock of a practice robot stands still in between."""

    limits: GuardLimits | str | None = None
    """The guard's numbers, or ``"robot"`` or ``"practice"``; by default those of the robot that it is. Those of
    practice are refused for everything that is no practice robot."""

    send_rate: float = 200.0
    """Commands per second; the last one is sent again until the policy has a new one."""

    time_to_live: float | None = None
    """Seconds for which the robot may follow a command after it was sent; never past the age at which the state that it
    came from is too old, which is the default: a policy step and the guard's ``state_age``, 50 ms for a real robot."""

    takeover_seconds: float = 1.0
    """Seconds in which the robot is led from its own stand to the task's nominal pose, at stiff gains."""

    soften_seconds: float = 0.1
    """Seconds in which gains are then led from stiff to the commanded ones."""

    soft_start_steps: int = 0
    """Policy steps over which the policy's targets are blended in from those that hold the stand; 0: at once."""

    settle_seconds: float = 2.0
    """Seconds for which the robot stands by itself before it is taken over."""

    shadow: bool = False
    """Send nothing, take no lease: the env reads the robot's states and the policy's targets lead nowhere."""

    keeper: bool | None = None
    """Whether a process of its own keeps the lease and brings the robot into safety when this one dies or stalls; by
    default for everything that is no practice robot. Not in shadow mode, which has no lease."""

    keeper_silence: float = 2.0
    """Seconds of silence after which the keeper takes this process for stalled, and this one the keeper for lost."""

    listeners: Sequence[object] = ()
    """Are told of every state, step and event: see :class:`~.listening.Listener`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_positive("send_rate", "takeover_seconds", "soften_seconds", "keeper_silence")
        if self.time_to_live is not None:
            self._check_positive("time_to_live")
        if self.soft_start_steps < 0 or not (math.isfinite(self.settle_seconds) and self.settle_seconds >= 0.0):
            raise BackendError(
                "spot soft_start_steps and settle_seconds: expected numbers that are not negative, got "
                f"{self.soft_start_steps} and {self.settle_seconds}."
            )
        if self.clock not in ("realtime", "lockstep"):
            raise BackendError(f"spot clock: expected 'realtime' or 'lockstep', got {self.clock!r}.")
        if self.clock == "lockstep" and not self.is_practice:
            raise BackendError(
                f"spot clock: 'lockstep' needs a practice robot; {self._not_practice}. A real robot's clock does not "
                "wait: use clock='realtime'."
            )
        if not self.is_practice and (self.limits == "practice" or self.limits is PRACTICE_LIMITS):
            raise BackendError(
                f"spot limits: those of practice need a practice robot; {self._not_practice}. Leave limits out, or "
                "give numbers of your own that are right for a real robot."
            )
        self._check_gains()

    def _check_gains(self) -> None:
        if (self.stiffness is None) != (self.damping is None):
            raise BackendError("spot gains: expected stiffness and damping, or neither; got one of them.")
        if self.stiffness is None and not self.is_practice and not self.shadow:
            raise BackendError(
                f"spot gains: say which stiffness and damping are to be commanded to {self.hostname!r} (stiffness=, "
                "damping=). They are not the simulated ones; nothing is assumed for a real robot. A practice robot "
                f"needs none; {self._not_practice}."
            )
        for name in ("stiffness", "damping"):
            value = getattr(self, name)
            if value is not None:
                per_joint(name, value)

    @property
    def has_keeper(self) -> bool:
        """Whether a keeper is started when the robot is armed."""
        return not self.shadow and (not self.is_practice if self.keeper is None else self.keeper)

    @property
    def guard_limits(self) -> GuardLimits:
        """The guard's numbers."""
        if isinstance(self.limits, GuardLimits):
            return self.limits
        return find_limits(self.limits or ("practice" if self.is_practice else "robot"))


def per_joint(name: str, value: float | Sequence[float]) -> NDArray[np.float64]:
    """Return one positive number per joint."""
    joints = len(JOINT_NAMES)
    values = np.asarray(value, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(joints, float(values))
    if values.shape != (joints,) or not np.isfinite(values).all() or not (values > 0.0).all():
        raise BackendError(f"spot {name}: expected one positive number, or {joints}, one per joint; got {value}.")
    return values
