"""ε of the narrow-viability definition, estimated for any task, and the cart-pole's own by its kernel.

Random exploration visits states; each is tried to be saved, by policies and by action sequences that are refined where
they lived longest. A state that some try kept alive for the horizon is viable: that gives a lower bound. A state from
which no try lived more than a few steps is given up; all others are open. The upper bound counts them as viable. It is
a bound as far as giving up is right, which is certain for terminal states only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.cartpole import CartPoleModel
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.cartpole import CartTask
from adc_wrappers.envs.task import Snapshot, Task
from adc_wrappers.runs.evaluation import wilson_interval

from .kernel import KernelSettings, cartpole_kernel
from .plant import CartPlant
from .tries import Exploration, Policy, Tries, explore, lives, set_stiffness, take, witnesses

__all__ = ["Narrowness", "SearchSettings", "estimate_narrowness", "kernel_epsilon", "save_states"]


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Settings of the search for a way to save a state: how hard it is tried."""

    horizon: int = 100
    """T, policy steps: of exploration and of viability."""

    states: int = 64
    """Visited states that are judged, and as many starts."""

    tries: int = 24
    """Action sequences per state and round."""

    rounds: int = 4
    """Rounds; the first draws at random, each later one around the quarter that lived longest."""

    knot_steps: int = 10
    """Policy steps between the knots of a sequence."""

    given_up: int = 10
    """A state is given up if no try lives longer than so many steps."""

    def __post_init__(self) -> None:
        for name in ("horizon", "states", "tries", "rounds", "knot_steps"):
            if getattr(self, name) < 1:
                raise CurriculumError(f"{name}: expected at least 1, got {getattr(self, name)}.")
        if not 0 <= self.given_up < self.horizon:
            raise CurriculumError(
                f"given_up: expected 0 to {self.horizon - 1} (below the horizon), got {self.given_up}."
            )


@dataclass(frozen=True)
class Narrowness:
    """Findings of random exploration at one stiffness."""

    stiffness: float
    survival: NDArray[np.float64]
    """Share of random episodes alive after t steps."""
    lengths: NDArray[np.int64]
    """Length of each random episode, at most the horizon."""
    alive_share: float
    """Of the visited states the share that is not terminal."""
    visited: Snapshot
    """The states that were judged; none is terminal."""
    visited_lives: NDArray[np.int64]
    """Steps that the best try kept each of them alive."""
    start_lives: NDArray[np.int64]
    """Likewise for start states."""
    horizon: int
    given_up: int

    @property
    def lower(self) -> float:
        """Lower bound of ε: visited states that a try has saved."""
        return self.alive_share * float(np.mean(self.visited_lives >= self.horizon))

    @property
    def upper(self) -> float:
        """Upper bound of ε: visited states that were not given up."""
        return self.alive_share * float(np.mean(self.visited_lives > self.given_up))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval: Wilson's lower end for the lower bound, his upper end for the upper bound."""
        count = len(self.visited_lives)
        saved, kept = (int(np.sum(self.visited_lives > mark)) for mark in (self.horizon - 1, self.given_up))
        low, high = wilson_interval(saved, count)[0], wilson_interval(kept, count)[1]
        return self.alive_share * low, self.alive_share * high

    @property
    def coverage(self) -> tuple[float, float]:
        """Lower and upper bound of C_T: starts that were saved, starts that were not given up."""
        return float(np.mean(self.start_lives >= self.horizon)), float(np.mean(self.start_lives > self.given_up))


def estimate_narrowness(
    task: Task,
    stiffness: Sequence[float],
    settings: SearchSettings | None = None,
    *,
    policies: Sequence[Policy] = (),
    seed: int = 0,
    progress: Callable[[str, float], Any] | None = None,
) -> list[Narrowness]:
    """Estimate ε at each stiffness.

    Args:
        task: Its number of envs is the number of random episodes, and of tries at a time; gains and envs are
            overwritten.
        stiffness: K of every joint.
        settings: How hard to try.
        policies: Policies to try beside those that are known for the task.
        seed: Every stiffness starts from it, so that start states are the same.
        progress: Called with what is done and the share of it.
    """
    if not stiffness:
        raise CurriculumError("stiffness: expected at least one number, got none.")
    settings = settings or SearchSettings()
    report = progress or (lambda text, share: None)
    found = []
    for index, value in enumerate(stiffness):

        def share(part: float, index: int = index, value: float = value) -> None:
            report(f"K = {value:g}", (index + part) / len(stiffness))

        rng = np.random.default_rng(seed)
        set_stiffness(task, value)
        known = [*policies, *witnesses(task)]
        share(0.0)
        exploration = explore(task, settings.horizon, rng)
        visited, _ = exploration.sample(settings.states, rng)
        rows = np.arange(settings.states) % task.backend.num_envs
        starts = take(exploration.states[0], rows)
        both = {name: np.concatenate((visited[name], starts[name])) for name in visited}
        best = save_states(task, both, known, settings, rng, share)
        found.append(_result(value, exploration, visited, best, settings))
    return found


def save_states(
    task: Task,
    saved: Snapshot,
    policies: Sequence[Policy],
    settings: SearchSettings,
    rng: np.random.Generator,
    progress: Callable[[float], Any] | None = None,
) -> NDArray[np.int64]:
    """Return for each saved state the steps, at most the horizon, that the best try kept it alive."""
    count = len(next(iter(saved.values())))
    best = np.zeros(count, dtype=np.int64)
    solved = np.zeros(count, dtype=bool)
    everyone = np.arange(count)
    knots = _random_knots(task, count, settings, rng)
    if policies:
        _note(best, task, saved, _policy_tries(everyone, knots, len(policies)), policies, settings.horizon, solved)
    left = np.flatnonzero(~solved)
    knots = knots[left]
    for turn in range(settings.rounds):
        if not len(left):
            break
        lived = _note(best, task, saved, _sequence_tries(left, knots), (), settings.horizon, solved)
        open_rows = ~solved[left]
        left = left[open_rows]
        knots = _refined_knots(task, knots[open_rows], lived.reshape(knots.shape[:2])[open_rows], rng)
        if progress is not None:
            progress((turn + 1) / settings.rounds)
    return best


def _note(
    best: NDArray[np.int64],
    task: Task,
    saved: Snapshot,
    tries: Tries,
    policies: Sequence[Policy],
    horizon: int,
    solved: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Make the tries, and keep the longest life of each state."""
    answer = lives(task, saved, tries, policies, horizon, solved)
    np.maximum.at(best, tries.owners, answer)
    return answer


def _policy_tries(states: NDArray[np.int64], knots: NDArray[np.float32], count: int) -> Tries:
    owners = np.repeat(states, count)
    blank = np.zeros((len(owners), *knots.shape[2:]), dtype=np.float32)
    return Tries(owners, blank, np.tile(np.arange(count), len(states)))


def _sequence_tries(states: NDArray[np.int64], knots: NDArray[np.float32]) -> Tries:
    owners = np.repeat(states, knots.shape[1])
    return Tries(owners, knots.reshape(-1, *knots.shape[2:]), np.full(len(owners), -1))


def _random_knots(task: Task, states: int, settings: SearchSettings, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw sequences: nothing, constants, and random ones; ``(states, tries, knots, actions)``."""
    space = task.action_space
    number = max(2, -(-settings.horizon // settings.knot_steps) + 1)
    knots = rng.uniform(space.low, space.high, (states, settings.tries, number, *space.shape))
    constants = settings.tries // 3
    knots[:, :constants] = knots[:, :constants, :1]
    knots[:, 0] = 0.0
    return knots.astype(np.float32)


def _refined_knots(
    task: Task, knots: NDArray[np.float32], lived: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Draw sequences around the quarter that lived longest, and keep the best (cross-entropy method)."""
    elite = max(2, knots.shape[1] // 4)
    order = np.argsort(-lived, axis=1, kind="stable")[:, :elite]
    chosen = np.take_along_axis(knots, order[:, :, np.newaxis, np.newaxis], axis=1)
    mean, spread = chosen.mean(axis=1, keepdims=True), chosen.std(axis=1, keepdims=True)
    width = np.asarray(task.action_space.high - task.action_space.low)
    drawn = mean + (spread + 0.02 * width) * rng.standard_normal(knots.shape)
    drawn[:, 0] = chosen[:, 0]
    return np.asarray(np.clip(drawn, task.action_space.low, task.action_space.high), dtype=np.float32)


def _result(
    stiffness: float, exploration: Exploration, visited: Snapshot, best: NDArray[np.int64], settings: SearchSettings
) -> Narrowness:
    return Narrowness(
        stiffness=stiffness,
        survival=exploration.survival,
        lengths=exploration.lengths,
        alive_share=exploration.alive_share,
        visited=visited,
        visited_lives=best[: settings.states],
        start_lives=best[settings.states :],
        horizon=settings.horizon,
        given_up=settings.given_up,
    )


def kernel_epsilon(task: Task, found: Sequence[Narrowness], points: int = 15) -> list[float] | None:
    """Return ε at each stiffness, with viability of the same visited states verified by the kernel.

    None where the task is not the cart-pole, or its horizon is no whole number of the kernel's stages.
    """
    if not isinstance(task, CartTask) or not isinstance(task.backend.model, CartPoleModel):
        return None
    rate, stage = 1.0 / task.policy_step, KernelSettings().stage
    if any(item.horizon % stage for item in found):
        return None
    shares = []
    for item in found:
        plant = CartPlant(
            natural_frequency=float(np.sqrt(item.stiffness / task.backend.model.cart_mass)),
            model=task.backend.model,
            damping_ratio=task.adc_config.damping_ratio,
            command_limit=task.settings.command_limit,
            position_limit=task.settings.position_limit,
            angle_limit=task.settings.angle_limit,
        )
        settings = KernelSettings(horizon=item.horizon / rate, command_rate=rate, points=points)
        viable = cartpole_kernel(plant, settings).verified(item.visited["state"])
        shares.append(item.alive_share * float(viable.mean()))
    return shares
