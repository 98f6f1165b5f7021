"""Action terms: where an env turns a policy's actions into joint targets, and what an ablation changes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .backend_access import ChildrenBackend
from .errors import CurriculumError

__all__ = ["ActionTerm", "ChildActionTerms", "find_action_term"]


class ActionTerm:
    """A factor and noise between a policy's actions and the joint targets of an env.

    The env keeps the policy's own action for the next observation and for what a change of actions costs; only its
    joint targets are made of what this returns, ``factor · clip(action + noise)``. Without either it is the action.

    Args:
        num_envs: Number of envs.
        joint_names: The joint that each number of an action moves, in the order of the action.
    """

    def __init__(self, num_envs: int, joint_names: Sequence[str]) -> None:
        self.joint_names = tuple(joint_names)
        self._num_envs = num_envs
        self._factor: Any = None
        self._noise: Any = None

    def set_factor(self, factor: NDArray[np.float64] | None) -> None:
        """Multiply actions by this from now on, ``(num_envs, actions)``; None leaves them as they are."""
        self._factor = None if factor is None else self._checked("factor", factor)

    def set_noise(self, noise: Any) -> None:
        """Add this to the actions of the next step, and of that step only."""
        self._noise = None if noise is None else self._checked("noise", noise)

    def _checked(self, name: str, values: Any) -> Any:
        expected = (self._num_envs, len(self.joint_names))
        if tuple(np.shape(values)) != expected:
            raise CurriculumError(
                f"action {name}: expected shape {expected} (envs, actions), got {tuple(np.shape(values))}."
            )
        return values

    def __call__(self, actions: Any, limit: float) -> Any:
        """Return what the joint targets are made of; asking twice gives the same.

        Args:
            actions: The policy's actions, clipped, as an array or tensor of shape ``(num_envs, actions)``.
            limit: Largest action.
        """
        if self._noise is not None:
            actions = (actions + _beside(self._noise, actions)).clip(-limit, limit)
        if self._factor is not None:
            self._factor = _beside(self._factor, actions)
            actions = actions * self._factor
        return actions

    def end_step(self) -> None:
        """Forget the noise of the step that was made."""
        self._noise = None


def _beside(values: Any, like: Any) -> Any:
    """Return numbers as what ``like`` is: a tensor on its device, or an array."""
    if not hasattr(like, "new_tensor") or hasattr(values, "new_tensor"):
        return values
    return like.new_tensor(values)


class ChildActionTerms:
    """The action terms of envs that are reached one by one, such as those in worker processes.

    Args:
        backend: The children; every one has an action term.
    """

    def __init__(self, backend: ChildrenBackend) -> None:
        if backend.action_joints is None:
            raise CurriculumError("the child envs have no action term.")
        self.joint_names = backend.action_joints
        self._backend = backend
        self._sent: NDArray[np.float64] | None = None

    def set_factor(self, factor: NDArray[np.float64] | None) -> None:
        """Send every child its row where any has changed."""
        same = factor is self._sent or (
            factor is not None and self._sent is not None and np.array_equal(factor, self._sent)
        )
        if not same:
            self._backend.send_actions("factor", factor)
            self._sent = None if factor is None else factor.copy()

    def set_noise(self, noise: Any) -> None:
        """Send every child its row."""
        self._backend.send_actions("noise", noise)


def find_action_term(env: Any, backend: Any) -> ActionTerm | ChildActionTerms | None:
    """Return the action term of an env of this library, or of its children; None for an env that has none.

    Args:
        env: The env, wrapped or not.
        backend: The backend that the env's curriculum writes to.
    """
    if isinstance(backend, ChildrenBackend):
        return None if backend.action_joints is None else ChildActionTerms(backend)
    term = getattr(getattr(env, "unwrapped", env), "action_term", None)
    return term if isinstance(term, ActionTerm) else None
