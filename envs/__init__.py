"""Tasks: what is observed, rewarded, terminated, called success."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import TASKS, TaskSpec, find_task, make_env
from .task import Task
from .task_env import TaskEnv, TaskVectorEnv

if TYPE_CHECKING:
    from .deployment import Deployment, ObservationPart

__all__ = [
    "TASKS",
    "Deployment",
    "ObservationPart",
    "Task",
    "TaskEnv",
    "TaskSpec",
    "TaskVectorEnv",
    "find_task",
    "make_env",
]


def __getattr__(name: str) -> Any:
    if name not in ("Deployment", "ObservationPart"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # imported when it is asked for: with it come limiter, guard and Spot's table, which not every command needs
    from . import deployment

    return getattr(deployment, name)
