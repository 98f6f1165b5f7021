"""A deployment: one env, its preflight, and trials that are recorded one after the other."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import platform
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from adc_wrappers.backends.spot.settings import SpotRobotSettings
from adc_wrappers.backends.spot.takeover import TakeOverError
from adc_wrappers.core.errors import BackendError
from adc_wrappers.envs.fit import check_env
from adc_wrappers.envs.registry import find_task, make_env
from adc_wrappers.policy import PolicyFileError
from adc_wrappers.runs.folder import source_commit

from .preflight import PreflightReport, preflight, robot_identity
from .recorder import TrialRecorder
from .running import PushWatch, TrialRun
from .trials import RECOVERY_SECONDS, TrialOutcome, not_begun, percentiles

if TYPE_CHECKING:
    from adc_wrappers.training import TrainConfig

__all__ = ["Deployer", "task_settings"]

NEVER_POWERED: Final = "never powered by us"
CONFIRMED_OFF: Final = "confirmed off"


class _Ears:
    """A listener that passes what a backend tells to the recorder of the running trial."""

    def __init__(self) -> None:
        self.recorder: TrialRecorder | None = None
        self.armed = False
        """Whether motors were ever powered by us."""
        self.motors: str | None = None
        """What the robot's last word about its motors was."""

    def state(self, sample: Any, targets: Any) -> None:
        """Pass on."""
        if self.recorder is not None:
            self.recorder.state(sample, targets)

    def command(self, command: Any) -> None:
        """Pass on."""
        if self.recorder is not None:
            self.recorder.command(command)

    def event(self, name: str, details: dict[str, Any]) -> None:
        """Pass on, and remember what concerns motors."""
        self.armed |= name == "armed"
        if name == "closed":
            self.motors = str(details["motors"])
        if self.recorder is not None:
            self.recorder.event(name, details)


class Deployer:
    """The deployment of a policy file on a robot, a practice robot, or the plain simulator, as its target settings say.

    Args:
        policy: The policy.
        path: Its file.
        target: Settings of the backend ``"spot"``; empty for the plain simulator.
        out: Folder of the recordings.
        command: The command line, for the recordings.

    Raises:
        PolicyFileError: The file names settings that are not the task's.
        BackendError: The robot cannot be reached, or is not one that may be driven; the attempt is recorded.
    """

    def __init__(self, policy: Any, path: Path, target: dict[str, Any], *, out: Path, command: list[str]) -> None:
        self._policy, self._path, self._out, self._command = policy, path, out, command
        self._ears = _Ears()
        self._robot = bool(target)
        config = policy.config
        settings = task_settings(config, path)
        self._env: Any = None
        self._unfinished: tuple[TrialRecorder, TrialOutcome] | None = None
        self._report: PreflightReport | None = None
        if target:
            self._settings = SpotRobotSettings(**target)
            self._env = self._connect(config.task, {**settings, **target})
        else:
            self._env = make_env(config.task, backend="mujoco", randomize=False, **settings)
            self._pin_gains()

    def _connect(self, task: str, settings: dict[str, Any]) -> Any:
        try:
            return make_env(task, backend="spot", listeners=(self._ears,), **settings)
        except BackendError as error:
            folder = self._record_refusal("connection", str(error))
            raise BackendError(f"{error} The attempt is recorded: {folder}") from error

    def _pin_gains(self) -> None:
        metadata = self._policy.metadata
        self._env.actuator_backend.set_gains(
            np.atleast_2d(metadata.simulated_stiffness), np.atleast_2d(metadata.simulated_damping)
        )

    def preflight(self) -> PreflightReport | None:
        """Return the preflight report; None in the plain simulator."""
        if self._robot:
            self._report = preflight(self._env, self._policy)
            return self._report
        check_env(self._policy, self._env)
        return None

    @property
    def source(self) -> str:
        """What the trials are of."""
        if not self._robot:
            return "simulation"
        if self._settings.shadow:
            return "shadow"
        return "practice robot" if self._settings.is_practice else "robot"

    @property
    def motors(self) -> str:
        """What is known of the motors."""
        if not self._powered:
            return NEVER_POWERED
        return self._ears.motors or "not confirmed off"

    @property
    def _powered(self) -> bool:
        """Whether motors were ever powered by us; what listeners are told may come late."""
        connected = self._robot and self._env is not None
        return self._ears.armed or (connected and self._env.actuator_backend.session.armed)

    @property
    def motors_off(self) -> bool:
        """Whether the motors were confirmed off at the end, or never on."""
        return self.motors in (NEVER_POWERED, CONFIRMED_OFF)

    def refuse(self, report: PreflightReport, seed: int) -> Path:
        """Record an attempt that ended with its preflight; returns its folder."""
        wrong = "; ".join(f"{item.name}: {item.value}" for item in report.items if item.ok is False)
        return self._record_refusal("preflight", wrong, seed)

    def _record_refusal(self, by: str, reason: str, seed: int | None = None) -> Path:
        recorder = self._recorder(seed)
        outcome = not_begun("refused", f"refused: {by}", reason)
        recorder.close(replace(outcome, motors=self.motors).to_dict())
        return recorder.folder

    def trial(
        self, *, seed: int, seconds: float | None = None, push_at: float | None = None,
        push: Callable[[], None] | None = None,
    ) -> tuple[Path, TrialOutcome]:  # fmt: skip
        """Run and record one trial; returns its folder and how it went.

        Whatever ends it, the recording says so. What the robot refuses or the take-over fails at is an outcome; what
        ends the program is recorded and raised again. :meth:`close` adds what became of the motors.

        Args:
            seed: Of the reset.
            seconds: Its length; by default the task's time limit.
            push_at: Seconds after which ``push`` is called.
            push: Pushes a practice robot.
        """
        self._finish()
        step = self._policy.metadata.policy_step
        self._ears.recorder = recorder = self._recorder(seed)
        watch = None
        if push_at is not None and push is not None:
            watch = PushWatch(round(push_at / step), round(RECOVERY_SECONDS / step), push, recorder)
        run = TrialRun(self._env, self._policy, recorder=recorder, on_step=watch, go_on=self.source == "shadow")
        outcome: TrialOutcome | None = None
        try:
            outcome = run.run(seed=seed, steps=None if seconds is None else round(seconds / step))
            if self._robot:
                outcome = self._with_delays(outcome)
                self._env.actuator_backend.stop()
        except BackendError as error:
            outcome = self._failed(run, error)
        except BaseException as error:
            outcome = _broken_off(run, error)
            raise
        finally:
            if watch is not None:
                watch.finish()
            if outcome is not None:
                self._unfinished = (recorder, outcome)
            recorder.close(None if outcome is None else outcome.to_dict())
        return recorder.folder, outcome

    def _failed(self, run: TrialRun, error: BackendError) -> TrialOutcome:
        """Return the outcome of a trial that the robot's backend ended: before power, in the take-over, or later."""
        guard = error.incident if isinstance(error, TakeOverError) else None
        if run.handed_over:
            return run.broken_off("error", f"error: {type(error).__name__}", str(error), guard)
        if not self._powered:
            return run.broken_off("refused", "refused: before power", str(error), guard)
        mode = "take-over: not driven" if guard is None else f"take-over: {guard['check']}"
        return run.broken_off("take-over", mode, str(error), guard)

    def _finish(self) -> None:
        """Write once more how the last trial ended, with all that has been heard since; nothing if there was none."""
        self._ears.recorder = None
        if self._unfinished is not None:
            (recorder, outcome), self._unfinished = self._unfinished, None
            recorder.close(replace(outcome, motors=self.motors if self._robot else None).to_dict())

    def _with_delays(self, outcome: TrialOutcome) -> TrialOutcome:
        delays = self._env.actuator_backend.delays()
        found = {key: value for name, values in delays.items() for key, value in percentiles(name, values).items()}
        return replace(outcome, timing={**outcome.timing, **found})

    def _recorder(self, seed: int | None) -> TrialRecorder:
        metadata = self._policy.metadata
        gains = None if self._env is None else self._env.actuator_backend.gains()
        name = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-%f")
        return TrialRecorder(
            self._out / f"{self.source.replace(' ', '-')}-{name}", joints=metadata.joint_names,
            stiffness=gains and gains.stiffness[0], damping=gains and gains.damping[0], source=self.source,
            metadata=self._metadata(seed),
        )  # fmt: skip

    def _metadata(self, seed: int | None) -> dict[str, Any]:
        metadata = self._policy.metadata
        joints = metadata.joint_names
        values: dict[str, Any] = {
            "policy": {
                "file": self._path.name,
                "sha256": hashlib.sha256(self._path.read_bytes()).hexdigest(),
                "network_sha256": metadata.network_sha256,
            },
            "task": self._policy.config.task,
            "policy_step": metadata.policy_step,
            "simulated": {
                "stiffness": dict(zip(joints, metadata.simulated_stiffness, strict=True)),
                "damping": dict(zip(joints, metadata.simulated_damping, strict=True)),
            },
            "seed": seed,
            "command": self._command,
            "versions": _versions(),
            "commit": source_commit(),
        }
        if self._robot:
            limits = self._settings.guard_limits
            values["robot"] = None if self._env is None else robot_identity(self._env.actuator_backend.session)
            values["clock"] = self._settings.clock
            values["limits"] = limits.name
            values["guard_limits"] = limits.to_dict()
            values["preflight"] = None if self._report is None else self._report.to_dict()
        return values

    def close(self) -> None:
        """Close the env: on a robot, motors are confirmed off; the recording says whether they are."""
        try:
            self._env.close()
        finally:
            self._finish()

    def __enter__(self) -> Deployer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _broken_off(run: TrialRun, error: BaseException) -> TrialOutcome:
    """Return the outcome of a trial in which the program was ended or failed."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return run.broken_off("interrupted", "interrupted", f"the program was ended ({error!r})")
    return run.broken_off("error", f"error: {type(error).__name__}", str(error))


def task_settings(config: TrainConfig, path: Path) -> dict[str, Any]:
    """Return the settings of the task that a policy file was trained with, without randomization.

    Whoever drives a robot says how it is reached, taken over, watched and stopped. A file never does: one that tries is
    refused whole, rather than believed in part.

    Args:
        config: The training settings in the file.
        path: The file, for the message.

    Raises:
        PolicyFileError: It names others.
    """
    spec = find_task(config.task)
    # where a simulator of tensors ran, and on what, is no business of a robot's
    given = spec.task_settings(config.settings) if config.backend in spec.native else config.settings
    _, of_the_robot = spec.split_settings("spot", given)
    known = {field.name for field in dataclasses.fields(spec.settings_class())} - set(of_the_robot)
    foreign = sorted(set(given) - known)
    if foreign:
        raise PolicyFileError(
            f"{path}: its training settings name {', '.join(foreign)}, which are no settings of the task "
            f"{config.task!r} ({', '.join(sorted(known))}). How a robot is reached, taken over, watched and stopped is "
            "said by whoever drives it, never by a policy file. Export the policy again without them."
        )
    return {name: value for name, value in given.items() if name != "randomize"}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("adc-wrappers", "bosdyn-client", "numpy", "onnxruntime"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
