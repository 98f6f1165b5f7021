"""Deployment of a policy file on a robot: preflight, trials, recordings and their statistics."""

from .preflight import PreflightItem, PreflightReport, preflight
from .recorder import TrialRecorder
from .running import run_trial
from .trials import ENDINGS, Trial, TrialError, TrialOutcome, find_trials, read_trial, summarize

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
