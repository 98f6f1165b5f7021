"""The practice robot's own process: it obeys lines of JSON on its standard input and ends with it.

This channel is not the robot's: clients of the twelve services cannot see it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

from adc_wrappers.backends.base import RobotStart
from adc_wrappers.core.errors import BackendError, MissingExtraError

from .clock import SECOND
from .robot import SimulatedSpot
from .settings import PracticeSettings

__all__ = ["describe", "main"]


def describe(robot: SimulatedSpot) -> dict[str, Any]:
    """Return the truth about the robot, without noise, as plain numbers and words."""
    reading = robot.physics.reading
    leases = {} if robot.leases.owner is None else {"body": robot.leases.owner}
    return {
        "motors": robot.motors.value.lower(),
        "mode": robot.mode.value,
        "settled": robot.settled,
        "leases": leases,
        "streams": {"state": len(robot.link.subscribers), "command": int(robot.joint_mode.streaming)},
        "estop": robot.estops.level.name.lower(),
        "behavior_faults": [fault.cause for fault in robot.faults],
        "battery": robot.battery,
        "motor_temperatures": dict(robot.condition.motor_temperatures),
        "battery_temperature": robot.condition.battery_temperature,
        "warnings": list(robot.condition.warnings),
        "licensed": robot.licensed,
        "joints": 19 if robot.arm else 12,
        "time": robot.elapsed / SECOND,
        "clock": robot.clock.now() / SECOND,
        "last_command_key": robot.joint_mode.last_key,
        "base_position": reading.base_position.tolist(),
        "base_quaternion": reading.base_quaternion.tolist(),
        "base_velocity": reading.base_velocity.tolist(),
        "joint_positions": reading.positions.tolist(),
        "joint_velocities": reading.velocities.tolist(),
        "joint_torques": reading.torques.tolist(),
        "body_touches_ground": reading.body_touches,
        "feet_on_ground": [bool(foot) for foot in reading.feet],
    }


_SWITCH = 0.0005  # seconds after which threads make way: commands must not wait for the physics


class ControlChannel:
    """The channel on which the process that started the robot has its requests carried out.

    Args:
        server: The running robot.
    """

    def __init__(self, server: Any) -> None:
        from .showing import Film

        self._server = server
        self._film = Film(server.robot)

    def answer(self, request: dict[str, Any]) -> Any:
        """Carry out a request and return its result."""
        calls: dict[str, Callable[..., Any]] = {
            "inject": self._inject,
            "status": self._status,
            "history": self._history,
            "place": self._place,
            "frame": self._film.frame,
            "start_film": self._film.start,
            "save_film": self._film.save,
        }
        name = request.pop("call")
        return calls[name](**request)

    def _inject(self, name: str, parameters: dict[str, Any], after: float) -> None:
        with self._server.robot.lock:
            self._server.faults.inject(name, parameters, after)

    def _place(self, start: list[list[list[float]]]) -> None:
        with self._server.robot.lock:
            self._server.robot.place(RobotStart(*(np.array(part, dtype=np.float64) for part in start)))

    def _status(self) -> dict[str, Any]:

        with self._server.robot.lock:
            return describe(self._server.robot)

    def _history(self) -> list[dict[str, Any]]:
        robot = self._server.robot
        with robot.lock:
            robot.history.note(robot)
            changes: list[dict[str, Any]] = robot.history.changes()
            return changes

    def close(self) -> None:
        """Release the camera."""
        self._film.close()


def main() -> int:
    """Run a practice robot until standard input ends."""
    sys.setswitchinterval(_SWITCH)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not disturb the answers
    try:
        order = json.loads(sys.stdin.readline())
        from .server import PracticeServer

        _keep_mujoco_quiet()
        server = PracticeServer(
            PracticeSettings.make(order["settings"]), order["password"], order["port"], bytes.fromhex(order["key"])
        )
    except (BackendError, MissingExtraError) as error:
        _write(answers, {"error": str(error)})
        return 1
    channel = ControlChannel(server)
    try:
        _write(answers, {"result": {"port": server.port, "authority": server.authority.decode()}})
        for line in sys.stdin:
            try:
                _write(answers, {"result": channel.answer(json.loads(line))})
            except BackendError as error:
                _write(answers, {"error": str(error)})
            except Exception as error:  # a request that fails must not end the robot
                _write(answers, {"error": f"{type(error).__name__}: {error}"})
    finally:
        server.close()
        channel.close()
    return 0


def _keep_mujoco_quiet() -> None:
    """Let no broken simulation write to the terminal or leave a log file: the robot reports a fault instead."""
    from adc_wrappers.backends.mujoco.engine import mujoco

    silent = mujoco.MjLogConfig.get()
    silent.logto_console = silent.logto_file = False
    silent.set()


def _write(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
