"""The connection to a Spot: how it is reached, as whom, and whether it is a practice robot; needs no SDK."""

from __future__ import annotations

import getpass
import ipaddress
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from adc_wrappers.core.errors import BackendError

from .proof import KEY_FILE, read_key

__all__ = [
    "PASSWORD_VARIABLE",
    "USERNAME_VARIABLE",
    "Credentials",
    "SpotConnection",
    "ask_credentials",
    "is_loopback",
    "is_practice",
]


USERNAME_VARIABLE = "BOSDYN_CLIENT_USERNAME"
PASSWORD_VARIABLE = "BOSDYN_CLIENT_PASSWORD"


def ask_credentials() -> tuple[str, str]:
    """Return user name and password from the environment, or ask for them on a terminal.

    Raises:
        BackendError: They are not in the environment and there is nobody to ask.
    """
    username, password = os.environ.get(USERNAME_VARIABLE), os.environ.get(PASSWORD_VARIABLE)
    if username and password:
        return username, password
    if not sys.stdin.isatty():
        raise BackendError(
            f"expected user name and password in {USERNAME_VARIABLE} and {PASSWORD_VARIABLE}, or a terminal to ask on; "
            "got neither. They are never taken from arguments or files."
        )
    return username or input("Spot user name: "), password or getpass.getpass("Spot password: ")


Credentials = Callable[[], tuple[str, str]]
"""Returns user name and password when asked."""

LICENCE: Final = "joint_level_control"
"""Feature code of the licence for joint control, as seen on a robot by others; Boston Dynamics does not publish it."""


@dataclass(frozen=True, kw_only=True)
class SpotConnection:
    """The way to a Spot. Passwords are no setting: they come from the environment or from a prompt."""

    hostname: str
    """Address of the robot; ``127.0.0.1`` for a practice robot, together with its ``certificate``."""

    port: int = 443
    """TCP port."""

    certificate: str | Path | None = None
    """File of the certificate authority, PEM; by default the one that the SDK ships for real robots. That of a practice
    robot has the key beside it with which the robot proves that it is one (``practice.key``)."""

    credentials: Credentials | None = field(default=None, repr=False)
    """Asked for user name and password; by default ``BOSDYN_CLIENT_USERNAME`` and ``BOSDYN_CLIENT_PASSWORD`` of the
    environment, or a prompt on a terminal."""

    patience: float = 10.0
    """Seconds to wait for an answer that has no deadline of its own: login, power, stand, a state in lockstep."""

    power_off_seconds: float = 20.0
    """Seconds to wait until motors are confirmed off."""

    licence: str | None = LICENCE
    """Feature code that must be licensed; None does not ask."""

    def __post_init__(self) -> None:
        self._check_positive("patience", "power_off_seconds")
        if not self.hostname:
            raise BackendError("spot hostname: expected the robot's address, got none.")
        if not 0 < self.port < 65536:
            raise BackendError(f"spot port: expected 1 to 65535, got {self.port}.")

    def _check_positive(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise BackendError(f"spot {name}: expected a positive number, got {value}.")

    @cached_property
    def practice_key(self) -> bytes | None:
        """The key with which a practice robot must prove that it is one; None for every other robot."""
        return read_key(self.certificate) if is_loopback(self.hostname) else None

    @property
    def is_practice(self) -> bool:
        """Whether the robot is to be a practice robot: on this computer, with a key that its launcher made.

        The session asks the robot for the proof before anything else, so that no real one is ever taken for one: it may
        be reached through a tunnel that ends here, and any file may be given as its certificate.
        """
        return self.practice_key is not None

    @property
    def _not_practice(self) -> str:
        return (
            "that is one on this computer, with the certificate that its launcher wrote and the key beside it "
            f"({KEY_FILE}); got the host {self.hostname!r} and the certificate {self.certificate}"
        )


def is_practice(hostname: str, certificate: str | Path | None) -> bool:
    """Whether a robot is to be a practice robot: on this computer, with the key of its launcher.

    >>> is_practice("localhost", None), is_practice("localhost", "no/such/ca.pem")
    (False, False)
    """
    return is_loopback(hostname) and read_key(certificate) is not None


def is_loopback(hostname: str) -> bool:
    """Whether a host name means this computer.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("192.168.80.3")
    (True, True, False)
    """
    if hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(hostname).is_loopback
    except ValueError:
        return False
