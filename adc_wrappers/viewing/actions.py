"""What to do with a robot that no policy drives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError, did_you_mean
from adc_wrappers.envs.spot import SpotStandTask
from adc_wrappers.feasibility.statics import StaticRobot

__all__ = ["ACTIONS", "Policy", "make_action"]

Policy = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""From a batch of observations to a batch of actions."""

ACTIONS = ("zero", "random", "standing")


def make_action(name: str | None, task: Any, seed: int = 0) -> Policy:
    """Return a policy that looks at nothing.

    Args:
        name: ``"zero"``; ``"random"``: uniform in the action's bounds (standard normal where it has none);
            ``"standing"``: the nominal pose plus what the joints sag at their present stiffness under the robot's
            weight and the outward pressure of its feet. None is standing where there is such an action, else zero.
        task: The task, over one env.
        seed: Seed of the random actions.

    Raises:
        CurriculumError: The name is unknown, or the task has no standing action.
    """
    stands = isinstance(task, SpotStandTask)
    chosen = name if name is not None else ("standing" if stands else "zero")
    space = task.action_space
    if chosen == "zero":
        return lambda _: np.zeros((1, *space.shape), dtype=np.float32)
    if chosen == "random":
        rng = np.random.default_rng(seed)
        return lambda _: _random(rng, space)
    if chosen != "standing":
        raise CurriculumError(f"unknown action {chosen!r}. {did_you_mean(chosen, ACTIONS)}")
    if not stands:
        raise CurriculumError(f"{type(task).__name__} has no standing action. Choose zero or random.")
    robot = task.body.robot
    torques = StaticRobot(robot.foot_names, robot).standing_torques(task.backend.nominal_pose[np.newaxis])
    return lambda _: np.asarray(torques / task.backend.gains().stiffness / task.action_scale, dtype=np.float32)


def _random(rng: np.random.Generator, space: Any) -> NDArray[np.float32]:
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, space.low, 0.0), np.where(bounded, space.high, 1.0)
    action = np.where(bounded, rng.uniform(low, high), rng.standard_normal(space.shape))
    return np.asarray(action[np.newaxis], dtype=np.float32)
