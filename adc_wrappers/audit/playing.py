"""Episodes of a policy in simulation, with everything that a robot would be asked and would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.guard import Guard, GuardLimits, Moment, PhaseTracker
from adc_wrappers.backends.guard.limits import PHASES
from adc_wrappers.core import ActuatorCurriculumVectorWrapper, CurriculumError
from adc_wrappers.envs.fit import check_env
from adc_wrappers.envs.registry import make_env
from adc_wrappers.envs.spot import SpotStandTask

__all__ = ["STEP_PARTS", "EpisodeRecords", "Stop", "play_episodes"]

_Array = NDArray[Any]

STEP_PARTS: Final = (
    "targets", "slew", "slew_change", "reach", "predicted_share", "positions", "speeds", "torques", "torque_share",
    "lean_and_side", "base", "phase",
)  # fmt: skip
"""What is kept of every step: per joint, but for the last three."""


@dataclass(frozen=True)
class Stop:
    """The moment at which a guard would have stopped an episode."""

    episode: int
    step: int
    check: str
    phase: str
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodeRecords:
    """Episodes side by side: arrays of shape ``(steps, episodes, …)``, by the names of :data:`STEP_PARTS`."""

    alive: NDArray[np.bool_]
    """Which steps belong to an episode, ``(steps, episodes)``."""

    parts: dict[str, _Array]
    """Targets, their changes, distances from measured positions, predicted and applied torques as shares of the limit,
    joint positions, speeds, torques; lean and side in degrees; speed, turn rate, height and power of the whole robot;
    the phase as a number of :data:`~adc_wrappers.backends.guard.PHASES`."""

    success: NDArray[np.bool_]
    """Of each episode."""

    stops: tuple[Stop, ...]
    """The first thing in each episode that the guard would have stopped, where there is one."""

    policy_step: float
    """s."""

    def of(self, name: str) -> _Array:
        """Return one part of all steps that belong to episodes, ``(steps in all, …)``."""
        values: _Array = self.parts[name][self.alive]
        return values


class _Watcher:
    """A watcher of every step before finished envs are reset, which keeps the first episode of each env."""

    def __init__(self, task: SpotStandTask, limits: GuardLimits) -> None:
        self._task, self._limits = task, limits
        count = task.backend.num_envs
        self.playing = np.ones(count, dtype=bool)
        self.success = np.zeros(count, dtype=bool)
        self.alive: list[_Array] = []
        self.steps: dict[str, list[_Array]] = {name: [] for name in STEP_PARTS}
        self.stops: dict[int, Stop] = {}
        self._guards: list[Guard] = []
        self._phases: list[PhaseTracker] = []
        self._targets = self._slew = np.zeros(0)

    def begin(self, env_ids: _Array) -> None:
        """Begin the episodes that are kept; later ones are not looked at."""
        if self._guards:
            return
        wanted = self._task.stance.gravity
        self._guards = [Guard(self._limits, wanted) for _ in env_ids]
        self._phases = [PhaseTracker(wanted) for _ in env_ids]
        for guard, phases in zip(self._guards, self._phases, strict=True):
            guard.phases.hand_to_policy()
            phases.hand_to_policy()
        limiter, pose = self._task.limiter, self._task.backend.nominal_pose
        self._targets = np.tile(pose, (len(env_ids), 1)) if limiter is None else limiter.targets.copy()
        self._slew = np.zeros_like(self._targets)

    def before(self, actions: _Array) -> None:
        """Look at what the policy asks for."""
        task = self._task
        seen, gains = task.sensing.seen(task.backend.state()), task.backend.gains()
        targets = task.targets(np.asarray(actions, np.float64).clip(-task.action_limit, task.action_limit))
        slew = targets - self._targets
        torque = gains.stiffness * (targets - seen.joint_positions) - gains.damping * seen.joint_velocities
        limits = task.body.joints.torque_limits(seen.joint_positions)
        self._guard(seen, targets, gains)
        self._keep(
            targets=targets, slew=slew, slew_change=slew - self._slew, reach=targets - seen.joint_positions,
            predicted_share=np.abs(torque) / limits,
        )  # fmt: skip
        self._targets, self._slew = targets, slew

    def _guard(self, seen: RobotState, targets: _Array, gains: Any) -> None:
        nothing = np.zeros(targets.shape[1])
        for i in self._watched():
            now = RobotState(*(part[i : i + 1] for part in seen))
            moment = Moment(now, targets[i], self._targets[i], gains.stiffness[i], gains.damping[i], nothing)
            self._note(i, self._guards[i].before(moment))

    def _watched(self) -> list[int]:
        return [i for i in np.flatnonzero(self.playing).tolist() if i not in self.stops]

    def _note(self, episode: int, breach: Any) -> None:
        if breach is not None:
            self.stops[episode] = Stop(episode, len(self.alive), breach.check, breach.phase, breach.reason)

    def step(self, outcome: Any) -> None:
        """Look at what the robots did."""
        task = self._task
        state = task.backend.state()
        seen = task.sensing.seen(state)
        for i in self._watched():
            self._note(i, self._guards[i].after(RobotState(*(part[i : i + 1] for part in seen))))
        turned = np.array([phases.look(g) for phases, g in zip(self._phases, state.projected_gravity, strict=True)])
        power = np.abs(state.joint_torques * state.joint_velocities).sum(axis=1)
        base = (
            np.linalg.norm(state.base_linear_velocity, axis=1), np.linalg.norm(state.base_angular_velocity, axis=1),
            state.base_position[:, 2], power,
        )  # fmt: skip
        self._keep(
            positions=state.joint_positions, speeds=state.joint_velocities, torques=state.joint_torques,
            torque_share=np.abs(state.joint_torques) / task.body.joints.torque_limits(state.joint_positions),
            lean_and_side=turned, base=np.stack(base, axis=1),
            phase=np.array([PHASES.index(phases.phase) for phases in self._phases]),
        )  # fmt: skip
        self.alive.append(self.playing.copy())
        ended = (outcome.terminated | outcome.truncated) & self.playing
        self.success |= outcome.success & ended
        self.playing &= ~ended

    def _keep(self, **values: _Array) -> None:
        for name, value in values.items():
            self.steps[name].append(np.array(value, dtype=np.int8 if name == "phase" else np.float32))


def play_episodes(
    policy: Any,
    limits: GuardLimits,
    *,
    episodes: int,
    seed: int,
    settings: dict[str, Any] | None = None,
    steps: int | None = None,
    on_step: Callable[[int], None] | None = None,
) -> EpisodeRecords:
    """Play one episode in each of a batch of envs of the policy's own task in MuJoCo, at its target gains.

    Args:
        policy: A policy file or the policy of a run.
        limits: Of the guard that looks on; it stops nothing.
        episodes: How many.
        seed: Of start states and randomization.
        settings: Settings of the task that replace the training's.
        steps: Policy steps after which episodes are cut off; by default the task's time limit.
        on_step: Told of every policy step.

    Raises:
        CurriculumError: The task is not one of Spot's in space.
    """
    if episodes < 1:
        raise CurriculumError(f"episodes: expected at least 1, got {episodes}.")
    config = policy.config
    merged = {**config.settings, **(settings or {})}
    if steps is not None:
        merged["time_limit"] = steps
    envs = make_env(config.task, backend="mujoco", num_envs=episodes, **merged)
    try:
        task = envs.task
        if not isinstance(task, SpotStandTask) or task.body.robot.planar:
            raise CurriculumError(f"an audit is of a Spot in space, which a robot is; got the task {config.task!r}.")
        pinned = ActuatorCurriculumVectorWrapper(envs, config.curriculum, training=False)
        check_env(policy, pinned, asked=("damping",))
        watcher = _Watcher(task, limits)
        envs.watchers.append(watcher)
        observation, _ = pinned.reset(seed=seed)
        done = 0
        while watcher.playing.any():
            actions = policy(observation)
            watcher.before(actions)
            observation, *_ = pinned.step(actions)
            done += 1
            if on_step is not None:
                on_step(done)
    finally:
        envs.close()
    return EpisodeRecords(
        alive=np.stack(watcher.alive),
        parts={name: np.stack(values) for name, values in watcher.steps.items()},
        success=watcher.success,
        stops=tuple(watcher.stops[i] for i in sorted(watcher.stops)),
        policy_step=task.policy_step,
    )
