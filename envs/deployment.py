"""The deployment of a task's policy somewhere else, what must be known for it: joints, targets, rates, observation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from adc_wrappers.backends.limiter import CommandLimits
from adc_wrappers.core.errors import CurriculumError

__all__ = ["Deployment", "ObservationPart"]

_BEFORE = "_before_"


@dataclass(frozen=True, kw_only=True)
class ObservationPart:
    """Neighbouring numbers of an observation that belong together."""

    name: str
    """What they are called."""

    size: int
    """How many there are."""

    unit: str = ""
    """Their unit; empty for pure numbers."""

    meaning: str = ""
    """What they are, in a sentence."""

    def __post_init__(self) -> None:
        if not self.name or self.size < 1:
            raise CurriculumError(f"observation part: expected a name and a size of at least 1, got {self}.")

    def before(self, steps: int) -> ObservationPart:
        """Return the same numbers as they were some policy steps before.

        >>> ObservationPart(name="joint_velocity", size=12).before(2).name
        'joint_velocity_before_2'
        """
        when = f"{steps} policy step{'s' if steps > 1 else ''} before"
        return replace(self, name=f"{self.name}{_BEFORE}{steps}", meaning=f"{self.meaning}; {when}".lstrip("; "))

    @property
    def now(self) -> str:
        """What the same numbers are called in the present."""
        return self.name.partition(_BEFORE)[0]


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """The way from actions to joint targets, and what a policy is shown and how often.

    Joint targets are ``q_0 + α clip(a, −limit, limit)``, held for one policy step under the law
    ``τ = K (q_d − q) − B q̇``, which is evaluated every physics step. There is one action per joint, in joint order.
    With a command limiter, what it makes of them takes their place.
    """

    joint_names: tuple[str, ...]
    """Joints in the order of actions, targets and gains."""

    nominal_pose: tuple[float, ...]
    """q_0 per joint, rad (m for a sliding joint)."""

    action_scale: tuple[float, ...]
    """α per joint, rad (m)."""

    action_limit: float
    """Actions are clipped to ± this."""

    policy_step: float
    """Seconds between two actions."""

    physics_step: float
    """Seconds between two evaluations of the PD law in simulation."""

    observation: tuple[ObservationPart, ...]
    """What the policy sees, in order, unscaled."""

    limiter: CommandLimits | None = None
    """What stands between the targets and the PD law, in training and wherever the policy runs; None: nothing does."""

    def __post_init__(self) -> None:
        joints = len(self.joint_names)
        if not joints or len(set(self.joint_names)) != joints:
            raise CurriculumError(f"joint_names: expected names, each once, got {self.joint_names}.")
        check_per_joint("nominal_pose", self.nominal_pose, joints)
        check_per_joint("action_scale", self.action_scale, joints, positive=True)
        for name in ("action_limit", "policy_step", "physics_step"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise CurriculumError(f"{name}: expected a positive number, got {value}.")
        if not self.observation:
            raise CurriculumError("observation: expected at least one part, got none.")

    @property
    def observation_size(self) -> int:
        """Numbers in one observation."""
        return sum(part.size for part in self.observation)

    @property
    def policy_rate(self) -> float:
        """Actions per second, Hz."""
        return 1.0 / self.policy_step


def check_per_joint(name: str, values: Sequence[float], joints: int, *, positive: bool = False) -> None:
    """Refuse what is not one finite number per joint."""
    if len(values) != joints:
        raise CurriculumError(f"{name}: expected {joints} numbers, one per joint, got {len(values)}.")
    wrong = [value for value in values if not math.isfinite(value) or (positive and value <= 0.0)]
    if wrong:
        raise CurriculumError(f"{name}: expected {'positive' if positive else 'finite'} numbers, got {wrong[0]}.")
