"""What a robot is told when its policy has been stopped."""

from __future__ import annotations

from contextlib import suppress

from adc_wrappers.backends.guard import Breach
from adc_wrappers.core.errors import BackendError

from .messages import StateSample
from .session import SpotSession
from .settings import SpotRobotSettings

__all__ = ["Fallback"]

UPRIGHT = 0.87
"""Cosine of the tilt (30°) up to which a robot is told to stand rather than to power off."""

_LEFT = "left to the new owner of the lease"
_OUT_OF_ACTION = ("estop", "power")
_NOT_TO_STAND = ("fault", "fall", "battery")


class Fallback:
    """Hands a robot back to its own controller: it stands if it is upright and sound, else it powers off safely.

    Args:
        session: The session.
        settings: Its patience.
    """

    def __init__(self, session: SpotSession, settings: SpotRobotSettings) -> None:
        self._session, self._settings = session, settings

    def cause(self, least_battery: float) -> tuple[str, str] | None:
        """Return what the robot says is wrong, as a check of the guard and a reason."""
        try:
            problem = self._session.health().problem(least_battery)
            lost = None if problem is not None else self._session.confirm_lease()
        except BackendError as error:
            return "login" if "Unauthenticated" in str(error) else "contact", str(error)
        if problem is not None:
            return problem
        return None if lost is None else ("lease", f"the lease is not ours any more: {lost}")

    def act(self, breach: Breach, sample: StateSample) -> str:
        """Bring the robot into the safe state; returns what that is, in words."""
        try:
            if breach.check == "login":
                self._session.log_in_again()
            if breach.check in _OUT_OF_ACTION:
                self._session.confirm_off()
                return "motors off"
            if breach.check == "lease":
                return _LEFT
            if breach.check not in _NOT_TO_STAND and -sample.gravity[2] > UPRIGHT:
                return self._stand()
            self._session.power_off()
        except BackendError as error:
            return self._last_word(error)
        return "motors off"

    def _stand(self) -> str:
        try:
            self._session.stand()
        except BackendError:
            self._session.power_off()
            return "motors off"
        return "standing"

    def _last_word(self, error: BackendError) -> str:
        """Look once more: motors that are off need no command, and a robot that is somebody else's gets none."""
        with suppress(BackendError):
            if self._session.health().motors_off:
                return "motors off"
            if self._session.confirm_lease() is not None:
                return _LEFT
        return f"NOT CONFIRMED, press the E-stop: {error}"
