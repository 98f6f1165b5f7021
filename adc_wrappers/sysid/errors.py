"""Errors of system identification."""

from __future__ import annotations

__all__ = ["IdentificationError"]


class IdentificationError(ValueError):
    """A result or a state of an identification that cannot be used, or is of another one."""
