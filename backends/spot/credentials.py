"""User name and password: from the environment or a prompt, kept nowhere."""

from __future__ import annotations

import getpass
import os
import sys

from adc_wrappers.core.errors import BackendError

__all__ = ["PASSWORD_VARIABLE", "USERNAME_VARIABLE", "ask_credentials"]

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
