"""The robot's guard around a simulated env: what would have been stopped on hardware ends here too."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.guard import ROBOT_LIMITS, Breach, Guard, GuardLimits, Moment

from .spot.task import SpotStandTask

__all__ = ["GuardWrapper"]


class GuardWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """A guard around an env: where it would stop a robot, a terminated step with ``info["guard"]`` ends the episode.

    Targets that the guard forbids are not simulated: the step returns the observation before it and no reward.

    Args:
        env: One env of Spot's stands in simulation.
        limits: The guard's numbers; by default those for a real robot.

    Example:
        >>> from adc_wrappers import make_env
        >>> env = GuardWrapper(make_env("spot-handstand", backend="mujoco", randomize=False))
        >>> _ = env.reset(seed=0)
        >>> env.step(0.5 * env.action_space.high)[4]["guard"]["check"]
        'slew'
    """

    def __init__(self, env: Any, limits: GuardLimits = ROBOT_LIMITS) -> None:
        task: Any = getattr(env.unwrapped, "task", None)
        if not isinstance(task, SpotStandTask):
            raise TypeError(f"expected one env of Spot's stands, got {env}.")
        super().__init__(env)
        self._task = task
        self._guard = Guard(limits, task.stance.gravity)
        self._previous: NDArray[np.float64] = task.backend.nominal_pose
        self._seen: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; the robot is the policy's from the start."""
        self._seen, info = self.env.reset(seed=seed, options=options)
        self._guard.phases.hand_to_policy()
        self._guard.forget()
        limiter = self._task.limiter
        self._previous = self._task.backend.nominal_pose if limiter is None else limiter.targets[0].copy()
        return self._seen, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Look, step, look again."""
        if self._seen is None:
            raise ResetNeeded("call reset() before step().")
        breach = self._guard.before(self._moment(action))
        if breach is not None:
            return self._seen, 0.0, True, False, {"guard": _told(breach), "is_success": False, "holds": False}
        self._seen, reward, terminated, truncated, info = self.env.step(action)
        breach = self._guard.after(self._measured())
        if breach is not None:
            info = {**info, "guard": _told(breach), "is_success": False}
            terminated, truncated = True, False
        return self._seen, reward, terminated, truncated, info

    def _measured(self) -> RobotState:
        """Return the state as the robot's sensors have it, which is what its guard is shown."""
        return self._task.sensing.seen(self._task.backend.state())

    def _moment(self, action: Any) -> Moment:
        task, backend = self._task, self._task.backend
        clipped = np.clip(np.asarray(action, dtype=np.float64), -task.action_limit, task.action_limit)
        targets = task.targets(clipped[np.newaxis])[0]
        previous, self._previous = self._previous, targets
        gains = backend.gains()
        return Moment(self._measured(), targets, previous, gains.stiffness[0], gains.damping[0], np.zeros(len(targets)))


def _told(breach: Breach) -> dict[str, Any]:
    return {**breach.to_dict(), "fallback": "none: simulated"}
