"""A session with a Spot: from login to motors that are confirmed off."""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import Any

from adc_wrappers.backends.guard import GuardLimits
from adc_wrappers.core.errors import BackendError

from . import proof, sdk
from .connection import SpotConnection, ask_credentials
from .health import Health, read_health
from .keeping import Keeper
from .leasing import BodyLease
from .messages import seconds
from .sdk import explained
from .settings import SpotRobotSettings
from .signals import EndingSignals, ForkAware, uninterrupted

__all__ = ["SpotSession", "explained"]

CLIENT_NAME = "adc-wrappers"
POLL = 0.1


class SpotSession:
    """Login, time sync, licence, lease, E-stop state, power and the robot's own stand.

    Logging in changes nothing on the robot; :meth:`arm` takes the lease and powers the motors.

    Args:
        settings: How the robot is reached, and whether a keeper holds its lease.
        role: Told to the robot as part of our name: ``"driver"``, or ``"keeper"``.

    Raises:
        BackendError: The robot cannot be reached, or does not let us in.
    """

    def __init__(self, settings: SpotConnection, role: str = "driver") -> None:
        self._settings = settings
        self._closed = False
        self._fork = ForkAware(lambda: self.lease.let_go())
        self._signals = EndingSignals()
        kept = isinstance(settings, SpotRobotSettings) and settings.has_keeper
        self.lease = BodyLease(
            lambda: self.client(sdk.LeaseClient),
            settings.patience,
            self._start_keeper if kept else None,
            self.log_in_again if role == "keeper" else None,
        )
        """The lease of the robot's body."""
        self.client_name = f"{CLIENT_NAME}-{role}-{os.getpid()}"
        """Name under which the robot knows us."""
        glob = None if settings.certificate is None else str(settings.certificate)
        with explained("the set-up of the SDK"):
            kit = sdk.bosdyn.client.create_standard_sdk(
                self.client_name,
                service_clients=[sdk.RobotCommandStreamingClient, sdk.RobotStateStreamingClient],
                cert_resource_glob=glob,
            )
        self._robot = kit.create_robot(settings.hostname)
        self._robot.update_secure_channel_port(settings.port)
        try:
            self._log_in()
        except BackendError:
            self.close()
            raise

    def _log_in(self) -> None:
        where = f"{self._settings.hostname}:{self._settings.port}"
        with explained(f"reaching a robot at {where}"):
            self.identity = self._robot.get_id()
        if self._settings.practice_key is not None:
            self._ask_for_proof(self._settings.practice_key, where)
        self._credentials = (self._settings.credentials or ask_credentials)()
        self.log_in_again()
        with explained("time sync"):
            self._robot.time_sync.wait_for_sync(timeout_sec=self._settings.patience)

    @property
    def settings(self) -> SpotConnection:
        """How the robot is reached."""
        return self._settings

    def _start_keeper(self) -> Keeper:
        if not isinstance(self._settings, SpotRobotSettings):
            raise BackendError("a keeper has no keeper.")
        return Keeper(self._settings, self._credentials)

    def _ask_for_proof(self, key: bytes, where: str) -> None:
        """Refuse whoever cannot prove to be the practice robot that it was said to be."""
        challenge = secrets.token_bytes(proof.CHALLENGE_BYTES)
        ask = self._robot.ensure_channel("robot-id").unary_unary(f"/{proof.SERVICE}/{proof.METHOD}")
        try:
            given = proof.proves(key, challenge, ask(challenge, timeout=self._settings.patience))
            found = "a wrong answer"
        except sdk.grpc.RpcError as error:
            given, found = False, f"{error.code().name}"
        if not given:
            raise BackendError(
                f"the robot at {where} does not prove that it is a practice robot: expected the answer that the key "
                f"beside {self._settings.certificate} gives, got {found}. Use the certificate that its own launcher "
                "wrote. A real robot has none: leave the certificate out, and everything that is for practice only."
            )

    def log_in_again(self) -> None:
        """Log in, or anew after the robot has declared our token void."""
        with explained(f"the login of {self._credentials[0]!r}"):
            self._robot.authenticate(*self._credentials, timeout=self._settings.patience)

    def client(self, kind: Any) -> Any:
        """Return a client of the SDK by its class."""
        with explained(f"the service {kind.default_service_name}"):
            return self._robot.ensure_client(kind.default_service_name)

    def state(self) -> Any:
        """Ask for the robot's state, the whole message."""
        with explained("reading the robot's state"):
            return self.client(sdk.RobotStateClient).get_robot_state(timeout=self._settings.patience)

    def health(self) -> Health:
        """Ask for power, E-stop, battery and faults."""
        return read_health(self.state())

    def stamp(self) -> float:
        """Return when the robot's present state was acquired, robot's clock, s."""
        return seconds(self.state().kinematic_state.acquisition_timestamp)

    def licensed(self) -> bool:
        """Whether the robot has the licence for joint control; True if it is not to be asked for."""
        code = self._settings.licence
        if code is None:
            return True
        with explained("asking for the licence"):
            answer = self.client(sdk.LicenseClient).get_feature_enabled([code], timeout=self._settings.patience)
        return bool(answer.get(code, False))

    def clock_skew(self) -> float:
        """Return by how much the robot's clock is ahead of ours, s."""
        with explained("time sync"):
            skew = self._robot.time_sync.get_robot_clock_skew()
        return float(skew.seconds) + 1e-9 * float(skew.nanos)

    def check(self, limits: GuardLimits | None) -> Health:
        """Refuse a robot that must not be driven now.

        Args:
            limits: Of charge and temperatures; None does not ask for those, as nothing is to move yet.

        Raises:
            BackendError: Arm, licence, E-stop, faults, charge, temperatures or a missing reading forbid it.
        """
        health = self.health()
        if health.has_arm:
            raise BackendError("the robot has an arm: its policies were trained without one, so it is not driven.")
        if not self.licensed():
            raise BackendError(
                f"the robot has no licence for joint control ({self._settings.licence!r}); without it streams fail."
            )
        problem = health.problem(limits, driving=False)
        if problem is not None:
            raise BackendError(f"the robot must not be driven now: {problem[1]}. Put it right by hand and try again.")
        return health

    def arm(self) -> None:
        """Take the lease, if nobody has it, start the keeper, and power the motors on.

        From here to :meth:`disarm` SIGTERM and SIGHUP end the program as Ctrl-C does: see :class:`EndingSignals`.
        """
        self._signals.install()
        with uninterrupted():
            self.lease.take()
        with explained("power on"):
            self._robot.power_on(timeout_sec=self._settings.patience * 2, update_frequency=1 / POLL)

    def confirm_lease(self) -> str | None:
        """Ask the robot whether the lease is ours; returns why not.

        Raises:
            BackendError: It does not say: a robot that cannot be reached has not given our lease to anybody.
        """
        return self.lease.confirm()

    def order_stand(self) -> None:
        """Tell the robot to stand by its own controller; does not wait until it does."""
        with explained("standing"):
            command = sdk.RobotCommandBuilder.synchro_stand_command()
            self.client(sdk.RobotCommandClient).robot_command(command, timeout=self._settings.patience)

    def order_power_off(self) -> None:
        """Tell the robot to sit and power off; does not wait until it has."""
        with explained("safe power off"):
            command = sdk.RobotCommandBuilder.safe_power_off_command()
            self.client(sdk.RobotCommandClient).robot_command(command, timeout=self._settings.patience)

    def stand(self, seconds: float | None = None) -> None:
        """Make the robot stand by its own controller, and wait until it does.

        Args:
            seconds: How long; by default twice the patience.
        """
        limit = self._settings.patience * 2 if seconds is None else seconds
        with explained("standing"):
            sdk.robot_command.blocking_stand(
                self.client(sdk.RobotCommandClient), timeout_sec=limit, update_frequency=1 / POLL
            )

    def activate(self) -> int:
        """Switch to joint control; returns the command's id."""
        with explained("switching to joint control"):
            command = sdk.RobotCommandBuilder.joint_command()
            return int(self.client(sdk.RobotCommandClient).robot_command(command, timeout=self._settings.patience))

    def power_off(self) -> None:
        """Let the robot sit and power off, and wait until its motors are confirmed off.

        Raises:
            BackendError: They are not: somebody must press the E-stop.
        """
        self.order_power_off()
        self.confirm_off()

    def confirm_off(self) -> None:
        """Wait until the motors are confirmed off; unknown is not off."""
        deadline = time.monotonic() + self._settings.power_off_seconds
        while True:
            health = self.health()
            if health.motors_off:
                return
            if time.monotonic() > deadline:
                raise BackendError(
                    f"motors are not confirmed off after {self._settings.power_off_seconds:g} s (they are "
                    f"{health.motor_power}): press the E-stop."
                )
            time.sleep(POLL)

    @property
    def armed(self) -> bool:
        """Whether we have taken the lease."""
        return self.lease.taken

    def disarm(self) -> None:
        """Return the lease, and let signals act as before."""
        self.lease.give_back()
        self._signals.restore()

    def close(self) -> None:
        """Return the lease and end every thread and channel of the SDK; may be called twice.

        In a process that was forked from ours it does nothing: nothing of it is its own.
        """
        if self._closed or not self._fork.ours:
            return
        self._closed = True
        self._fork.release()
        self.disarm()
        token_thread = getattr(getattr(self._robot, "_token_manager", None), "th", None)
        self._robot.__exit__(None, None, None)
        if isinstance(token_thread, threading.Thread):
            token_thread.join(timeout=2.0)
        self._robot.shutdown()
