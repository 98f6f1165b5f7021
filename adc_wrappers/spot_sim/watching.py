"""The practice robot in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adc_wrappers.backends.base import RobotState

if TYPE_CHECKING:
    from .launcher import PracticeRobot

__all__ = ["PracticeRobotPage"]

_STATUS_EVERY = 10  # pictures


class _Mirror:
    """Where a practice robot is, from its status."""

    def __init__(self, robot: PracticeRobot) -> None:
        self._robot = robot
        self.status: dict[str, Any] = robot.status()

    def state(self) -> RobotState:
        """Ask the robot; what is not drawn is empty."""
        self.status = self._robot.status()
        place, turn, joints = (
            np.array([self.status[name]]) for name in ("base_position", "base_quaternion", "joint_positions")
        )
        rest = np.zeros((1, 0))
        return RobotState(place, turn, rest, rest, rest, joints, rest, rest, rest)


class PracticeRobotPage:
    """A page on this computer alone that shows a practice robot and what it is doing.

    Args:
        robot: What is shown.
        port: Port of the page; the next free one if it is taken.
    """

    def __init__(self, robot: PracticeRobot, port: int = 8080) -> None:
        from adc_wrappers.viewing import FigurePage, SpotFigure

        self._mirror = _Mirror(robot)
        self._page = FigurePage(SpotFigure(self._mirror), port=port, title="practice robot")
        self._text: Any = self._page.server.gui.add_markdown("")
        self._clock = 0
        self.address = self._page.address
        """What to type into the browser."""

    def draw(self) -> None:
        """Bring the page up to date."""
        self._page.draw()
        if self._clock % _STATUS_EVERY == 0:
            self._text.content = _text(self._mirror.status)
        self._clock += 1

    def close(self) -> None:
        """Stop serving."""
        self._page.close()


def _text(status: dict[str, Any]) -> str:
    faults = ", ".join(status["behavior_faults"]) or "none"
    return (
        f"motors {status['motors']}, mode {status['mode']}  \nlease: {status['leases'].get('body', 'nobody')}  \n"
        f"E-stop level: {status['estop']}, faults: {faults}  \nlast command key {status['last_command_key']}, "
        f"simulated {status['time']:.1f} s"
    )
