"""A task that runs on and on while somebody looks: paused, reset, pushed, softened, with or without a policy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.config import CurriculumConfig
from adc_wrappers.core.errors import CurriculumError, did_you_mean
from adc_wrappers.envs.spot import SpotStandTask
from adc_wrappers.envs.task_env import TaskEnv
from adc_wrappers.feasibility.statics import StaticRobot

__all__ = ["ACTIONS", "Playback", "PlaybackStatus", "Policy", "chosen_action", "make_action"]


Policy = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""From a batch of observations to a batch of actions."""

ACTIONS = ("zero", "random", "standing")


def chosen_action(name: str | None, task: Any) -> str:
    """Return what a task does without a policy: ``name``, or standing where there is such an action, else zero."""
    return name if name is not None else ("standing" if isinstance(task, SpotStandTask) else "zero")


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
    chosen = chosen_action(name, task)
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


_PUSH = 0.5  # m/s, the largest of the paper's pushes


@dataclass(frozen=True, kw_only=True)
class PlaybackStatus:
    """The status of a playback."""

    episode: int
    step: int
    total_reward: float
    stiffness: float
    """K, the mean over the joints."""
    last_outcome: str
    """How the episode before this one ended."""


class Playback:
    """One env, played episode after episode.

    Requests may come from any thread; they are carried out by the next :meth:`advance`, in the thread that steps.

    Args:
        env: A single env of this library; it is not closed.
        policy: From a batch of observations to a batch of actions.
        stiffness: K of the joints, one number or one per joint; None leaves the engine's.
        curriculum: Says which damping goes with a stiffness; by default the one that the task recommends.
        seed: Seed of the first episode.
    """

    def __init__(
        self,
        env: TaskEnv,
        policy: Policy,
        *,
        stiffness: float | NDArray[np.float64] | None = None,
        curriculum: CurriculumConfig | None = None,
        seed: int = 0,
    ) -> None:
        self.task = env.task
        self.paused = False
        """While true, :meth:`advance` moves nothing."""
        self._env = env
        self._policy = policy
        self._curriculum = env.adc_config if curriculum is None else curriculum
        self._rng = np.random.default_rng(seed)
        self._requests: list[Callable[[], None]] = []
        self._episode, self._step, self._total, self._outcome = 0, 0, 0.0, "none yet"
        if stiffness is not None:
            self._write_stiffness(stiffness)
        self._observation = self._begin(seed)

    @property
    def can_push(self) -> bool:
        """Whether the robot can be pushed."""
        return hasattr(self.task.backend, "push")

    @property
    def status(self) -> PlaybackStatus:
        """How far it is."""
        stiffness = float(np.asarray(self.task.backend.gains().stiffness).mean())
        return PlaybackStatus(
            episode=self._episode,
            step=self._step,
            total_reward=self._total,
            stiffness=stiffness,
            last_outcome=self._outcome,
        )

    def request_reset(self) -> None:
        """Begin a new episode at the next step."""
        self._requests.append(lambda: self._restart("reset"))

    def request_push(self) -> None:
        """Push the robot sideways, in a random direction, at the next step."""
        if not self.can_push:
            raise CurriculumError(f"{type(self.task.backend).__name__} cannot be pushed.")
        self._requests.append(self._push)

    def request_stiffness(self, stiffness: float) -> None:
        """Give every joint this K, and the damping that belongs to it, at the next step."""
        if not (np.isfinite(stiffness) and stiffness > 0.0):
            raise CurriculumError(f"stiffness: expected a positive number, got {stiffness}.")
        self._requests.append(lambda: self._write_stiffness(stiffness))

    def advance(self) -> None:
        """Carry out what was requested, and simulate one policy step unless paused."""
        while self._requests:
            self._requests.pop(0)()
        if self.paused:
            return
        action = self._policy(self._observation[np.newaxis])[0]
        self._observation, reward, terminated, truncated, info = self._env.step(action)
        self._step += 1
        self._total += reward
        if terminated or truncated:
            ending = "fell" if terminated else "time limit"
            self._restart("success" if info.get("is_success") else ending)

    def run(self, draw: Callable[[], None], going: Callable[[], bool]) -> None:
        """Step in real time and draw after every step, as long as ``going`` says so.

        A computer that is too slow shows slow motion; time that was lost is not made up for.
        """
        due = time.perf_counter()
        while going():
            self.advance()
            draw()
            due = max(due + self.task.policy_step, time.perf_counter() - self.task.policy_step)
            time.sleep(max(0.0, due - time.perf_counter()))

    def _begin(self, seed: int | None) -> NDArray[np.float32]:
        observation, _ = self._env.reset(seed=seed)
        self._episode, self._step, self._total = self._episode + 1, 0, 0.0
        return observation

    def _restart(self, outcome: str) -> None:
        self._outcome = f"{outcome} after {self._step} steps"
        self._observation = self._begin(None)

    def _push(self) -> None:
        angle = self._rng.uniform(-np.pi, np.pi)
        backend: Any = self.task.backend
        backend.push(_PUSH * np.array([[np.cos(angle), np.sin(angle), 0.0]]), np.zeros(1, dtype=np.int64))

    def _write_stiffness(self, stiffness: float | NDArray[np.float64]) -> None:
        backend = self.task.backend
        values = np.broadcast_to(np.asarray(stiffness, dtype=np.float64), (1, len(backend.joint_names))).copy()
        damping = self._curriculum.damping_at(values, backend.effective_inertia(), backend.joint_names)
        backend.set_gains(values, damping)
