"""Limits that an audit holds a policy to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from adc_wrappers.backends.guard import PRACTICE_LIMITS, ROBOT_LIMITS, GuardLimits
from adc_wrappers.core.errors import CurriculumError, did_you_mean

__all__ = ["AUDITS", "AuditLimits", "find_audit"]


@dataclass(frozen=True, kw_only=True)
class AuditLimits:
    """The numbers of a verdict."""

    name: str
    """What they are called."""

    guard: GuardLimits
    """The guard that stands behind the policy."""

    most_hit: float = 1e-3
    """Largest share of steps in which predicted torque or reach may be beyond the guard's limits: a joint that is hit
    moves faster than its target may follow. Range and slew may never be beyond."""

    most_stopped: float = 0.1
    """Largest share of episodes that the guard may stop."""

    least_success: float = 0.8
    """Least success rate."""

    latency: float = 0.02
    """Latency of states, and of commands, at which at least 80 % of the success rate without any is left, s."""


AUDITS: Final = {
    "robot": AuditLimits(name="robot", guard=ROBOT_LIMITS),
    "practice": AuditLimits(name="practice", guard=PRACTICE_LIMITS, latency=0.0),
}
"""Named sets; ``robot`` decides whether a policy is deployed on a real host."""


def find_audit(name: str) -> AuditLimits:
    """Return a set by name."""
    if name not in AUDITS:
        raise CurriculumError(f"unknown limits {name!r}. {did_you_mean(name, AUDITS)}")
    return AUDITS[name]
