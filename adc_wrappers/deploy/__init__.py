"""Running a policy file on a robot: preflight, trials, recordings and their statistics."""

from .outcomes import ENDINGS, TrialOutcome
from .preflight import PreflightItem, PreflightReport, preflight
from .recorder import TrialRecorder
from .running import run_trial
from .trials import Trial, TrialError, find_trials, read_trial, summarize

__all__ = [
    "ENDINGS",
    "PreflightItem",
    "PreflightReport",
    "Trial",
    "TrialError",
    "TrialOutcome",
    "TrialRecorder",
    "find_trials",
    "preflight",
    "read_trial",
    "run_trial",
    "summarize",
]
