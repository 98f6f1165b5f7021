"""Tasks: what is observed, rewarded, terminated, called success."""

from .registry import TASKS, TaskSpec, find_task, make_env
from .task import Task
from .task_env import TaskEnv, TaskVectorEnv

__all__ = ["TASKS", "Task", "TaskEnv", "TaskSpec", "TaskVectorEnv", "find_task", "make_env"]
