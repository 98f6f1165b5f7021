"""Motions to identify with, and their recording through any robot backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotBackend, RobotStart, RobotState
from adc_wrappers.core.errors import BackendError
from adc_wrappers.trajectories import BaseTrack, TrajectoryLog

__all__ = ["Chirp", "Excitation", "PolicyExcitation", "record", "start_of"]

_Array = NDArray[np.float64]


class Excitation(Protocol):
    """A motion that decides the next joint targets from time and state."""

    def targets(self, time: float, state: RobotState) -> _Array:
        """Return targets for the next policy step, rad, ``(joints,)``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Chirp:
    """Sines whose frequency rises from low to high and falls again, around a pose.

    Joints come in legs of three, a third of a turn apart, and every leg begins elsewhere in the sweep, so that no two
    joints move alike. The amplitude fades in over the first half second.
    """

    pose: _Array
    """Middle of the motion, rad, ``(joints,)``."""

    amplitude: float | _Array = 0.2
    """rad, one number or one per joint."""

    low: float = 0.3
    """Hz."""

    high: float = 4.0
    """Hz."""

    period: float = 6.0
    """Seconds from low to high and back."""

    begin: _Array | None = None
    """Pose at the beginning, from which the targets go over to ``pose`` in the first half second; by default it."""

    seed: int = 0
    """Of the first phase."""

    def targets(self, time: float, state: RobotState | None = None) -> _Array:
        """Return the targets at a time."""
        index = np.arange(len(self.pose))
        first = float(np.random.default_rng(self.seed).uniform(0.0, 2.0 * np.pi))
        phases = first + 2.0 * np.pi * index / 3.0
        half = self.period / 2.0
        shift = np.asarray(index // 3 % 4 * (half / 2.0), dtype=np.float64)  # where in the sweep a leg begins
        turns: _Array = _turns(np.asarray(time + shift), self.low, self.high, half) - _turns(
            shift, self.low, self.high, half
        )
        fade = min(1.0, time / 0.5)
        middle = self.pose if self.begin is None else self.begin + fade * (self.pose - self.begin)
        return np.asarray(middle + fade * np.asarray(self.amplitude) * np.sin(2.0 * np.pi * turns + phases))


def _turns(time: _Array, low: float, high: float, half: float) -> _Array:
    """Return the integral of a frequency that goes from low to high in ``half`` seconds and back, again and again."""
    rate = (high - low) / half
    whole, rest = np.divmod(time, 2.0 * half)
    up = np.minimum(rest, half)
    down = np.maximum(rest - half, 0.0)
    return np.asarray(
        whole * half * (low + high) + low * up + rate * up**2 / 2.0 + high * down - rate * down**2 / 2.0
    )  # fmt: skip


class PolicyExcitation:
    """A policy in the loop: what it commands while it runs is the excitation.

    Args:
        policy: A policy file of a Spot task, as ``adc_wrappers.policy.load`` gives it.
        nominal_pose: The robot's q_0.
        scale: Factor on the policy's actions; below 1 for a first careful run.
    """

    def __init__(self, policy: Any, nominal_pose: _Array, scale: float = 1.0) -> None:
        self._policy, self._pose, self._scale = policy, nominal_pose, scale
        self._action = np.zeros((1, len(nominal_pose)))

    def targets(self, time: float, state: RobotState) -> _Array:
        """Ask the policy."""
        from adc_wrappers.envs.spot.terms import observation

        seen = np.asarray(observation(state, self._pose, self._action), dtype=np.float32)
        self._action = self._scale * np.asarray(self._policy(seen), dtype=np.float64)
        return np.asarray(self._policy.targets(self._action)[0])


def record(
    robot: RobotBackend,
    excitation: Excitation,
    seconds: float,
    *,
    source: str = "",
    on_stand: bool = False,
    torques: bool = True,
    clock: Callable[[], float] | None = None,
    keep_stopped: bool = False,
    on_step: Callable[[], None] | None = None,
) -> TrajectoryLog:
    """Move a robot and log it, one row per policy step.

    Args:
        robot: Any backend; the first of its robots is logged. Gains and start are the caller's to set.
        excitation: The motion.
        seconds: How long.
        source: Where the log comes from, in words.
        on_stand: The base is held: log no base.
        torques: Log torques.
        clock: The robot's clock at its last state, s, logged from 0 on; by default the backend's own ``clock``, and
            where it has none policy steps are counted.
        keep_stopped: If the robot's guard stops it, keep what was logged before.
        on_step: Called after every policy step.

    Raises:
        BackendError: The robot's state is not finite, or its guard has stopped it.
    """
    steps = round(seconds / robot.policy_step)
    gains = robot.gains()
    rows: list[tuple[Any, ...]] = []
    clock = getattr(robot, "clock", None) if clock is None else clock
    for step in range(steps + 1):
        state = robot.state()
        time = step * robot.policy_step if clock is None else clock()
        if not np.isfinite(state.joint_positions[0]).all():
            raise BackendError(f"the robot's state is not finite after {step} policy steps; nothing was logged.")
        now = [np.array(part[0], dtype=np.float64) for part in state]
        targets = excitation.targets(step * robot.policy_step, RobotState(*(part[None] for part in now)))
        rows.append((time, targets, *now))
        if step < steps:
            robot.advance(np.tile(targets, (robot.num_envs, 1)))
            if _stopped(robot, step + 1, keep_stopped):
                break
            if on_step is not None:
                on_step()
    times, sent, position, quaternion, linear, angular, _, q, dq, torque, _ = map(np.array, zip(*rows, strict=True))
    return TrajectoryLog(
        joint_names=tuple(robot.joint_names),
        time=times - times[0],
        positions=q,
        velocities=dq,
        targets=sent,
        torques=torque if torques else None,
        base=None if on_stand else BaseTrack(position, quaternion, linear, angular),
        commanded_stiffness=gains.stiffness[0],
        commanded_damping=gains.damping[0],
        source=source,
    )


def _stopped(robot: RobotBackend, step: int, keep: bool) -> bool:
    """Return whether a robot no longer does as it is told, or refuse it; a backend with a guard has ``incident()``."""
    incident: Any = getattr(robot, "incident", lambda: None)()
    if incident is not None and not keep:
        raise BackendError(
            f"the robot was stopped after {step} policy steps ({incident}); nothing was logged. Move less, or widen "
            "the limits of its guard."
        )
    return incident is not None


def start_of(robot: RobotBackend, *, height: float) -> RobotStart:
    """Return the robots' nominal pose at rest, level, with the base at a height, m."""
    count = robot.num_envs
    still = np.zeros((count, 3))
    pose = np.tile(robot.nominal_pose, (count, 1))
    position, level = np.tile([0.0, 0.0, height], (count, 1)), np.tile([1.0, 0.0, 0.0, 0.0], (count, 1))
    return RobotStart(position, level, still, still, pose, np.zeros_like(pose))
