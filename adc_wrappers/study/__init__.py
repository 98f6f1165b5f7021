"""Studies: conditions that differ from ADC in one thing, many seeds, statistics, a report."""

from .conditions import CONDITIONS, RULES, Condition, RobotFacts, find_condition, load_condition, select_conditions
from .executors import Executor, LocalExecutor
from .job import Job, JobResult, is_finished, run_job
from .plan import Plan, read_study, run_path

__all__ = [
    "CONDITIONS",
    "RULES",
    "Condition",
    "Executor",
    "Job",
    "JobResult",
    "LocalExecutor",
    "Plan",
    "RobotFacts",
    "find_condition",
    "is_finished",
    "load_condition",
    "read_study",
    "run_job",
    "run_path",
    "select_conditions",
]
