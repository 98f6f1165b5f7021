"""Random exploration, many tries from saved states over the envs of one batch, and policies worth a try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.cartpole import CartTask
from adc_wrappers.envs.spot import SpotStandTask
from adc_wrappers.envs.task import Snapshot, Task
from adc_wrappers.feasibility.statics import StaticRobot

from .compiled import linalg

__all__ = [
    "Exploration",
    "Policy",
    "Tries",
    "cart_regulator",
    "explore",
    "failed",
    "lives",
    "set_stiffness",
    "take",
    "witnesses",
]


def set_stiffness(task: Task, stiffness: float) -> None:
    """Give every joint of every env this K and the damping that the task's curriculum goes with it."""
    if not (np.isfinite(stiffness) and stiffness > 0.0):
        raise CurriculumError(f"stiffness: expected a positive number, got {stiffness}.")
    backend = task.backend
    values = np.full((backend.num_envs, len(backend.joint_names)), float(stiffness))
    backend.set_gains(values, task.adc_config.damping_at(values, backend.effective_inertia(), backend.joint_names))


def take(snapshot: Snapshot, rows: NDArray[np.int64]) -> Snapshot:
    """Return chosen rows of a snapshot."""
    return {name: values[rows] for name, values in snapshot.items()}


def failed(task: Task) -> NDArray[np.bool_]:
    """Return which envs have terminated or have broken physics."""
    return np.asarray(task.terminated() | ~np.isfinite(task.observe()).all(axis=1))


@dataclass(frozen=True)
class Exploration:
    """Episodes of uniform random actions, each until it terminates or the horizon is over."""

    alive: NDArray[np.bool_]
    """Whether an episode has not terminated after t steps, ``(horizon + 1, episodes)``."""

    states: list[Snapshot]
    """All envs after t steps."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Steps until termination of each episode; the horizon where it did not terminate."""
        return np.asarray(np.minimum(self.alive.sum(axis=0), len(self.alive) - 1))

    @property
    def survival(self) -> NDArray[np.float64]:
        """Share of the episodes that is alive after t steps."""
        return np.asarray(self.alive.mean(axis=1))

    @property
    def alive_share(self) -> float:
        """Of all visited states the share that is not terminal; an episode's terminal state is visited once."""
        ended = np.count_nonzero(~self.alive[-1])
        return float(self.alive.sum() / (self.alive.sum() + ended))

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Snapshot, NDArray[np.int64]]:
        """Draw visited states that are not terminal, uniformly over all visits, and when they were visited.

        Every episode gives at most one of them as long as there are enough episodes, so that they are independent.
        """
        times, episodes = np.nonzero(self.alive)
        order = rng.permutation(len(times))
        _, first = np.unique(episodes[order], return_index=True)
        weights = self.alive.sum(axis=0)[episodes[order][first]]
        chosen = order[rng.choice(first, size=count, p=weights / weights.sum(), replace=count > len(first))]
        parts = [take(self.states[times[i]], episodes[i : i + 1]) for i in chosen]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, times[chosen]


def explore(
    task: Task, horizon: int, rng: np.random.Generator, progress: Callable[[], Any] | None = None
) -> Exploration:
    """Run one episode per env under uniform random actions.

    Args:
        task: The task; its gains stay as they are.
        horizon: Policy steps.
        rng: Source of starts and actions.
        progress: Called after each step.
    """
    if horizon < 1:
        raise CurriculumError(f"horizon: expected at least 1 policy step, got {horizon}.")
    everyone = np.arange(task.backend.num_envs)
    task.begin(everyone, rng)
    space = task.action_space
    alive, states = [~failed(task)], [task.snapshot(everyone)]
    for _ in range(horizon):
        actions = rng.uniform(space.low, space.high, (len(everyone), *space.shape)).astype(np.float32)
        task.advance(actions)
        alive.append(alive[-1] & ~failed(task))
        states.append(task.snapshot(everyone))
        if progress is not None:
            progress()
    return Exploration(np.array(alive), states)


Policy = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""From a batch of observations to a batch of actions."""


@dataclass(frozen=True)
class Tries:
    """A batch of tries: row i starts from state ``owners[i]``."""

    owners: NDArray[np.int64]
    """Rows of the snapshot."""

    knots: NDArray[np.float32]
    """Actions at equally spaced times, linear in between, ``(tries, knots, actions)``."""

    policies: NDArray[np.int64]
    """Number of the policy that acts instead of the knots; −1 for none."""


def lives(
    task: Task,
    saved: Snapshot,
    tries: Tries,
    policies: Sequence[Policy],
    horizon: int,
    solved: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Return the steps that each try lives, at most the horizon; −1 where it was not needed any more.

    An env whose try ends takes the next one from the queue. Once a try has lived to the horizon, its state is solved
    and its other tries are dropped.

    Args:
        task: Its envs are overwritten.
        saved: The states.
        tries: What is tried.
        policies: Policies that the tries name.
        horizon: Policy steps.
        solved: Which states are solved; updated.
    """
    count, slots = len(tries.owners), task.backend.num_envs
    result = np.full(count, -1, dtype=np.int64)
    job = np.full(slots, -1, dtype=np.int64)
    clock = np.zeros(slots, dtype=np.int64)
    queue = 0
    while True:
        free = np.flatnonzero(job < 0)
        waiting = queue + np.flatnonzero(~solved[tries.owners[queue:]])
        taken = waiting[: len(free)]
        if len(taken):
            job[free[: len(taken)]], clock[free[: len(taken)]] = taken, 0
            task.restore(take(saved, tries.owners[taken]), free[: len(taken)])
        queue = count if len(waiting) <= len(free) else int(waiting[len(free)])
        busy = np.flatnonzero(job >= 0)
        if not len(busy):
            return result
        task.advance(_actions(task, tries, policies, job, clock, horizon))
        clock[busy] += 1
        dead = failed(task)[busy]
        made_it = (clock[busy] >= horizon) & ~dead
        result[job[busy[dead]]] = clock[busy[dead]] - 1
        result[job[busy[made_it]]] = horizon
        solved[tries.owners[job[busy[made_it]]]] = True
        over = dead | made_it | solved[tries.owners[job[busy]]]
        job[busy[over]] = -1


def _actions(
    task: Task,
    tries: Tries,
    policies: Sequence[Policy],
    job: NDArray[np.int64],
    clock: NDArray[np.int64],
    horizon: int,
) -> NDArray[np.float32]:
    """Return the actions of all envs; idle ones get those of the first try."""
    job = np.maximum(job, 0)
    knots = tries.knots.shape[1]
    place = np.minimum(clock / max(1, horizon - 1), 1.0) * (knots - 1)
    left = np.minimum(place.astype(np.int64), max(0, knots - 2))
    share = (place - left)[:, np.newaxis].astype(np.float32)
    right = np.minimum(left + 1, knots - 1)
    actions: NDArray[np.float32] = (1.0 - share) * tries.knots[job, left] + share * tries.knots[job, right]
    chosen = tries.policies[job]
    if (chosen >= 0).any():
        observation = np.nan_to_num(task.observe())
        for index, policy in enumerate(policies):
            rows = chosen == index
            if rows.any():
                actions[rows] = policy(observation)[rows]
    return np.clip(actions, task.action_space.low, task.action_space.high)


_NUDGE = 1e-5
_EFFORTS = (0.1, 1.0, 10.0, 100.0)


def witnesses(task: Task) -> list[Policy]:
    """Return what is known to help at the task's present gains: LQRs on a cart, a standing command for Spot."""
    if isinstance(task, CartTask):
        return [_feedback(cart_regulator(task, effort)) for effort in _EFFORTS]
    if isinstance(task, SpotStandTask):
        return [_standing(task)]
    return []


def cart_regulator(task: CartTask, effort: float = 1.0) -> NDArray[np.float64]:
    """Return the LQR gain of one policy step about upright, by nudging the task's own physics.

    Its envs are overwritten.

    Weights are 1 on the cart's position, 0.1 on its velocity, 10 on angles and 1 on their rates.

    Args:
        task: The task; at its present gains, with enough envs for one nudge either way along state and action.
        effort: R.
    """
    backend, size = task.backend, task.observation_space.shape[0]
    kind = type(backend.state())
    columns = np.zeros((size + 1, backend.num_envs))
    if backend.num_envs >= 2 * size + 2:
        nudges = _NUDGE * np.concatenate((np.eye(size + 1), -np.eye(size + 1)), axis=1)
        columns[:, : 2 * size + 2] = nudges
        ends = _step(task, kind, columns)[:, : 2 * size + 2]
    else:
        ends = np.empty((size, 2 * size + 2))
        for index in range(2 * size + 2):
            columns[:] = 0.0
            columns[index % (size + 1)] = _NUDGE if index <= size else -_NUDGE
            ends[:, index] = _step(task, kind, columns)[:, 0]
    change = (ends[:, : size + 1] - ends[:, size + 1 :]) / (2.0 * _NUDGE)
    a, b = change[:, :size], change[:, size:]
    weights = np.diag([1.0, 0.1] + [10.0, 1.0] * (size // 2 - 1))
    value = linalg.solve_discrete_are(a, b, weights, np.array([[effort]]))
    gain = np.linalg.solve(effort + b.T @ value @ b, b.T @ value @ a)
    return np.asarray(gain[0], dtype=np.float64)


def _step(task: CartTask, kind: type, columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Advance mechanisms by one policy step: rows of states and, last, of actions."""
    task.backend.reset(kind(*columns[:-1]))
    task.backend.advance(task.settings.command_limit * columns[-1])
    return np.stack(task.backend.state())


def _feedback(gain: NDArray[np.float64]) -> Policy:
    return lambda observation: (-observation @ gain)[:, np.newaxis].astype(np.float32)


def _standing(task: SpotStandTask) -> Policy:
    robot = task.body.robot
    torques = StaticRobot(robot.foot_names, robot).standing_torques(task.backend.nominal_pose[np.newaxis])[0]

    def policy(observation: NDArray[np.float32]) -> NDArray[np.float32]:
        stiffness = np.asarray(task.backend.gains().stiffness)
        return np.asarray(torques / stiffness / task.action_scale, dtype=np.float32)[: len(observation)]

    return policy
