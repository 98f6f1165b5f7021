"""Settings of the two-legged stances: the presets, what a fall costs, and what may be changed.

Where the paper is silent (target height, the form of a term, scaling by dt) its authors' code decides, except for α:
the paper clips actions to [−1, 1], and with clipped actions the code's α of 0.2 cannot hold a handstand at all (see
``adc feasible``), so it is 0.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adc_wrappers.core import CurriculumConfig
from adc_wrappers.core.errors import CurriculumError, did_you_mean

from .randomization import KINDS

__all__ = ["PRESETS", "SUCCESS_SECONDS", "FallCost", "SpotPreset", "SpotSettings", "find_preset"]


_RATE = 1.0 / 640.0
"""Weight of one policy step in the moving average of the share of robots in the stance."""

_FOUND = 0.3
"""Share of robots in the stance at which the cost has come down."""


class FallCost:
    """Costs ``early`` until the stance is found and eases to ``late`` as the share of robots in it grows.

    While nothing is known a fall must cost more than standing about, or a policy learns to fall at once. Once the
    stance is found the same cost keeps it from daring: it would rather come down on its feet than balance.

    Args:
        early: The cost at first.
        late: The cost once the average share of robots in the stance has reached 30 %.
    """

    def __init__(self, early: float, late: float) -> None:
        self.early = early
        self.late = late
        self.share = 0.0
        """Moving average of the share of robots in the stance."""

    @property
    def eases(self) -> bool:
        """Whether there is anything to take note of."""
        return self.early != self.late

    @property
    def now(self) -> float:
        """The present cost."""
        return self.early + min(self.share / _FOUND, 1.0) * (self.late - self.early)

    def note(self, holds: Any) -> None:
        """Take note of which robots are in the stance after a policy step, as an array or tensor of booleans."""
        self.share += _RATE * (float(holds.sum()) / len(holds) - self.share)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"stance_share": self.share}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        share = state.get("stance_share")
        if not isinstance(share, float) or not 0.0 <= share <= 1.0:
            raise CurriculumError(f"task state: expected stance_share in [0, 1], got {share!r}.")
        self.share = share


@dataclass(frozen=True, kw_only=True)
class SpotPreset:
    """What the paper's tables and the authors' code disagree about."""

    weights: dict[str, float]
    """Weight of each reward term, before scaling by dt; the term ``fall`` is paid once, when an episode terminates."""

    action_scale: float
    """α: joint targets are ``q_0 + α clip(a)``, rad."""

    action_limit: float
    """Actions are clipped to ± this."""

    fall_links: tuple[str, ...]
    """Ends of the names of links that must not touch the ground."""

    angular_axes: tuple[int, ...]
    """Axes of the base's angular velocity that cost."""

    push_axes: tuple[int, ...]
    """World axes along which the robot is pushed."""

    delay: bool
    """Whether randomization delays commands by 0 to 4 physics steps."""

    late_fall: float | None = None
    """Weight that the term ``fall`` eases to once the stance is found, before scaling; None keeps it as it is."""

    scale_by_dt: bool = True
    """Multiply every term, the fall too, by the policy step (0.02 s), as Isaac Lab does. The returns that the paper
    reports (−4.8 over 1000 steps) are of this size. A fall then costs 10, which is less than the discounted cost of
    standing on four feet: raise ``fall_cost`` if the robot learns to fall at once."""


_SHARED = {
    "orientation": -1.0,
    "height": -0.5,
    "lifted_feet_contact": -10.0,
    "linear_velocity": -0.01,
    "angular_velocity": -0.05,
    "torque": -5e-4,
    "action_rate": -0.01,
    "fall": -500.0,
}

PRESETS: dict[str, SpotPreset] = {
    "paper": SpotPreset(
        weights=_SHARED,
        action_scale=0.9,
        action_limit=1.0,
        fall_links=("body", "uleg"),
        angular_axes=(0, 1, 2),
        push_axes=(0, 1),
        delay=False,
    ),
    "authors": SpotPreset(
        weights={
            **_SHARED,
            "support_feet_in_air": -0.1,
            "foot_slip": -0.5,
            "joint_acceleration": -1e-4,
            "joint_velocity": -1e-2,
        },
        action_scale=0.2,
        action_limit=100.0,  # 20 rad: no limit in effect, but a bounded space, which Stable-Baselines3 demands
        fall_links=("body", "uleg", "lleg"),
        angular_axes=(0, 2),
        push_axes=(1, 2),
        delay=True,
    ),
    "cpu": SpotPreset(
        weights={
            **_SHARED,
            "orientation": -5.0,
            "lifted_feet_contact": -5.0,
            "angular_velocity": -0.02,
            "stance": 2.0,
            "fall": -1250.0,
        },
        late_fall=-500.0,
        action_scale=1.2,
        action_limit=1.0,
        fall_links=("body", "hip", "uleg"),  # as its policies were trained; the paper names no hips
        angular_axes=(0, 1, 2),
        push_axes=(0, 1),
        delay=False,
    ),
}


def find_preset(name: str) -> SpotPreset:
    """Return a preset by name."""
    if name not in PRESETS:
        raise CurriculumError(f"unknown preset {name!r}. {did_you_mean(name, PRESETS)}")
    return PRESETS[name]


SUCCESS_SECONDS = 2.0
"""How long an episode must end in the stance to count as a success."""


@dataclass(frozen=True, kw_only=True)
class SpotSettings:
    """Settings of the tasks ``spot-handstand`` and ``spot-hindstand``; None takes the preset's number."""

    preset: str = "paper"
    """``"paper"``, ``"authors"`` or ``"cpu"`` (the CPU recipe): rewards, actions, contacts that end an episode."""

    randomize: bool | str | Sequence[str] = True
    """True or False for all of the paper's domain randomization, or names of what is randomized: ``friction``,
    ``mass`` (once), ``pose``, ``velocity``, ``joints``, ``delay`` (at reset), ``push`` (every 2 to 5 s)."""

    action_scale: float | None = None
    """α, rad."""

    action_limit: float | None = None
    """Actions are clipped to ± this."""

    scale_by_dt: bool | None = None
    """Multiply reward terms by the policy step."""

    fall_cost: float | None = None
    """What a fall costs, once, after all scaling; by default 500 times the policy step."""

    late_fall_cost: float | None = None
    """What a fall costs once the stance is found, see :class:`~.fall_cost.FallCost`; by default the preset's."""

    weights: Mapping[str, float] | None = None
    """Reward weights that replace the preset's."""

    time_limit: int = 1000
    """Policy steps in an episode (20 s)."""

    physics_step: float = 0.002
    """Seconds between two evaluations of the PD law."""

    decimation: int = 10
    """Physics steps in one policy step."""

    model: str | None = None
    """A URDF or MJCF of your own for Spot, with the same joint and link names; by default the generated one."""

    def __post_init__(self) -> None:
        preset = find_preset(self.preset)
        for name in ("action_scale", "action_limit"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise CurriculumError(f"spot {name}: expected a positive number, got {value}.")
        if self.action_scale is not None and not np.isfinite(self.action_scale):
            raise CurriculumError(f"spot action_scale: expected a finite number, got {self.action_scale}.")
        for name in ("fall_cost", "late_fall_cost"):
            cost = getattr(self, name)
            if cost is not None and not (np.isfinite(cost) and cost >= 0):
                raise CurriculumError(f"spot {name}: expected a number that is not negative, got {cost}.")
        if self.time_limit < 1:
            raise CurriculumError(f"spot time_limit: expected at least 1, got {self.time_limit}.")
        for name, weight in (self.weights or {}).items():
            if not np.isfinite(weight):
                raise CurriculumError(f"spot weights: expected finite numbers, got {weight} for {name!r}.")
            if name not in preset.weights:
                raise CurriculumError(
                    f"unknown reward term {name!r} in preset {self.preset!r}. {did_you_mean(name, preset.weights)}"
                )
        for kind in self.randomized():
            if kind not in KINDS:
                raise CurriculumError(f"unknown randomization {kind!r}. {did_you_mean(kind, KINDS)}")

    def recommended_curriculum(self) -> CurriculumConfig:
        """Return the paper's curriculum for episodes of this length."""
        return CurriculumConfig(length_max=float(self.time_limit))

    @property
    def episode_seconds(self) -> float:
        """Length of an episode for simulators that divide it by the policy step and round up.

        Half a step less than it lasts: a quotient that should be 1000 may come out just above it, and one step more
        would be taken.
        """
        return (self.time_limit - 0.5) * self.physics_step * self.decimation

    def preset_values(self) -> SpotPreset:
        """Return the preset that the settings start from."""
        return find_preset(self.preset)

    def effective_actions(self) -> tuple[float, float]:
        """Return α and the limit of actions."""
        preset = self.preset_values()
        scale = preset.action_scale if self.action_scale is None else self.action_scale
        return scale, preset.action_limit if self.action_limit is None else self.action_limit

    def effective_weights(self, policy_step: float) -> tuple[dict[str, float], FallCost]:
        """Return the weights after scaling by the policy step, and what a fall costs, early and late."""
        preset = self.preset_values()
        scaled = preset.scale_by_dt if self.scale_by_dt is None else self.scale_by_dt
        factor = policy_step if scaled else 1.0
        weights = {name: factor * weight for name, weight in {**preset.weights, **(self.weights or {})}.items()}
        late = preset.late_fall if self.fall_cost is None else None
        early = -weights["fall"] if self.fall_cost is None else self.fall_cost
        eased = early if late is None else -factor * late
        return weights, FallCost(early, eased if self.late_fall_cost is None else self.late_fall_cost)

    def randomized(self) -> tuple[str, ...]:
        """Return the names of what is randomized."""
        if isinstance(self.randomize, bool):
            chosen = KINDS if self.randomize else ()
            return tuple(kind for kind in chosen if kind != "delay" or find_preset(self.preset).delay)
        return (self.randomize,) if isinstance(self.randomize, str) else tuple(self.randomize)
