"""The task contract: observation, reward, termination and success over a batch of envs; and monitors of episodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core import CurriculumConfig
from adc_wrappers.core.action_term import ActionTerm
from adc_wrappers.core.actuators import ActuatorBackend
from adc_wrappers.core.env_states import EnvState
from adc_wrappers.core.errors import BackendError

from .mirror import Mirror

__all__ = ["EpisodeMonitor", "EpisodeWatcher", "StepOutcome"]


class StepOutcome(Protocol):
    """The outcome of a step as a watcher is told it, each of shape ``(num_envs,)``."""

    @property
    def reward(self) -> NDArray[np.float64]:
        """Reward of the step."""

    @property
    def reward_terms(self) -> Mapping[str, NDArray[np.float64]]:
        """Its weighted terms by name."""

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Which episodes have failed."""

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Which episodes have run out of time."""

    @property
    def success(self) -> NDArray[np.bool_]:
        """Which of the episodes that end here are a success."""

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Whose physics gave a number that is not finite."""


class EpisodeWatcher(Protocol):
    """A watcher that is shown every step of a batch before finished envs are reset; see ``TaskVectorEnv.watchers``."""

    def begin(self, env_ids: NDArray[np.int64]) -> None:
        """Take note that new episodes have begun."""

    def step(self, outcome: StepOutcome) -> None:
        """Take note of a step of all envs; those that end here have not been reset yet."""


class EpisodeMonitor:
    """A monitor of a batch of episodes, which says how a failed one failed.

    This one knows only whether an episode was terminated; a task with more to say has its own
    (``Task.episode_monitor``). Successes and broken physics are told apart before it is asked.
    """

    failures: ClassVar[tuple[str, ...]] = ("terminated", "timed out")
    """Every answer of :meth:`failure`, in the order of reports."""

    def begin(self, env_ids: NDArray[np.int64]) -> None:
        """Forget the envs' last episodes."""

    def step(self) -> None:
        """Look at the state of every env after a step, before anything is reset."""

    def failure(self, env_id: int, *, terminated: bool) -> str:
        """Return how the episode failed that just ended in this env without success."""
        return self.failures[0] if terminated else self.failures[1]

    def numbers(self, env_id: int) -> dict[str, float]:
        """Return what is worth knowing about the episode that just ended in this env; the same names always."""
        return {}


if TYPE_CHECKING:
    from .deployment import Deployment, ObservationPart
    from .lift import Lift

__all__ = ["PrivilegedView", "Snapshot", "Task"]

Snapshot = dict[str, NDArray[np.float64]]
"""Saved envs: arrays by name, each with one row per env."""


@dataclass(frozen=True, eq=False)
class PrivilegedView:
    """A view of the envs that only a simulator has: for a value network, which nobody needs after training."""

    observe: Callable[[], NDArray[np.float32]]
    """Returns the view of every env now, ``(num_envs, size)``."""

    scale: tuple[float, ...]
    """Factors that bring it to like sizes."""

    mirror_index: tuple[int, ...] = ()
    """Where each entry of a mirrored view comes from, if the task has a mirror."""

    mirror_sign: tuple[float, ...] = ()
    """And its sign."""

    parts: tuple[ObservationPart, ...] = ()
    """The parts of an observation that it begins with, as they truly are."""


class Task(ABC):
    """One task over a batch of envs; :class:`TaskEnv` and :class:`TaskVectorEnv` make Gymnasium envs of it."""

    backend: ActuatorBackend
    """The physics, and the gains that a curriculum may change."""

    observation_space: gym.spaces.Box
    """Observation of one env."""

    action_space: gym.spaces.Box
    """Action of one env."""

    time_limit: int
    """Policy steps after which an episode is truncated."""

    policy_step: float
    """Seconds in one policy step."""

    adc_config: CurriculumConfig
    """The curriculum that the task recommends."""

    training: bool = True
    """Whether what eases in training goes on easing; False while a policy is evaluated, by what it eases to."""

    early_termination: bool = True
    """Whether a failed episode ends at once; with False it goes on to its time limit, for an ablation."""

    action_term: ActionTerm | None = None
    """Where ablations of a study act on actions, in a task that makes its joint targets through one."""

    mirror: Mirror | None = None
    """How the task looks in a mirror, if its left and right are alike."""

    observation_scale: tuple[float, ...] | None = None
    """Factors that bring the observations to like sizes, for networks that do not normalize."""

    @abstractmethod
    def begin(self, env_ids: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Begin new episodes in ``env_ids``."""

    @abstractmethod
    def advance(self, actions: NDArray[np.float32]) -> None:
        """Simulate one policy step of every env."""

    @abstractmethod
    def observe(self) -> NDArray[np.float32]:
        """Return the observations, shape ``(num_envs, …)``."""

    @abstractmethod
    def reward_terms(self) -> dict[str, NDArray[np.float64]]:
        """Return the weighted terms of the last step's reward by name, each of shape ``(num_envs,)``."""

    @abstractmethod
    def terminated(self) -> NDArray[np.bool_]:
        """Return which envs have failed."""

    @abstractmethod
    def holds(self) -> NDArray[np.bool_]:
        """Return which envs are in the wanted state now."""

    def progress(self) -> NDArray[np.float64]:
        """Return how far every env is on its way, in [0, 1], apart from reward and survival; for ``info``.

        By default 1 in the wanted state and 0 elsewhere: its mean is the share of steps in that state.
        """
        return self.holds().astype(np.float64)

    @property
    @abstractmethod
    def hold_steps(self) -> int:
        """Policy steps for which an episode must end in the wanted state to count as a success."""

    def success(self, held: NDArray[np.int64], truncated: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the episodes that reach their time limit succeed.

        Args:
            held: Steps for which each env has been in the wanted state without a break.
            truncated: Whose episode ends by its time limit.
        """
        return np.asarray(truncated & (held >= self.hold_steps))

    def describe(self) -> dict[str, NDArray[np.float64]]:
        """Return what is randomized in the running episodes by name, each of shape ``(num_envs,)``; for ``info``."""
        return {}

    def privileged(self) -> PrivilegedView | None:
        """Return what a value network may know of the envs beyond the policy; None, as by default, for nothing."""
        return None

    def incident(self) -> dict[str, Any] | None:
        """Return why a guard has ended the running episode; None while it goes on. For ``info["guard"]``."""
        return None

    def lift(self, other: Deployment) -> Lift | None:
        """Return how a policy of another, smaller task becomes one of this task; None if it cannot."""
        return None

    def deployment(self) -> Deployment:
        """Return what must be known to run a policy of this task somewhere else; a policy file holds it.

        Raises:
            BackendError: The task does not say.
        """
        raise BackendError(
            f"{type(self).__name__} does not say how its policies are run elsewhere. Implement deployment() to export "
            "them, or pass deployment= to export_policy()."
        )

    def snapshot(self, env_ids: NDArray[np.int64]) -> Snapshot:
        """Return all that decides how chosen envs go on under given actions, gains aside."""
        raise BackendError(f"{type(self).__name__} cannot be saved: it has no snapshot() and restore().")

    def restore(self, snapshot: Snapshot, env_ids: NDArray[np.int64]) -> None:
        """Put row i of a snapshot into env ``env_ids[i]``; rows may come from any env and be used many times."""
        raise BackendError(f"{type(self).__name__} cannot be restored: it has no snapshot() and restore().")

    def env_state(self) -> EnvState | None:
        """Return all that decides how the envs go on under given actions, gains and generator, for a checkpoint.

        Unlike :meth:`snapshot` to the last bit, for all envs, and with what is random or under way. None, as by
        default, if that cannot be saved: a resumed run then begins new episodes.
        """
        return None

    def load_env_state(self, state: EnvState, rng: np.random.Generator) -> None:
        """Restore what :meth:`env_state` returned.

        Args:
            state: The state.
            rng: The env's generator, which :meth:`begin` was given last.
        """
        raise BackendError(f"{type(self).__name__} cannot be put into a saved state: it has no load_env_state().")

    @abstractmethod
    def render(self, env_id: int) -> NDArray[np.uint8]:
        """Return a picture of one env."""

    def episode_monitor(self) -> EpisodeMonitor:
        """Return what tells this task's failures apart; by default by termination alone."""
        return EpisodeMonitor()

    def poses(self) -> NDArray[np.float64] | None:
        """Return what a picture of each env shows, ``(num_envs, …)``; None if :meth:`draw_pose` cannot."""
        return None

    def draw_pose(self, pose: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Put the first env into one of :meth:`poses` and return its picture."""
        raise NotImplementedError(f"{type(self).__name__} has poses() but not draw_pose().")

    def state_dict(self) -> dict[str, Any]:
        """Return what training has changed in the task, as JSON-ready values; it goes into the checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""

    def close(self) -> None:
        """Release the physics."""
        close: Any = getattr(self.backend, "close", None)
        if close is not None:
            close()
