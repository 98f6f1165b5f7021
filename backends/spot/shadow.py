"""Shadow mode: the policy sees the robot's states, and nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.guard import Guard, Moment
from adc_wrappers.core.errors import BackendError

from .estimation import StateEstimator
from .messages import StateSample
from .settings import SpotRobotSettings
from .streams import StateReceiver
from .takeover import Setpoint

__all__ = ["ShadowDriver"]


class ShadowDriver:
    """A driver that sends nothing and steps with the robot's states; what the guard would have stopped is told.

    Args:
        receiver: The robot's states.
        guard: Looks at commands that are not sent.
        settings: How long to wait for a state.
        policy_step: Seconds.
        tell: Told of events.
    """

    def __init__(
        self,
        receiver: StateReceiver,
        guard: Guard,
        settings: SpotRobotSettings,
        policy_step: float,
        tell: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._receiver, self._guard, self._tell = receiver, guard, tell
        self._policy_step, self._patience = policy_step, settings.patience
        self._estimator = StateEstimator()
        self._previous: Setpoint | None = None
        self.incident: dict[str, Any] | None = None
        """Nothing is sent, so there is nothing to end: None."""
        self.would_stop: dict[str, int] = {}
        """How often each check would have stopped the policy."""
        self.sample: StateSample = self._wait(0.0)
        """The state of the last policy instant."""

    def _wait(self, until: float) -> StateSample:
        sample = self._receiver.wait(lambda s: s.stamp >= until, self._patience)
        if sample is None:
            problem = self._receiver.problem
            raise BackendError(f"shadow mode needs states: {problem[1] if problem else 'none came in time'}.")
        return sample

    def step(self, setpoint: Setpoint) -> RobotState:
        """Look at a setpoint, wait for one policy step, return the state then."""
        previous = (self._previous or setpoint).position
        load = np.zeros_like(previous)
        now = self._estimator.state(self.sample)
        breach = self._guard.before(
            Moment(now, setpoint.position, previous, setpoint.stiffness, setpoint.damping, load, self.sample.stamp)
        )
        if breach is not None:
            self.would_stop[breach.check] = self.would_stop.get(breach.check, 0) + 1
            self._tell("would stop", breach.to_dict())
        self._previous = setpoint
        self.sample = self._wait(self.sample.stamp + self._policy_step - 1e-4)
        return self._estimator.state(self.sample)

    def end(self) -> None:
        """Nothing to end."""
