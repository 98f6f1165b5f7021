"""Reaching a task: on an env, or on children that are reached one by one."""

from __future__ import annotations

from typing import Any

from .backend_access import ChildPorts, own_task
from .errors import CurriculumError

__all__ = ["ChildTasks", "find_task"]

_ENVS = "envs"


class ChildTasks:
    """The tasks of envs that are reached one by one, such as those in worker processes, as one.

    Args:
        backend: The children; every one has a task that may keep a state.
    """

    def __init__(self, backend: ChildPorts) -> None:
        self._backend = backend

    @property
    def training(self) -> bool:
        """Whether what eases in training goes on easing, in every child."""
        return all(self._backend.call_children("adc_task_training"))

    @training.setter
    def training(self, training: bool) -> None:
        self._backend.call_children("adc_train_task", training)

    def state_dict(self) -> dict[str, Any]:
        """Return what training has changed in each child's task, as JSON-ready values."""
        return {_ENVS: self._backend.call_children("adc_task_state")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        states = state.get(_ENVS)
        if not isinstance(states, list) or len(states) != self._backend.num_envs:
            raise CurriculumError(
                f"task state: expected a list of {self._backend.num_envs} under {_ENVS!r}, one for each env, got "
                f"{states!r}. Load it into as many envs as it was saved with."
            )
        self._backend.load_task_states(states)


def find_task(env: Any, backend: Any) -> Any:
    """Return the task of an env of this library, or of its children; None for an env that has none.

    Args:
        env: The env, wrapped or not.
        backend: The backend that the env's curriculum writes to.

    Returns:
        An object with ``training``, ``state_dict()`` and ``load_state_dict()``.
    """
    if isinstance(backend, ChildPorts):
        return ChildTasks(backend) if backend.has_tasks else None
    return own_task(env)
