"""A deployment: one env, its preflight, and trials that are recorded one after the other."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from adc_wrappers.backends.guard import GuardLimits
from adc_wrappers.envs.registry import make_env
from adc_wrappers.runs.folder import source_commit

from .preflight import PreflightReport, preflight, robot_identity
from .recorder import TrialRecorder
from .running import PushWatch, TrialOutcome, check_deployment, percentiles, run_trial
from .trials import RECOVERY_SECONDS

__all__ = ["Deployer"]


class _Ears:
    """Passes what a backend tells to the recorder of the running trial."""

    def __init__(self) -> None:
        self.recorder: TrialRecorder | None = None
        self.last_event: tuple[str, dict[str, Any]] | None = None

    def state(self, sample: Any, targets: Any) -> None:
        """Pass on."""
        if self.recorder is not None:
            self.recorder.state(sample, targets)

    def command(self, command: Any) -> None:
        """Pass on."""
        if self.recorder is not None:
            self.recorder.command(command)

    def event(self, name: str, details: dict[str, Any]) -> None:
        """Pass on, and remember."""
        self.last_event = (name, details)
        if self.recorder is not None:
            self.recorder.event(name, details)


class Deployer:
    """Runs a policy file where its target settings lead: to a robot, a practice robot, or the plain simulator.

    Args:
        policy: The policy.
        path: Its file.
        target: Settings of the backend ``"spot"``; empty for the plain simulator.
        out: Folder of the recordings.
        command: The command line, for the recordings.
    """

    def __init__(self, policy: Any, path: Path, target: dict[str, Any], *, out: Path, command: list[str]) -> None:
        self._policy, self._path, self._out, self._command = policy, path, out, command
        self._ears = _Ears()
        self._robot = bool(target)
        config = policy.config
        settings = {key: value for key, value in config.settings.items() if key != "randomize"}
        if target:
            self._env = make_env(config.task, backend="spot", listeners=(self._ears,), **settings, **target)
        else:
            self._env = make_env(config.task, backend="mujoco", randomize=False, **settings)
            self._pin_gains()
        self._report: PreflightReport | None = None

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
        differences = check_deployment(self._env, self._policy)
        if differences:
            raise ValueError("; ".join(differences))
        return None

    @property
    def source(self) -> str:
        """What the trials are of."""
        if not self._robot:
            return "simulation"
        settings = self._env.actuator_backend.settings
        if settings.shadow:
            return "shadow"
        return "practice robot" if settings.is_practice else "robot"

    @property
    def motors_off(self) -> bool:
        """Whether the motors were confirmed off at the end."""
        return self._ears.last_event == ("closed", {"motors": "confirmed off"})

    def trial(
        self, *, seed: int, seconds: float | None = None, push_at: float | None = None,
        push: Callable[[], None] | None = None,
    ) -> tuple[Path, TrialOutcome]:  # fmt: skip
        """Run and record one trial; returns its folder and how it went.

        Args:
            seed: Of the reset.
            seconds: Its length; by default the task's time limit.
            push_at: Seconds after which ``push`` is called.
            push: Pushes a practice robot.
        """
        step = self._policy.metadata.policy_step
        recorder = self._recorder(seed)
        self._ears.recorder = recorder
        outcome: TrialOutcome | None = None
        watch = None
        if push_at is not None and push is not None:
            watch = PushWatch(round(push_at / step), round(RECOVERY_SECONDS / step), push, recorder)
        try:
            outcome = run_trial(
                self._env, self._policy, seed=seed, steps=None if seconds is None else round(seconds / step),
                recorder=recorder, on_step=watch, go_on=self.source == "shadow",
            )  # fmt: skip
            if watch is not None:
                watch.finish()
            if self._robot:
                outcome = self._with_delays(outcome)
                self._env.actuator_backend.stop()
        finally:
            self._ears.recorder = None
            recorder.close(None if outcome is None else outcome.to_dict())
        return recorder.folder, outcome

    def _with_delays(self, outcome: TrialOutcome) -> TrialOutcome:
        delays = self._env.actuator_backend.delays()
        found = {key: value for name, values in delays.items() for key, value in percentiles(name, values).items()}
        return replace(outcome, timing={**outcome.timing, **found})

    def _recorder(self, seed: int) -> TrialRecorder:
        metadata = self._policy.metadata
        gains = self._env.actuator_backend.gains()
        name = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-%f")
        return TrialRecorder(
            self._out / f"{self.source.replace(' ', '-')}-{name}", joints=metadata.joint_names,
            stiffness=gains.stiffness[0], damping=gains.damping[0], source=self.source, metadata=self._metadata(seed),
        )  # fmt: skip

    def _metadata(self, seed: int) -> dict[str, Any]:
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
            backend = self._env.actuator_backend
            values["robot"] = robot_identity(backend.session)
            values["clock"] = backend.settings.clock
            values["guard_limits"] = _plain(backend.guard.limits)
            values["preflight"] = None if self._report is None else self._report.to_dict()
        return values

    def close(self) -> None:
        """Close the env: on a robot, motors are confirmed off."""
        self._env.close()

    def __enter__(self) -> Deployer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _plain(limits: GuardLimits) -> dict[str, Any]:
    values = {name: value for name, value in vars(limits).items() if name != "envelopes"}
    return {**values, "envelopes": {name: asdict(envelope) for name, envelope in limits.envelopes.items()}}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("adc-wrappers", "bosdyn-client", "numpy", "onnxruntime"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
