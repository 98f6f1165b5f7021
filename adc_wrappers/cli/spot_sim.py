"""``adc spot-sim``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from adc_wrappers.core.errors import BackendError

from .options import parse_settings

if TYPE_CHECKING:
    from adc_wrappers.spot_sim import PracticeRobot

__all__ = ["SpotSim"]

_PICTURES_PER_SECOND = 25.0


@dataclass(frozen=True, kw_only=True)
class SpotSim:
    """Start a Spot to practise on: the robot's services on this computer, with simulated physics behind them."""

    port: int = 0
    """Where to listen, on 127.0.0.1 only; 0 for any free port."""

    clock: Literal["realtime", "lockstep"] = "realtime"
    """realtime: like a robot, 333 states per second; lockstep: every joint command moves simulated time on by 20 ms."""

    arm: bool = False
    """Fit an arm: 19 joints."""

    on_stand: bool = False
    """Hold its body in the air, legs free, for system identification."""

    view: Annotated[tuple[str, ...], tyro.conf.arg(metavar="browser|gif PATH")] = ()
    """Watch it in the browser, or film it until it ends."""

    fault: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME@SECONDS")] = ()
    """Things that go wrong at some time of the robot's clock, such as estop@12; see docs/practice_robot.md."""

    skew: float = -199.0
    """Seconds by which the robot's clock is ahead of this computer's, in real time."""

    slack: float = 0.0
    """Seconds by which joint commands outlive their end_time, for a computer that is too busy for real time."""

    gain_scale: float = 1.0
    """Stiffness that acts, as a share of the commanded one: a secret for system identification."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """More of what it hides, such as joint_friction=0.5 command_delay=2; see docs/practice_robot.md."""

    seed: int = 0
    """Seed of noise and random losses."""

    folder: Path | None = None
    """Where to write the certificate authority, ca.pem, and the key practice.key with which clients know it from a real
    robot; by default a temporary folder."""

    seconds: float | None = None
    """Stop after so much time; by default with Ctrl+C."""

    def run(self) -> int:
        """Start it, and wait."""
        from adc_wrappers.spot_sim import PracticeRobot

        film = self._film()
        faults = [_parse_fault(word) for word in self.fault]
        console = Console(highlight=False, soft_wrap=True)
        settings = {
            "clock": self.clock, "arm": self.arm, "seed": self.seed, "clock_skew": self.skew,
            "gain_scale": self.gain_scale, "expiry_slack": self.slack, "on_stand": self.on_stand,
        }  # fmt: skip
        robot = PracticeRobot(port=self.port, folder=self.folder, **{**settings, **parse_settings(self.set)})
        with robot:
            self._introduce(robot, console)
            for name, after in faults:
                robot.inject(name, after=after)
            if film is not None:
                robot.start_film()
            try:
                self._wait(robot, console)
            except KeyboardInterrupt:
                console.print("ending")
            if film is not None:
                console.print(f"{robot.save_film(film)} pictures in {film}", markup=False)
        return 0

    def _film(self) -> Path | None:
        """Return where to write a film, and refuse what ``--view`` cannot be."""
        if self.view in ((), ("browser",)):
            return None
        if len(self.view) == 2 and self.view[0] == "gif":
            path = Path(self.view[1])
            if path.suffix != ".gif" or not path.resolve().parent.is_dir():
                raise BackendError(f"--view: expected a file .gif in a folder that exists, got {str(path)!r}.")
            return path
        raise BackendError(f"--view: expected 'browser' or 'gif PATH', got {' '.join(self.view)!r}.")

    def _introduce(self, robot: PracticeRobot, console: Console) -> None:
        from adc_wrappers.spot_sim.launcher import PASSWORD_VARIABLE

        given = PASSWORD_VARIABLE in os.environ
        console.print(
            f"practice robot at {robot.hostname} port {robot.port}, {self.clock} clock\n"
            f"certificate authority {robot.certificate}\n"
            f"key of its proof to be no real robot {robot.key_file}\n"
            f"user {robot.username}, password " + (f"from {PASSWORD_VARIABLE}" if given else robot.password),
            markup=False,
        )

    def _wait(self, robot: PracticeRobot, console: Console) -> None:
        """Wait for Ctrl+C, the end of the time or of the robot; draw meanwhile."""
        end = float("inf") if self.seconds is None else time.monotonic() + self.seconds
        going: Callable[[], bool] = lambda: time.monotonic() < end and robot.running  # noqa: E731
        if self.view != ("browser",):
            console.print("Ctrl+C ends it.")
            while going():
                time.sleep(0.1)
            return
        from adc_wrappers.spot_sim.showing import PracticeRobotPage

        page = PracticeRobotPage(robot)
        try:
            console.print(f"watch {page.address}\nCtrl+C ends it.")
            while going():
                page.draw()
                time.sleep(1.0 / _PICTURES_PER_SECOND)
        finally:
            page.close()


def _parse_fault(word: str) -> tuple[str, float]:
    """Return name and time of ``NAME@SECONDS``."""
    from adc_wrappers.spot_sim.faults import check_fault

    name, _, seconds = word.partition("@")
    check_fault(name, {})
    try:
        return name, float(seconds or 0.0)
    except ValueError as error:
        raise BackendError(f"--fault: expected NAME@SECONDS, got {word!r}.") from error
