"""``adc deploy``."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from .audit import require_audit

__all__ = ["Deploy"]

WORD = "DRIVE"
_PRACTICE_SILENCE = 10.0  # seconds, because a computer that simulates the robot too may be busy
_OF_A_ROBOT = (
    "port", "certificate", "shadow", "clock", "stiffness", "damping", "limits", "soft_start",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Deploy:
    """Run a policy file on a Spot: preflight, then shadow or armed, recorded.

    User name and password come from BOSDYN_CLIENT_USERNAME and BOSDYN_CLIENT_PASSWORD, or from a prompt.
    Read docs/hardware.md before you use a real robot.
    """

    policy: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="POLICY")]
    """A policy file that `adc export` wrote."""

    hostname: str | None = None
    """Address of the robot; 127.0.0.1 for a practice robot that runs already."""

    port: int = 443
    """Its TCP port."""

    certificate: Path | None = None
    """Certificate authority of a practice robot, PEM; the key that its launcher wrote lies beside it."""

    practice: bool = False
    """Start a practice robot, and run on that."""

    simulation: bool = False
    """Run in the plain MuJoCo env instead, to compare."""

    shadow: bool = False
    """Let the policy run on the robot's states, and send nothing."""

    clock: Literal["realtime", "lockstep"] = "realtime"
    """lockstep: a practice robot's time waits for the policy."""

    stiffness: float | None = None
    """Commanded stiffness for all joints; by default the file's. On a practice robot: the file's simulated gains."""

    damping: float | None = None
    """Commanded damping, likewise."""

    limits: Literal["robot", "practice"] | None = None
    """The guard's numbers; by default practice for a practice robot, else robot."""

    soft_start: int = 0
    """Policy steps over which the policy is blended in."""

    seconds: float | None = None
    """Length of a trial; by default the task's time limit."""

    push: float | None = None
    """With --practice: push the robot sideways by this speed, m/s, once in every trial."""

    push_at: float = 10.0
    """Seconds after which it is pushed."""

    trials: int = 1
    """How many trials; each connects, checks and is confirmed on its own."""

    seed: int = 0
    """Seed of the first trial."""

    out: Path = Path("trials")
    """Folder for recordings; each trial makes one inside."""

    despite_audit: str | None = None
    """Words in which you say that a policy that fails its audit is deployed on a real robot; the refusal has them."""

    yes: bool = False
    """Do not ask; refused unless the robot is a practice robot on this computer."""

    def run(self) -> int:
        """Deploy."""
        from adc_wrappers.policy import load

        self._check()
        console = Console(highlight=False, soft_wrap=True)
        policy = load(self.policy)
        if self.hostname is not None and not self.shadow and not self._on_practice():
            self._gains(policy)  # what nobody has said is asked for before anything takes long
            require_audit(self.policy, console, self.despite_audit)
        codes = []
        for number in range(self.trials):
            with self._target(policy) as (target, robot):
                codes.append(_deploy(self, policy, target, robot, console, self.seed + number))
        return max(codes)

    def _check(self) -> None:
        chosen = [name for name in ("hostname", "practice", "simulation") if getattr(self, name)]
        if len(chosen) != 1:
            raise ValueError(
                f"say where to run: one of --hostname, --practice or --simulation; got {', '.join(chosen) or 'none'}."
            )
        if self.yes and self.hostname is not None and not self._on_practice():
            raise ValueError(
                "--yes is for practice robots on this computer, with the --certificate and the key beside it that "
                f"their launcher wrote; not for {self.hostname!r} with {self.certificate}."
            )
        if self.push is not None and not self.practice:
            raise ValueError("--push is for the practice robot: give --practice too.")
        if self.trials < 1:
            raise ValueError(f"trials: expected at least 1, got {self.trials}.")
        if (self.stiffness is None) != (self.damping is None):
            raise ValueError("commanded gains: give --stiffness and --damping, or neither.")
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0.0):
            raise ValueError(f"seconds: expected a positive number, got {self.seconds}.")
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        useless = [name for name in _OF_A_ROBOT if self.simulation and getattr(self, name) != defaults[name]]
        if useless:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in useless)
            raise ValueError(f"{names}: there is no robot in --simulation; leave them out.")

    def _on_practice(self) -> bool:
        from adc_wrappers.backends.spot.settings import is_practice

        return self.practice or (self.hostname is not None and is_practice(self.hostname, self.certificate))

    @contextlib.contextmanager
    def _target(self, policy: Any) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield the settings of the connection, and the practice robot if one is to be started."""
        if self.simulation:
            yield {}, None
            return
        settings: dict[str, Any] = {
            "hostname": self.hostname, "port": self.port, "certificate": self.certificate, "clock": self.clock,
            "shadow": self.shadow, "limits": self.limits, "soft_start_steps": self.soft_start,
            "keeper": True,
        }  # fmt: skip
        if self._on_practice():
            settings["keeper_silence"] = _PRACTICE_SILENCE
        if not self.practice:
            yield {**settings, **self._gains(policy)}, None
            return
        from adc_wrappers.spot_sim import PracticeRobot

        with PracticeRobot(clock=self.clock) as robot:
            settings |= {"hostname": robot.hostname, "port": robot.port, "certificate": robot.certificate}
            credentials = (robot.username, robot.password)
            more = {"credentials": lambda: credentials, "patience": 30.0}
            yield {**settings, **more, **self._gains(policy)}, robot

    def _gains(self, policy: Any) -> dict[str, Any]:
        metadata = policy.metadata
        if self.stiffness is not None:
            return {"stiffness": self.stiffness, "damping": self.damping}
        if metadata.commanded_stiffness is not None:
            return {"stiffness": metadata.commanded_stiffness, "damping": metadata.commanded_damping}
        if self._on_practice():
            return {"stiffness": metadata.simulated_stiffness, "damping": metadata.simulated_damping}
        if self.shadow:
            return {}  # nothing is sent
        raise ValueError(
            f"{self.policy} does not say which gains are to be commanded to a robot, and they are not the simulated "
            "ones: give --stiffness and --damping, or export the policy with --commanded-stiffness and "
            "--commanded-damping."
        )


def _deploy(options: Deploy, policy: Any, target: dict[str, Any], robot: Any, console: Console, seed: int) -> int:
    """Run one trial: connect, preflight, confirm, drive, confirm that motors are off."""
    from adc_wrappers.deploy.deployer import Deployer

    with Deployer(policy, options.policy, target, out=options.out, command=_command_line()) as deployer:
        report = deployer.preflight()
        if report is not None:
            console.print(_table(report))
            if not report.ok:
                console.print("preflight: not ready; nothing was moved.")
                console.print(f"trial {deployer.refuse(report, seed)}")
                return 1
        driven = not options.simulation and not options.shadow
        if driven and not _confirmed(options, console):
            console.print("not confirmed; nothing was moved.")
            return 1
        folder, outcome = deployer.trial(
            seed=seed,
            seconds=options.seconds,
            push_at=None if options.push is None else options.push_at,
            push=lambda: robot.inject("push", speed=options.push),
        )
        console.print(f"{outcome.mode}: {outcome.seconds:.2f} s, {outcome.longest_hold:.2f} s held at longest")
        if outcome.guard is not None:
            console.print(f"guard: {outcome.guard['reason']}; then: {outcome.guard['fallback']}", markup=False)
        elif outcome.reason:
            console.print(outcome.reason, markup=False)
        console.print(f"trial {folder}")
    if driven:
        console.print(f"motors {deployer.motors}", markup=False)
    return 0 if outcome.ended in ("time", "task") and (deployer.motors_off or not driven) else 1


def _table(report: Any) -> Table:
    table = Table(title="preflight", title_justify="left")
    for column in ("", "", ""):
        table.add_column(column)
    marks = {True: "ok", False: "NO", None: ""}
    for item in report.items:
        table.add_row(item.name, item.value, marks[item.ok])
    return table


def _confirmed(options: Deploy, console: Console) -> bool:
    """Ask the operator for the word; ``--yes`` was checked to be for practice only."""
    if options.yes:
        return True
    if not sys.stdin.isatty() and not options.practice:
        raise ValueError(f"arming needs a terminal on which somebody types {WORD}.")
    console.print(
        "The robot will stand up and then move by the policy. The area is clear, and somebody else holds the E-stop?"
    )
    return input(f"Type {WORD} to go on: ").strip() == WORD


def _command_line() -> list[str]:
    """Arguments never hold credentials: there is no option for them."""
    return ["adc", *sys.argv[1:]]
