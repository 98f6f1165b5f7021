"""Settings of the two-legged stances: what may be changed in a preset, and what a fall costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adc_wrappers.backends.base import MAX_COMMAND_DELAY
from adc_wrappers.backends.limiter import LIMITERS, CommandLimits
from adc_wrappers.core import CurriculumConfig
from adc_wrappers.core.errors import CurriculumError, did_you_mean

from .easing import FallCost
from .presets import LINEAR_VELOCITIES, LinearVelocity, SpotPreset, find_preset
from .randomization import KINDS, PAPER_KINDS
from .rewards import REWARD_TERMS

__all__ = ["SUCCESS_SECONDS", "FallCost", "SpotSettings"]


SUCCESS_SECONDS = 2.0
"""How long an episode must end in the stance to count as a success."""

MOST_MOMENTS = 20
"""How many moments may be observed."""


@dataclass(frozen=True, kw_only=True)
class SpotSettings:
    """Settings of Spot's stances; None takes the preset's number."""

    preset: str = "paper"
    """``"paper"``, ``"authors"``, ``"cpu"``, ``"stepping"`` (the CPU recipe) or ``"robot"``: rewards, actions, contacts
    that end an episode; the last also a command limiter, and sensors and delays as a robot has them."""

    randomize: bool | str | Sequence[str] = True
    """True or False for all of the preset's domain randomization, or names of what is randomized: ``friction``,
    ``mass``, ``gains``, ``joint_friction`` (once), ``pose``, ``velocity``, ``joints``, ``delay``, ``latency`` (at
    reset), ``noise`` (at every step), ``push`` (every 2 to 5 s)."""

    limiter: bool | str | Mapping[str, Any] | None = None
    """The command limiter between targets and joints: a name of :data:`adc_wrappers.backends.limiter.LIMITERS`, numbers
    that replace those of ``robot``, or False for none."""

    linear_velocity: LinearVelocity | None = None
    """How the base's linear velocity is observed: ``"measured"``, ``"estimated"`` (its noise lags and drifts, as a
    robot's estimate does) or ``"none"``: it is left out of the observation."""

    moments: int | None = None
    """How many moments a policy sees: the present, and those before it, one policy step apart."""

    state_latency: tuple[float, float] = (0.0, 0.02)
    """Least and largest age of what is observed, s, of the randomization ``latency``; at most a policy step."""

    command_latency: tuple[float, float] = (0.0, 0.02)
    """Least and largest time that targets are on their way, s, of the randomization ``latency``."""

    eases_in: bool | None = None
    """Whether noise, latency, command limits and costs of rough motion grow in training, from nothing to all of it,
    while most robots are in the stance; an evaluation has all of them."""

    speed_stop: bool | None = None
    """Whether a joint that is nearly too fast for a robot's guard ends an episode of training, as a fall does; the
    limit is wider at first where ``eases_in`` says so. An evaluation goes on: :class:`~adc_wrappers.envs.GuardWrapper`
    and ``adc audit`` say what a guard makes of it."""

    action_scale: float | None = None
    """α, rad."""

    action_limit: float | None = None
    """Actions are clipped to ± this."""

    scale_by_dt: bool | None = None
    """Multiply reward terms by the policy step."""

    fall_cost: float | None = None
    """What a fall costs, once, after all scaling; by default 500 times the policy step."""

    late_fall_cost: float | None = None
    """What a fall costs once the stance is found, see :class:`~.easing.FallCost`; by default the preset's."""

    weights: Mapping[str, float] | None = None
    """Reward weights that replace the preset's, or join them: any of :data:`~.rewards.REWARD_TERMS`."""

    time_limit: int = 1000
    """Policy steps in an episode (20 s)."""

    physics_step: float = 0.002
    """Seconds between two evaluations of the PD law."""

    decimation: int = 10
    """Physics steps in one policy step."""

    model: str | None = None
    """A URDF or MJCF of your own for Spot, with the same joint and link names; by default the generated one."""

    def __post_init__(self) -> None:
        find_preset(self.preset)
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
            if name not in REWARD_TERMS:
                raise CurriculumError(f"unknown reward term {name!r}. {did_you_mean(name, REWARD_TERMS)}")
        kinds = self.randomized()
        for kind in kinds:
            if kind not in KINDS:
                raise CurriculumError(f"unknown randomization {kind!r}. {did_you_mean(kind, KINDS)}")
        if {"delay", "latency"} <= set(kinds):
            raise CurriculumError("spot randomize: 'latency' delays commands already: leave 'delay' out.")
        if self.linear_velocity not in (None, *LINEAR_VELOCITIES):
            known = did_you_mean(str(self.linear_velocity), LINEAR_VELOCITIES)
            raise CurriculumError(f"unknown linear_velocity {self.linear_velocity!r}. {known}")
        if self.moments is not None and not 1 <= self.moments <= MOST_MOMENTS:
            raise CurriculumError(f"spot moments: expected 1 to {MOST_MOMENTS}, got {self.moments}.")
        self._check_latencies("latency" in kinds)
        self.command_limits()

    def _check_latencies(self, drawn: bool) -> None:
        """Refuse ranges that are none, and those too long for the physics step where they are drawn from."""
        step = self.physics_step * self.decimation
        longest = {"state_latency": step, "command_latency": MAX_COMMAND_DELAY * self.physics_step}
        for name, most in longest.items():
            low, high = getattr(self, name)
            if not 0.0 <= low <= high or (drawn and high > most + 1e-9):
                raise CurriculumError(
                    f"spot {name}: expected least and largest seconds within 0 and {most:g}, got {low}, {high}."
                )

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

    def command_limits(self) -> CommandLimits | None:
        """Return the numbers of the command limiter; None without one."""
        chosen = self.preset_values().limiter if self.limiter is None else self.limiter
        if isinstance(chosen, bool) or chosen is None:
            return LIMITERS["robot"] if chosen else None
        if isinstance(chosen, str):
            if chosen not in LIMITERS:
                raise CurriculumError(f"unknown limiter {chosen!r}. {did_you_mean(chosen, LIMITERS)}")
            return LIMITERS[chosen]
        return CommandLimits.from_dict(chosen)

    def effective_observation(self) -> tuple[bool, int]:
        """Return whether the linear velocity is observed, and how many moments are."""
        moments = self.preset_values().moments if self.moments is None else self.moments
        return self.effective_sensing()[0] != "none", moments

    def effective_sensing(self) -> tuple[LinearVelocity, bool]:
        """Return how the linear velocity is observed, and whether noise and latency grow in training."""
        preset = self.preset_values()
        velocity = preset.linear_velocity if self.linear_velocity is None else self.linear_velocity
        return velocity, preset.eases_in if self.eases_in is None else self.eases_in

    def effective_weights(self, policy_step: float) -> tuple[dict[str, float], FallCost]:
        """Return the weights after scaling by the policy step, and what a fall costs, early and late."""
        preset, factor = self.preset_values(), self._reward_factor(policy_step)
        weights = {name: factor * weight for name, weight in {**preset.weights, **(self.weights or {})}.items()}
        late = preset.late_fall if self.fall_cost is None else None
        early = -weights["fall"] if self.fall_cost is None else self.fall_cost
        eased = early if late is None else -factor * late
        return weights, FallCost(early, eased if self.late_fall_cost is None else self.late_fall_cost)

    def late_weights(self, policy_step: float) -> dict[str, float]:
        """Return what weights come to once the stance is common, scaled; one that was given stays as it is."""
        late, given = self.preset_values().late_weights, self.weights or {}
        return {name: self._reward_factor(policy_step) * weight for name, weight in late.items() if name not in given}

    def _reward_factor(self, policy_step: float) -> float:
        scaled = self.preset_values().scale_by_dt if self.scale_by_dt is None else self.scale_by_dt
        return policy_step if scaled else 1.0

    def randomized(self) -> tuple[str, ...]:
        """Return the names of what is randomized."""
        if isinstance(self.randomize, bool):
            return (*PAPER_KINDS, *self.preset_values().more_kinds) if self.randomize else ()
        return (self.randomize,) if isinstance(self.randomize, str) else tuple(self.randomize)
