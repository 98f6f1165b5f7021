"""What can go wrong with a practice robot."""

from __future__ import annotations

from adc_wrappers.core.errors import BackendError

__all__ = ["PracticeRobotError"]


class PracticeRobotError(BackendError):
    """A practice robot that could not be started, was asked for something it cannot do, or has ended."""
