"""Settings of the two-legged stances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from adc_wrappers.core.errors import CurriculumError, did_you_mean

from .fall_cost import FallCost
from .presets import SpotPreset, find_preset
from .randomization import KINDS

__all__ = ["SUCCESS_SECONDS", "SpotSettings"]

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

    def preset_values(self) -> SpotPreset:
        """Return the preset that the settings start from."""
        return find_preset(self.preset)

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
