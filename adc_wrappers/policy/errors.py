"""Errors of policy files."""

from __future__ import annotations

__all__ = ["PolicyFileError", "PolicyOutputError"]


class PolicyFileError(ValueError):
    """A policy file that is missing, broken, foreign, or does not say what is needed to run it."""


class PolicyOutputError(ValueError):
    """A policy that was given, or gave, numbers that are not finite."""
