"""Settings of the connection to a Spot; needs no SDK."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.guard import GuardLimits, find_limits
from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.core.errors import BackendError

__all__ = ["Credentials", "SpotRobotSettings"]

Credentials = Callable[[], tuple[str, str]]
"""Returns user name and password when asked."""

STATE_RATE: Final = 333.0
"""Messages per second of the robot's state stream."""

LICENCE: Final = "joint_level_control"
"""Feature code of the licence for joint control, as seen on a robot by others; Boston Dynamics does not publish it."""


@dataclass(frozen=True, kw_only=True)
class SpotRobotSettings:
    """How a Spot is reached and driven. Passwords are no setting: they come from the environment or from a prompt."""

    hostname: str
    """Address of the robot; ``127.0.0.1`` for a practice robot, together with its ``certificate``."""

    port: int = 443
    """TCP port."""

    certificate: str | Path | None = None
    """File of the certificate authority, PEM; by default the one that the SDK ships for real robots."""

    credentials: Credentials | None = field(default=None, repr=False)
    """Asked for user name and password; by default ``BOSDYN_CLIENT_USERNAME`` and ``BOSDYN_CLIENT_PASSWORD`` of the
    environment, or a prompt on a terminal."""

    stiffness: float | Sequence[float] | None = None
    """Commanded stiffness, N·m/rad, one number or one per joint, fixed for the life of the env. None is allowed on a
    practice robot only, and means those of the task's curriculum at its target."""

    damping: float | Sequence[float] | None = None
    """Commanded damping, N·m·s/rad, likewise."""

    clock: Literal["realtime", "lockstep"] = "realtime"
    """``"lockstep"``: one command per policy step, and the clock of a practice robot stands still in between."""

    limits: GuardLimits | str | None = None
    """The guard's numbers, or ``"robot"`` or ``"practice"``; by default those of the robot that it is."""

    send_rate: float = 200.0
    """Commands per second; the last one is sent again until the policy has a new one."""

    time_to_live: float = 0.05
    """Seconds for which the robot may follow a command after the newest state; never past the age at which the state
    that it came from is too old."""

    takeover_seconds: float = 1.0
    """Seconds in which the robot is led from its own stand to the task's nominal pose, at stiff gains."""

    soften_seconds: float = 0.1
    """Seconds in which gains are then led from stiff to the commanded ones."""

    soft_start_steps: int = 0
    """Policy steps over which the policy's targets are blended in from those that hold the stand; 0: at once."""

    settle_seconds: float = 2.0
    """Seconds for which the robot stands by itself before it is taken over."""

    patience: float = 10.0
    """Seconds to wait for an answer that has no deadline of its own: login, power, stand, a state in lockstep."""

    power_off_seconds: float = 20.0
    """Seconds to wait until motors are confirmed off."""

    licence: str | None = LICENCE
    """Feature code that must be licensed; None does not ask."""

    shadow: bool = False
    """Send nothing, take no lease: the env reads the robot's states and the policy's targets lead nowhere."""

    listeners: Sequence[object] = ()
    """Are told of every state, step and event: see :class:`~.listening.Listener`."""

    def __post_init__(self) -> None:
        positive = (
            "send_rate", "time_to_live", "takeover_seconds", "soften_seconds", "patience", "power_off_seconds",
        )  # fmt: skip
        for name in positive:
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise BackendError(f"spot {name}: expected a positive number, got {value}.")
        if not self.hostname:
            raise BackendError("spot hostname: expected the robot's address, got none.")
        if not 0 < self.port < 65536:
            raise BackendError(f"spot port: expected 1 to 65535, got {self.port}.")
        if self.soft_start_steps < 0 or not (math.isfinite(self.settle_seconds) and self.settle_seconds >= 0.0):
            raise BackendError(
                "spot soft_start_steps and settle_seconds: expected numbers that are not negative, got "
                f"{self.soft_start_steps} and {self.settle_seconds}."
            )
        if self.clock not in ("realtime", "lockstep"):
            raise BackendError(f"spot clock: expected 'realtime' or 'lockstep', got {self.clock!r}.")
        if self.clock == "lockstep" and not self.is_practice:
            raise BackendError(
                f"spot clock: 'lockstep' needs a practice robot: this computer and certificate=, got the host "
                f"{self.hostname!r} and {self.certificate}. A real robot's clock does not wait: use clock='realtime'."
            )
        self._check_gains()

    def _check_gains(self) -> None:
        if (self.stiffness is None) != (self.damping is None):
            raise BackendError("spot gains: expected stiffness and damping, or neither; got one of them.")
        if self.stiffness is None and not self.is_practice and not self.shadow:
            raise BackendError(
                f"spot gains: say which stiffness and damping are to be commanded to {self.hostname!r} (stiffness=, "
                "damping=). They are not the simulated ones; nothing is assumed for a real robot."
            )
        for name in ("stiffness", "damping"):
            value = getattr(self, name)
            if value is not None:
                per_joint(name, value)

    @property
    def is_practice(self) -> bool:
        """Whether the robot is a practice robot: on this computer, with a certificate of its own.

        The host alone does not say it: a real robot may be reached through a tunnel that ends here.
        """
        return is_practice(self.hostname, self.certificate)

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


def is_practice(hostname: str, certificate: str | Path | None) -> bool:
    """Whether a robot is a practice robot: on this computer, with a certificate authority other than the real ones'.

    >>> is_practice("localhost", None), is_practice("localhost", "ca.pem"), is_practice("192.168.80.3", "ca.pem")
    (False, True, False)
    """
    return certificate is not None and is_loopback(hostname)


def is_loopback(hostname: str) -> bool:
    """Whether a host name means this computer.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("192.168.80.3")
    (True, True, False)
    """
    if hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(hostname).is_loopback
    except ValueError:
        return False
