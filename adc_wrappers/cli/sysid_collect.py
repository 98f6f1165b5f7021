"""``adc sysid collect``."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console

from adc_wrappers.core.errors import CurriculumError

from .options import parse_settings
from .viability import steps_shown

if TYPE_CHECKING:
    from adc_wrappers.backends.base import RobotBackend
    from adc_wrappers.sysid import Excitation

__all__ = ["Collect"]

_HANGING = 2.0
_SPOT: dict[str, Any] = {"wanted": (1.0, 0.0, 0.0), "physics_step": 0.002, "decimation": 10}


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """Hidden parameters, to rehearse with a simulated robot."""

    stiffness_scale: float = 1.0
    """Stiffness that acts, as a multiple of the commanded one."""

    damping_scale: float = 1.0
    """Damping that acts, as a multiple of the commanded one."""

    coulomb: float = 0.0
    """Dry friction of every joint, N·m."""

    viscous: float = 0.0
    """Viscous friction of every joint, N·m·s/rad."""

    delay_steps: int = 0
    """Physics steps by which targets act late."""

    position_noise: float = 0.0
    """rad."""

    velocity_noise: float = 0.0
    """rad/s."""


@dataclass(frozen=True, kw_only=True)
class Collect:
    """Move a robot and record a trajectory log."""

    backend: tyro.conf.Positional[str]
    """Where the robot is: mujoco, pybullet, or spot with --set hostname=ADDRESS."""

    excitation: Literal["chirp", "policy"] = "chirp"
    """Sines on all joints, or a policy in the loop."""

    policy: Path | None = None
    """The policy's ONNX file."""

    seconds: float = 6.0
    """How long."""

    stiffness: float = 60.0
    """Commanded stiffness, N·m/rad."""

    damping: float = 1.5
    """Commanded damping, N·m·s/rad."""

    amplitude: float = 0.2
    """Of the chirp, rad."""

    low: float = 0.3
    """Lowest frequency of the chirp, Hz."""

    high: float = 4.0
    """Highest, Hz."""

    standing: bool = False
    """The robot stands on the ground; otherwise it hangs with its base held, and no base is logged."""

    rehearsal: Rehearsal = field(default_factory=Rehearsal)
    """Hidden parameters of a simulated robot."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Settings of the backend."""

    seed: int = 0
    """Of the chirp's phases and of the rehearsal's noise."""

    out: Path = Path("log.csv")
    """The log, .csv or .parquet."""

    overwrite: bool = False
    """Replace a log that exists."""

    def run(self) -> int:
        """Record and write."""
        from adc_wrappers.sysid import record
        from adc_wrappers.trajectories import check_log_name, write_log

        console = Console(highlight=False, soft_wrap=True)
        if (self.excitation == "policy") != (self.policy is not None):
            raise ValueError("expected --policy FILE together with --excitation policy, and neither without the other.")
        check_log_name(self.out)
        if self.out.exists() and not self.overwrite:
            raise CurriculumError(f"{self.out} is there already. Choose another --out, or give --overwrite.")
        with closing(self._robot()) as robot:
            self._begin(robot)
            excitation = self._excitation(robot)
            source = f"{self.backend}, {self.excitation}, {'standing' if self.standing else 'on a stand'}"
            with steps_shown("recording", round(self.seconds / robot.policy_step)) as step:
                log = record(
                    robot, excitation, self.seconds, source=source, on_stand=not self.standing, on_step=step
                )  # fmt: skip
        console.print(f"data {write_log(log, self.out)}\ndata {self.out.with_suffix('.json')}")
        console.print(f"adc sysid fit {self.out}")
        return 0

    def _robot(self) -> RobotBackend:
        """Make the robot; nothing moves yet."""
        from adc_wrappers.backends.robots import make_robot_backend
        from adc_wrappers.sysid import HiddenParameters, HiddenRobot

        settings: dict[str, Any] = parse_settings(self.set)
        if self.backend in ("mujoco", "pybullet"):
            settings["fixed_base"] = not self.standing
        elif self.backend == "spot":
            gains = {"stiffness": self.stiffness, "damping": self.damping}
            settings = {**_SPOT, **gains, **settings}
        robot = make_robot_backend(self.backend, 1, **settings)
        if self.rehearsal != Rehearsal():
            robot = HiddenRobot(robot, HiddenParameters(**vars(self.rehearsal), seed=self.seed))
        return robot

    def _begin(self, robot: RobotBackend) -> None:
        """Set the commanded gains and put the robot into its start."""
        from adc_wrappers.backends.spot_model import standing_height
        from adc_wrappers.sysid import start_of

        shape = (1, len(robot.joint_names))
        robot.set_gains(np.full(shape, self.stiffness), np.full(shape, self.damping))
        robot.reset(start_of(robot, height=standing_height(robot.nominal_pose) if self.standing else _HANGING))

    def _excitation(self, robot: RobotBackend) -> Excitation:
        from adc_wrappers.sysid import Chirp, PolicyExcitation

        if self.policy is None:
            return Chirp(
                pose=robot.nominal_pose, amplitude=self.amplitude, low=self.low, high=self.high,
                period=self.seconds, seed=self.seed,
            )  # fmt: skip
        from adc_wrappers.policy import load

        return PolicyExcitation(load(self.policy), robot.nominal_pose)
