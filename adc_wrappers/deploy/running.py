"""One trial: a policy on an env, from reset to the end, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from adc_wrappers.envs.deployment import Deployment

from .recorder import TrialRecorder

__all__ = ["PushWatch", "TrialOutcome", "check_deployment", "percentiles", "run_trial"]


@dataclass(frozen=True, kw_only=True)
class TrialOutcome:
    """How a trial went."""

    success: bool
    """Whether the task's success predicate held at the end of the time."""

    steps: int
    seconds: float
    """Policy time."""

    terminated: bool
    mode: str
    """``success``, a failure mode of the task, or ``guard: …``."""

    time_to_stance: float | None
    """Seconds until the stance was first held for a moment; None if never."""

    stance_seconds: float
    """Seconds in the stance, all in all."""

    longest_hold: float
    """Longest time in the stance without a break, s."""

    attempts: int
    """How often the stance was reached."""

    return_: float
    guard: dict[str, Any] | None = None
    """Why the guard ended it."""

    timing: dict[str, float] = field(default_factory=dict)
    """Percentiles of the period, of the policy's own time and of the streams' delays, ms, on the host's clock."""

    def to_dict(self) -> dict[str, Any]:
        """Return it for ``trial.json``."""
        values = asdict(self)
        values["return"] = values.pop("return_")
        return values


def check_deployment(env: Any, policy: Any) -> list[str]:
    """Return in what an env differs from what a policy file says it needs; nothing if they agree."""
    wanted, found = policy.metadata, env.task.deployment()
    names = ("joint_names", "nominal_pose", "action_scale", "action_limit", "policy_step", "observation")
    return [
        f"{name}: the policy needs {getattr(wanted, name)}, the env has {getattr(found, name)}"
        for name in names
        if not _same(getattr(wanted, name), getattr(found, name))
    ]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and a and isinstance(a[0], float):
        return bool(np.allclose(a, b, rtol=1e-9))
    return bool(np.isclose(a, b, rtol=1e-9)) if isinstance(a, float) else bool(a == b)


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
    """Run one episode, and record it.

    Args:
        env: A single env of a stand, in simulation or on a robot.
        policy: From an observation to an action.
        seed: Of the reset.
        steps: Stop after so many; by default the task's time limit.
        recorder: Told of every step.
        on_step: Told of the number of steps and ``info`` after each.
        go_on: Begin anew where the task ends an episode, as in shadow mode, where the policy drives nothing and the
            robot may be lying on the ground.
    """
    task = env.unwrapped.task
    monitor = task.episode_monitor()
    observation, _ = env.reset(seed=seed)
    monitor.begin(np.zeros(1, dtype=np.int64))
    book = _Book(task.policy_step, round(0.1 / task.policy_step))
    terminated = truncated = False
    info: dict[str, Any] = {}
    limit = task.time_limit if steps is None else min(steps, task.time_limit)
    while not terminated and not truncated and book.steps < limit:
        asked = time.monotonic()
        action = policy(observation)
        answered = time.monotonic()
        seen = observation
        observation, reward, terminated, truncated, info = env.step(action)
        monitor.step()
        book.note(info["holds"], float(reward), answered - asked)
        if recorder is not None:
            recorder.step(_row(book, task.deployment(), seen, action, reward, info, answered - asked))
        if on_step is not None:
            on_step(book.steps, info)
        if go_on and terminated:
            observation, _ = env.reset()
            terminated = False
    success = bool(info.get("is_success", False)) or (
        not terminated and not truncated and book.hold_now >= task.hold_steps
    )
    guard = info.get("guard")
    mode = _mode(success, guard, lambda: monitor.failure(0, terminated=terminated))
    numbers = monitor.numbers(0)
    return book.outcome(success, terminated, mode, guard, int(numbers.get("attempts", 0)))


def _mode(success: bool, guard: dict[str, Any] | None, failure: Callable[[], str]) -> str:
    if success:
        return "success"
    return failure() if guard is None else f"guard: {guard['check']}"


class PushWatch:
    """Pushes a practice robot once in a trial, and looks whether it is in the stance again some time later.

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


class _Book:
    """Counts of a running trial."""

    def __init__(self, policy_step: float, moment: int) -> None:
        self._policy_step, self._moment = policy_step, moment
        self.steps = 0
        self.hold_now = 0
        self._held = self._longest = 0
        self._first: int | None = None
        self._return = 0.0
        self._last = time.monotonic()
        self.period = 0.0
        self._periods: list[float] = []
        self._inference: list[float] = []

    def note(self, holds: bool, reward: float, inference: float) -> None:
        now = time.monotonic()
        self.period, self._last = now - self._last, now
        self._periods.append(self.period)
        self._inference.append(inference)
        self.steps += 1
        self._return += reward
        self._held += holds
        self.hold_now = self.hold_now + 1 if holds else 0
        self._longest = max(self._longest, self.hold_now)
        if self._first is None and self.hold_now >= self._moment:
            self._first = self.steps - self.hold_now + 1

    def outcome(
        self, success: bool, terminated: bool, mode: str, guard: dict[str, Any] | None, attempts: int
    ) -> TrialOutcome:
        seconds = self._policy_step
        return TrialOutcome(
            success=success, steps=self.steps, seconds=round(self.steps * seconds, 4), terminated=terminated, mode=mode,
            time_to_stance=None if self._first is None else round(self._first * seconds, 4),
            stance_seconds=round(self._held * seconds, 4), longest_hold=round(self._longest * seconds, 4),
            attempts=attempts, return_=self._return, guard=guard,
            timing={**percentiles("period", self._periods[1:]), **percentiles("inference", self._inference)},
        )  # fmt: skip


def percentiles(name: str, values: list[float]) -> dict[str, float]:
    """Return p50, p95, p99 and the largest of some seconds, ms, as ``name_p50_ms`` and so on; nothing of nothing."""
    if not values:
        return {}
    ends = (50, 95, 99, 100)
    found = np.percentile(np.array(values) * 1e3, ends)
    return {f"{name}_p{end}_ms": round(float(value), 4) for end, value in zip(ends, found, strict=True)}


def _row(
    book: _Book, deployment: Deployment, observation: Any, action: Any, reward: float, info: dict[str, Any],
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
