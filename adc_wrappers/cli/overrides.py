"""Options that replace single settings of a config and leave the rest alone."""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass
from typing import Any

from adc_wrappers.core.errors import CurriculumError

__all__ = ["CurriculumOptions", "PpoOptions", "given", "parse_settings"]


@dataclass(frozen=True, kw_only=True)
class CurriculumOptions:
    """The curriculum; what is not given is as the task recommends."""

    start_stiffness: float | None = None
    """K_0, at the beginning."""

    target_stiffness: float | None = None
    """K_*, the identified stiffness."""

    length_min: float | None = None
    """Episode-length EMA at which K begins to fall."""

    length_max: float | None = None
    """Episode-length EMA at which K arrives at the target."""

    ema: float | None = None
    """Weight of one iteration in the moving averages."""

    exponent: float | None = None
    """Shape of the annealing curve."""

    average: str | None = None
    """iteration, or resets: the moving average moves once for all episodes that end in the same step."""

    damping: str | None = None
    """critical: damping follows stiffness; fixed: it is fixed_damping."""

    damping_ratio: float | None = None
    """1 is critical damping."""

    fixed_damping: float | None = None
    """B of damping=fixed."""

    driver: str | None = None
    """episode_length, time, fixed, uniform or success."""

    monotone: bool | None = None
    """Never return to stiffer joints."""

    hold_share: float | None = None
    """Last share of training held at the target."""

    fixed_progress: float | None = None
    """Progress of the driver 'fixed': 0 is the start stiffness, 1 the target."""


@dataclass(frozen=True, kw_only=True)
class PpoOptions:
    """The algorithm; what is not given is the task's preset."""

    n_steps: int | None = None
    """Policy steps per env in one iteration."""

    batch_size: int | None = None
    """Samples in a minibatch."""

    n_epochs: int | None = None
    """Passes over an iteration's samples."""

    gamma: float | None = None
    """Discount factor."""

    gae_lambda: float | None = None
    """λ of the advantage estimate."""

    learning_rate: float | None = None
    """Where the learning rate begins."""

    target_kl: float | None = None
    """KL divergence per update that the learning rate aims at."""

    max_learning_rate: float | None = None
    """Upper bound of the learning rate."""

    clip_range: float | None = None
    """Ratio clip."""

    entropy_coef: float | None = None
    """Entropy loss scale."""

    value_coef: float | None = None
    """Value loss scale."""

    max_grad_norm: float | None = None
    """Gradient norm clip."""

    initial_std: float | None = None
    """Initial standard deviation of the policy."""

    hidden: tuple[int, ...] | None = None
    """Hidden layers."""

    clip_value: bool | None = None
    """Clip the value loss too."""

    reward_scale: float | None = None
    """Factor on the reward that the algorithm sees."""

    min_std: float | None = None
    """Lower bound of the policy's standard deviation."""

    sideways_std: float | None = None
    """Initial standard deviation of the antisymmetric half of a mirrored policy."""

    mirrored: bool | None = None
    """Use the task's left-right symmetry."""

    equivariant: bool | None = None
    """Make mirrored networks of layers that are symmetric themselves."""

    scale_observations: bool | None = None
    """Multiply observations by the task's fixed scales."""

    final_target_kl: float | None = None
    """Where the target KL goes over the training."""

    final_entropy_coef: float | None = None
    """Where the entropy loss scale goes over the training."""

    output_gain: float | None = None
    """Factor on the initial weights of the policy's last layer."""


def given(options: Any) -> dict[str, Any]:
    """Return the options that were given."""
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {name: value for name, value in values.items() if value is not None}


def parse_settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Turn ``name=value`` words into task settings.

    >>> parse_settings(("start_angle=0.1", "time_limit=200"))
    {'start_angle': 0.1, 'time_limit': 200}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name:
            raise CurriculumError(f"--set expects name=value, got {pair!r}.")
        try:
            settings[name.replace("-", "_")] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            settings[name.replace("-", "_")] = text
    return settings
