"""Carrying out injected faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .clock import SECOND
from .estops import StopLevel
from .fault_table import check_fault
from .modes import Mode
from .robot import SimulatedSpot

__all__ = ["FaultInjector"]

_THIEF = "tablet"


class FaultInjector:
    """Makes things go wrong, now or later.

    Args:
        robot: The victim.
    """

    def __init__(self, robot: SimulatedSpot) -> None:
        self._robot = robot
        self._planned: list[tuple[int, str, dict[str, Any]]] = []

    def inject(self, name: str, parameters: dict[str, Any], after: float = 0.0) -> None:
        """Inject a fault, now or after so many seconds of the robot's clock.

        Raises:
            PracticeRobotError: The fault or one of its parameters is not known.
        """
        values = check_fault(name, parameters)
        if after > 0.0:
            self._planned.append((self._robot.elapsed + round(after * SECOND), name, values))
        else:
            self._act(name, values)

    @property
    def waiting(self) -> bool:
        """Whether a fault is planned."""
        return bool(self._planned)

    def inject_due(self) -> None:
        """Inject what was planned for now."""
        for plan in [plan for plan in self._planned if plan[0] <= self._robot.elapsed]:
            self._planned.remove(plan)
            self._act(plan[1], plan[2])

    def _act(self, name: str, values: dict[str, Any]) -> None:
        action: Callable[..., None] = getattr(self, f"_{name}")
        action(**values)

    def _until(self, duration: float) -> int:
        return self._robot.elapsed + round(duration * SECOND)

    def _state_loss(self, duration: float, probability: float) -> None:
        self._robot.link.lose(self._until(duration), probability)

    def _state_delay(self, duration: float, delay: float) -> None:
        self._robot.link.delay(self._until(duration), round(delay * SECOND))

    def _state_reorder(self, duration: float) -> None:
        self._robot.link.reorder(self._until(duration))

    def _command_loss(self, duration: float, probability: float) -> None:
        self._robot.joint_mode.lose(self._until(duration), probability)

    def _stream_cut(self, which: str) -> None:
        if which in ("both", "state"):
            self._robot.link.cut()
        if which in ("both", "command"):
            self._robot.joint_mode.break_off()

    def _lease_theft(self) -> None:
        self._robot.lose_lease()
        self._robot.leases.take(_THIEF)

    def _estop(self, level: str) -> None:
        self._robot.estops.pressed = StopLevel[level.upper()]
        self._robot.watch()

    def _estop_release(self) -> None:
        self._robot.estops.pressed = StopLevel.NONE

    def _behavior_fault(self, cause: str) -> None:
        self._robot.raise_fault(cause)

    def _fall(self, speed: float) -> None:
        self._push(speed, 90.0)
        if self._robot.settings.lockstep and self._robot.mode is Mode.STAND:
            self._robot.topple()

    def _push(self, speed: float, direction: float) -> None:
        angle = math.radians(direction)
        self._robot.physics.push(speed * np.array([math.cos(angle), math.sin(angle), 0.0]))

    def _low_battery(self, charge: float) -> None:
        self._robot.battery = charge

    def _missing_charge(self) -> None:
        self._robot.condition.tells_charge = False

    def _hot_motor(self, joint: str, temperature: float) -> None:
        self._robot.condition.motor_temperatures[joint] = temperature

    def _hot_battery(self, temperature: float) -> None:
        self._robot.condition.battery_temperature = temperature

    def _missing_temperatures(self) -> None:
        self._robot.condition.motor_temperatures.clear()

    def _unknown_estop(self) -> None:
        self._robot.condition.knows_estop = False

    def _warning(self) -> None:
        self._robot.condition.warnings.append("practice_warning")

    def _missing_licence(self) -> None:
        self._robot.licensed = False
        self._stream_cut("both")
        self._robot.lose_lease()

    def _clock_jump(self, seconds: float) -> None:
        self._robot.clock.jump(round(seconds * SECOND))

    def _expired_token(self) -> None:
        self._robot.accounts.expire()

    def _arm_fitted(self) -> None:
        self._robot.arm = True

    def _odom_tilt(self, degrees: float) -> None:
        self._robot.odom_tilt = math.radians(degrees)

    def _slow_power_off(self, seconds: float) -> None:
        self._robot.power_off_delay = round(seconds * SECOND)
