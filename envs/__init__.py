"""Tasks: what is observed, rewarded, terminated, called success."""

from .deployment import Deployment, ObservationPart
from .registry import TASKS, TaskSpec, find_task, make_env
from .task import Task
from .task_env import TaskEnv, TaskVectorEnv

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
