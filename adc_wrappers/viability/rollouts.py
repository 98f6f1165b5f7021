"""Many tries from saved states, spread over the envs of one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.envs.task import Snapshot, Task

from .exploration import failed, take

__all__ = ["Policy", "Tries", "lives"]

Policy = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""From a batch of observations to a batch of actions."""


@dataclass(frozen=True)
class Tries:
    """What is tried: row i starts from state ``owners[i]``."""

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
