"""Settings of a practice robot, and the hidden truth about its joints."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from adc_wrappers.core.errors import BackendError, did_you_mean

__all__ = ["CLOCKS", "MAX_DELAY", "PracticeRobotError", "PracticeSettings"]


class PracticeRobotError(BackendError):
    """A practice robot that could not be started, was asked for something it cannot do, or has ended."""


CLOCKS = ("lockstep", "realtime")
MAX_DELAY = 4
"""Largest command delay, in physics steps."""


@dataclass(frozen=True, kw_only=True)
class PracticeSettings:
    """Settings of a practice robot; the defaults give exactly the Spot of ``make_env("spot-…", backend="mujoco")``."""

    clock: str = "lockstep"
    """``"lockstep"``: the robot's clock is simulated time, and in joint mode a command moves it on by ``step``;
    ``"realtime"``: it is the wall's, and states are streamed at 333 Hz."""

    step: float = 0.02
    """Seconds of simulation per joint command, in lockstep; a multiple of 2 ms."""

    seed: int = 0
    """Seed of sensor noise and of random losses."""

    arm: bool = False
    """Fit an arm: 19 joints. It has no weight and does as it is told at once."""

    on_stand: bool = False
    """Hold the body in the air, as on a stand or a hoist: legs are free, nothing touches anything."""

    clock_skew: float = -199.0
    """Seconds by which the robot's clock is ahead of this computer's, in real time."""

    expiry_slack: float = 0.0
    """Seconds by which joint commands outlive their ``end_time``, for a computer that is too busy for real time."""

    battery: float = 85.0
    """Charge at the start, %."""

    username: str = "user"
    """Who may log in."""

    gain_scale: float = 1.0
    """Stiffness that acts, as a share of the commanded one: 2/3 makes a commanded 60 act like 40."""

    damping_scale: float = 1.0
    """Damping that acts, as a share of the commanded one."""

    joint_friction: float = 0.0
    """Coulomb friction in every joint, N·m."""

    viscous_friction: float = 0.0
    """Friction in every joint that grows with its speed, N·m·s/rad; it counts towards the torque limit."""

    command_delay: int = 0
    """Physics steps of 2 ms by which joint targets act late, 0 to 4."""

    position_noise: float = 0.0
    """Standard deviation of measured joint positions, rad."""

    velocity_noise: float = 0.0
    """Standard deviation of measured joint velocities, rad/s."""

    ground_friction: float | None = None
    """Coefficient between feet and ground; default: the model's."""

    base_mass_offset: float = 0.0
    """Mass added to the body, kg."""

    saturate_targets: bool = False
    """Keep joint targets within the joints' ranges, as the robot's documentation says of itself. Off by default,
    because the simulators of this library do not do it and rollouts are to be equal."""

    lease_timeout: float = 6.0
    """Wall-clock seconds without a sign of life after which a lease is stale and joint control ends."""

    def __post_init__(self) -> None:
        if self.clock not in CLOCKS:
            raise PracticeRobotError(f"clock: unknown {self.clock!r}. {did_you_mean(self.clock, CLOCKS)}")
        for name in ("step", "gain_scale", "damping_scale", "lease_timeout"):
            self._check(name, lowest=1e-3)
        for name in ("expiry_slack", "joint_friction", "viscous_friction", "position_noise", "velocity_noise"):
            self._check(name, lowest=0.0)
        self._check("clock_skew", lowest=-math.inf)
        if round(self.step / 0.002) < 1 or abs(self.step / 0.002 - round(self.step / 0.002)) > 1e-6:
            raise PracticeRobotError(f"step: expected a multiple of 0.002 s, got {self.step}.")
        if not 0.0 <= self.battery <= 100.0:
            raise PracticeRobotError(f"battery: expected 0 to 100 %, got {self.battery}.")
        if self.command_delay not in range(MAX_DELAY + 1):
            raise PracticeRobotError(f"command_delay: expected 0 to {MAX_DELAY}, got {self.command_delay}.")
        if not self.username:
            raise PracticeRobotError("username: expected a name, got nothing.")

    def _check(self, name: str, lowest: float) -> None:
        value = getattr(self, name)
        if not (math.isfinite(value) and value >= lowest):
            raise PracticeRobotError(f"{name}: expected a finite number of at least {lowest:g}, got {value}.")

    @property
    def lockstep(self) -> bool:
        """Whether the robot's clock is simulated time."""
        return self.clock == "lockstep"

    @classmethod
    def make(cls, values: dict[str, Any]) -> PracticeSettings:
        """Return settings by name; an unknown one is refused."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise PracticeRobotError(f"unknown setting {name!r} of the practice robot. {did_you_mean(name, known)}")
        return cls(**values)
