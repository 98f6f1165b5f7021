"""A session with a Spot: from login to motors that are confirmed off."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adc_wrappers.core.errors import BackendError

from . import sdk
from .credentials import ask_credentials
from .health import Health, read_health
from .repeating import uninterrupted
from .settings import SpotRobotSettings

__all__ = ["SpotSession"]

CLIENT_NAME = "adc-wrappers"
LEASE_INTERVAL = 0.5
POLL = 0.1


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn errors of the SDK and of gRPC into ours."""
    try:
        yield
    except (sdk.SdkError, sdk.WalletError, sdk.grpc.RpcError) as error:
        raise BackendError(f"{what} failed: {_in_short(error)}") from error


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip().split("\n")[0]


class SpotSession:
    """Login, time sync, licence, lease, E-stop state, power and the robot's own stand.

    Logging in changes nothing on the robot; :meth:`arm` takes the lease and powers the motors.

    Args:
        settings: How the robot is reached.

    Raises:
        BackendError: The robot cannot be reached, or does not let us in.
    """

    def __init__(self, settings: SpotRobotSettings) -> None:
        self._settings = settings
        self._lease: Any = None
        self._lease_error: str | None = None
        self._closed = False
        self.client_name = f"{CLIENT_NAME}-{os.getpid()}"
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
        self._credentials = (self._settings.credentials or ask_credentials)()
        self.log_in_again()
        with explained("time sync"):
            self._robot.time_sync.wait_for_sync(timeout_sec=self._settings.patience)

    def log_in_again(self) -> None:
        """Log in, or anew after the robot has declared our token void."""
        with explained(f"the login of {self._credentials[0]!r}"):
            self._robot.authenticate(*self._credentials, timeout=self._settings.patience)

    def client(self, kind: Any) -> Any:
        """Return a client of the SDK by its class."""
        with explained(f"the service {kind.default_service_name}"):
            return self._robot.ensure_client(kind.default_service_name)

    def health(self) -> Health:
        """Ask for power, E-stop, battery and faults."""
        with explained("reading the robot's state"):
            return read_health(self.client(sdk.RobotStateClient).get_robot_state(timeout=self._settings.patience))

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

    def check(self, least_battery: float) -> Health:
        """Refuse a robot that must not be driven now.

        Raises:
            BackendError: Arm, licence, E-stop, faults or battery forbid it.
        """
        health = self.health()
        if health.has_arm:
            raise BackendError("the robot has an arm: its policies were trained without one, so it is not driven.")
        if not self.licensed():
            raise BackendError(
                f"the robot has no licence for joint control ({self._settings.licence!r}); without it streams fail."
            )
        problem = health.problem(least_battery, driving=False)
        if problem is not None:
            raise BackendError(f"the robot must not be driven now: {problem[1]}. Put it right by hand and try again.")
        return health

    def arm(self) -> None:
        """Take the lease, if nobody has it, and power the motors on."""
        if self._lease is None:
            with uninterrupted(), explained("taking the lease"):
                try:
                    self._lease = sdk.LeaseKeepAlive(
                        self.client(sdk.LeaseClient), must_acquire=True, return_at_exit=True, warnings=False,
                        rpc_interval_seconds=LEASE_INTERVAL, on_failure_callback=self._note_lease,
                    )  # fmt: skip
                except sdk.ResourceAlreadyClaimedError as error:
                    raise BackendError(
                        "somebody else has the robot's lease, and it is not taken from them. Release it there (tablet "
                        "or other program) and try again."
                    ) from error
        self._lease_error = None
        with explained("power on"):
            self._robot.power_on(timeout_sec=self._settings.patience * 2, update_frequency=1 / POLL)

    def _note_lease(self, error: Exception) -> None:
        self._lease_error = _in_short(error)

    def lease_problem(self) -> str | None:
        """Return why the lease is not ours any more; None while it is or was never taken."""
        return self._lease_error

    def confirm_lease(self) -> str | None:
        """Ask the robot whether the lease is ours; returns why not.

        Raises:
            BackendError: It does not say: a robot that cannot be reached has not given our lease to anybody.
        """
        if self._lease is None:
            return "the lease was never taken"
        client = self.client(sdk.LeaseClient)
        with explained("asking about the lease"):
            try:
                client.retain_lease(client.lease_wallet.get_lease("body"), timeout=self._settings.patience)
            except (sdk.LeaseUseError, sdk.LeaseResponseError, sdk.WalletError) as error:
                return _in_short(error)
        return None

    def stand(self) -> None:
        """Make the robot stand by its own controller, and wait until it does."""
        with explained("standing"):
            sdk.robot_command.blocking_stand(
                self.client(sdk.RobotCommandClient), timeout_sec=self._settings.patience * 2, update_frequency=1 / POLL
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
        with explained("safe power off"):
            command = sdk.RobotCommandBuilder.safe_power_off_command()
            self.client(sdk.RobotCommandClient).robot_command(command, timeout=self._settings.patience)
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
        return self._lease is not None

    def disarm(self) -> None:
        """Return the lease."""
        if self._lease is not None:
            keeper, self._lease = self._lease, None
            keeper.shutdown()

    def close(self) -> None:
        """Return the lease and end every thread and channel of the SDK; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self.disarm()
        token_thread = getattr(getattr(self._robot, "_token_manager", None), "th", None)
        self._robot.__exit__(None, None, None)
        if isinstance(token_thread, threading.Thread):
            token_thread.join(timeout=2.0)
        self._robot.shutdown()
