"""One trial: a policy on an env, from reset to the end, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from adc_wrappers.envs.deployment import Deployment

from .recorder import TrialRecorder
from .trials import TrialBook, TrialOutcome

__all__ = ["PushWatch", "TrialRun", "run_trial"]


def run_trial(
    env: Any,
    policy: Callable[[Any], Any],
    *,
    seed: int,
    steps: int | None = None,
    recorder: TrialRecorder | None = None,
    on_step: Callable[[int, dict[str, Any]], None] | None = None,
    go_on: bool = False,
) -> TrialOutcome:
    """Run one episode, and record it; see :class:`TrialRun`.

    Args:
        env: A single env of a stand, in simulation or on a robot.
        policy: From an observation to an action.
        seed: Of the reset.
        steps: Stop after so many; by default the task's time limit.
        recorder: Told of every step.
        on_step: Told of the number of steps and ``info`` after each.
        go_on: Begin anew where the task ends an episode.
    """
    return TrialRun(env, policy, recorder=recorder, on_step=on_step, go_on=go_on).run(seed=seed, steps=steps)


class TrialRun:
    """One episode, step by step; wherever it breaks off, it can say how far it came.

    Args:
        env: A single env of a stand, in simulation or on a robot.
        policy: From an observation to an action.
        recorder: Told of every step.
        on_step: Told of the number of steps and ``info`` after each.
        go_on: Begin anew where the task ends an episode, as in shadow mode, where the policy drives nothing and the
            robot may be lying on the ground.
    """

    def __init__(
        self,
        env: Any,
        policy: Callable[[Any], Any],
        *,
        recorder: TrialRecorder | None = None,
        on_step: Callable[[int, dict[str, Any]], None] | None = None,
        go_on: bool = False,
    ) -> None:
        self._env, self._policy, self._recorder, self._on_step, self._go_on = env, policy, recorder, on_step, go_on
        self._task = env.unwrapped.task
        self._monitor = self._task.episode_monitor()
        self._book = TrialBook(self._task.policy_step, round(0.1 / self._task.policy_step))
        self._terminated = self._truncated = False
        self.handed_over = False
        """Whether the env was reset: on a robot, whether the take-over succeeded."""

    def run(self, *, seed: int, steps: int | None = None) -> TrialOutcome:
        """Run it, and return how it went.

        Args:
            seed: Of the reset.
            steps: Stop after so many; by default the task's time limit.
        """
        task, book = self._task, self._book
        observation, _ = self._env.reset(seed=seed)
        self._monitor.begin(np.zeros(1, dtype=np.int64))
        self.handed_over = True
        info: dict[str, Any] = {}
        limit = task.time_limit if steps is None else min(steps, task.time_limit)
        while not self._terminated and not self._truncated and book.steps < limit:
            observation, info = self._step(observation)
        finished = not self._terminated and not self._truncated
        success = bool(info.get("is_success", False)) or (finished and book.hold_now >= task.hold_steps)
        guard = info.get("guard")
        mode = _mode(success, guard, lambda: self._monitor.failure(0, terminated=self._terminated))
        ended = "guard" if guard is not None else "task" if self._terminated else "time"
        return book.outcome(success, self._terminated, mode, guard, self._attempts(), ended)

    def _step(self, seen: Any) -> tuple[Any, dict[str, Any]]:
        asked = time.monotonic()
        action = self._policy(seen)
        inference = time.monotonic() - asked
        observation, reward, self._terminated, self._truncated, info = self._env.step(action)
        self._monitor.step()
        self._book.note(info["holds"], float(reward), inference)
        if self._recorder is not None:
            self._recorder.step(_row(self._book, self._task.deployment(), seen, action, reward, info, inference))
        if self._on_step is not None:
            self._on_step(self._book.steps, info)
        if self._go_on and self._terminated:
            observation, _ = self._env.reset()
            self._terminated = False
        return observation, info

    def broken_off(self, ended: str, mode: str, reason: str, guard: dict[str, Any] | None = None) -> TrialOutcome:
        """Return how far it came before something ended it; no success, whatever it was doing.

        Args:
            ended: Of :data:`ENDINGS`.
            mode: In short.
            reason: In words.
            guard: The breach, if it was one.
        """
        attempts = self._attempts() if self.handed_over else 0
        return replace(self._book.outcome(False, True, mode, guard, attempts, ended), reason=reason)

    def _attempts(self) -> int:
        return int(self._monitor.numbers(0).get("attempts", 0))


def _mode(success: bool, guard: dict[str, Any] | None, failure: Callable[[], str]) -> str:
    if success:
        return "success"
    return failure() if guard is None else f"guard: {guard['check']}"


class PushWatch:
    """One push of a practice robot in a trial, and the look whether it is in the stance again some time later.

    Args:
        step: Policy step after which it is pushed.
        window: Policy steps that it may take.
        push: Does it.
        recorder: Told of it.
    """

    def __init__(self, step: int, window: int, push: Callable[[], None], recorder: TrialRecorder) -> None:
        self._step, self._end, self._push, self._recorder = step, step + window, push, recorder
        self._pushed = self._judged = False

    def __call__(self, number: int, info: dict[str, Any]) -> None:
        """Look at a step."""
        if number == self._step:
            self._push()
            self._pushed = True
            self._recorder.event("push", {"step": number, "holds": info["holds"]})
        elif number == self._end:
            self._judge(info["holds"])

    def finish(self) -> None:
        """A trial that ended before was not recovered."""
        if self._pushed and not self._judged:
            self._judge(False)

    def _judge(self, recovered: bool) -> None:
        self._judged = True
        self._recorder.event("push recovered", {"recovered": recovered})


def _row(
    book: TrialBook, deployment: Deployment, observation: Any, action: Any, reward: float, info: dict[str, Any],
    inference: float,
) -> dict[str, Any]:  # fmt: skip
    joints = deployment.joint_names
    scale, nominal = np.array(deployment.action_scale), np.array(deployment.nominal_pose)
    targets = nominal + scale * np.clip(action, -deployment.action_limit, deployment.action_limit)
    row: dict[str, Any] = {"step": book.steps, "period": book.period, "inference": inference}
    place = 0
    for part in deployment.observation:
        for i in range(part.size):
            row[f"observation.{part.name}.{i}"] = float(observation[place])
            place += 1
    row.update({f"action.{joint}": float(value) for joint, value in zip(joints, action, strict=True)})
    row.update({f"target.{joint}": float(value) for joint, value in zip(joints, targets, strict=True)})
    row["reward"] = float(reward)
    row.update({f"reward.{name}": value for name, value in info["reward_terms"].items()})
    row["holds"] = int(info["holds"])
    row["guard"] = "" if "guard" not in info else info["guard"]["check"]
    return row
