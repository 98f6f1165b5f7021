"""The fall-back: what a robot is told when its policy has been stopped."""

from __future__ import annotations

from contextlib import suppress

from adc_wrappers.backends.guard import GuardLimits
from adc_wrappers.core.errors import BackendError

from .messages import StateSample
from .session import SpotSession

__all__ = ["Fallback"]

UPRIGHT = 0.87
"""Cosine of the tilt (30°) up to which a robot is told to stand rather than to power off."""

_LEFT = "left to the new owner of the lease"
_OUT_OF_ACTION = ("estop", "power")
_NOT_TO_STAND = ("fault", "fall", "battery", "temperature")


class Fallback:
    """The way back to the robot's own controller: it stands if it is upright and sound, else it powers off safely.

    It acts first, on what is known already; then it asks what was the matter, and waits until the robot is safe.

    Args:
        session: The session.
    """

    def __init__(self, session: SpotSession) -> None:
        self._session = session

    def act(self, check: str, sample: StateSample) -> str:
        """Tell the robot to be safe, at once and without a question.

        Args:
            check: What stopped the policy.
            sample: The newest state.

        Returns:
            What it was told and has taken: ``"stand"``, ``"power off"``, or ``"nothing"``.
        """
        return "nothing" if check in _OUT_OF_ACTION or check == "lease" else self._tell(check, sample)

    def _tell(self, check: str, sample: StateSample) -> str:
        upright = check not in _NOT_TO_STAND and -sample.gravity[2] > UPRIGHT
        for told in ("stand", "power off") if upright else ("power off",):
            with suppress(BackendError):
                self._order(told)
                return told
        return "nothing"

    def _order(self, told: str) -> None:
        """Send one command; a login that is void is made anew."""
        order = self._session.order_stand if told == "stand" else self._session.order_power_off
        try:
            order()
        except BackendError as error:
            if "Unauthenticated" not in str(error):
                raise
            self._session.log_in_again()
            order()

    def keeper_cause(self) -> tuple[str, str] | None:
        """Return what is the matter with the keeper, as a check of the guard and a reason; the robot is not asked."""
        lonely = self._session.lease.keeper_problem()
        return None if lonely is None else ("keeper", lonely)

    def cause(self, limits: GuardLimits) -> tuple[str, str] | None:
        """Return what the robot or its keeper says is wrong, as a check of the guard and a reason."""
        lonely = self.keeper_cause()
        if lonely is not None:
            return lonely
        try:
            problem = self._session.health().problem(limits)
            lost = None if problem is not None else self._session.confirm_lease()
        except BackendError as error:
            return "login" if "Unauthenticated" in str(error) else "contact", str(error)
        if problem is not None:
            return problem
        return None if lost is None else ("lease", f"the lease is not ours any more: {lost}")

    def finish(self, told: str, check: str, sample: StateSample) -> str:
        """Wait until the robot is in the safe state; returns what that is, in words.

        Args:
            told: What :meth:`act` returned.
            check: What stopped the policy, as far as is known by now: a robot that was told to stand may be unfit to.
            sample: The newest state.
        """
        try:
            if check == "keeper" and self._session.lease.await_keeper() and self._session.health().motors_off:
                return "motors off"
            if check == "lease":
                if self._session.lease.take_back() is not None:
                    return _LEFT
                told = self._tell(check, sample)
            if check in _OUT_OF_ACTION or told == "power off":
                self._session.confirm_off()
            elif told == "stand" and check not in _NOT_TO_STAND:
                return self._stand()
            else:
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
                if self._session.lease.take_back() is not None:
                    return _LEFT
                self._session.power_off()
                return "motors off"
        return f"NOT CONFIRMED, press the E-stop: {error}"
