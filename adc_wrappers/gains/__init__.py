"""Gains to choose: step and sine responses of every joint, what the weight does to it, a suggestion with reasons."""

from __future__ import annotations

from .bench import Bench, JointWeight, open_bench
from .responses import JointResponse, measure_responses
from .suggestion import GainSuggestion, suggest_gains

__all__ = [
    "Bench",
    "GainSuggestion",
    "JointResponse",
    "JointWeight",
    "measure_responses",
    "open_bench",
    "suggest_gains",
]
