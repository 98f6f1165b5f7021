"""What a condition may ask for that depends on the robot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core import CurriculumError
from adc_wrappers.envs.registry import find_task, make_env
from adc_wrappers.training import TrainConfig

__all__ = ["RULES", "RobotFacts"]


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotFacts:
    """What rules may need to know of the robot."""

    joint_names: tuple[str, ...]
    """Its joints."""

    inertia: NDArray[np.float64]
    """Effective inertia per joint."""

    action_scale: float
    """α."""

    @classmethod
    def of(cls, config: TrainConfig) -> RobotFacts:
        """Ask the task."""
        env = make_env(config.task, backend=config.backend, num_envs=1, **config.settings)
        try:
            backend = env.task.backend
            return cls(
                joint_names=tuple(backend.joint_names),
                inertia=np.asarray(backend.effective_inertia(), dtype=np.float64),
                action_scale=float(env.task.deployment().action_scale[0]),
            )
        finally:
            env.close()


def _start_stiffness(config: TrainConfig, facts: RobotFacts, value: Any) -> TrainConfig:
    """Start where the curriculum ends: its progress moves, K does not."""
    if value != "target":
        raise CurriculumError(f"rules.start_stiffness: expected 'target', got {value!r}.")
    curriculum = dataclasses.replace(config.curriculum, start_stiffness=config.curriculum.target_stiffness)
    return dataclasses.replace(config, curriculum=curriculum)


def _action_scale(config: TrainConfig, facts: RobotFacts, value: Any) -> TrainConfig:
    """Multiply α by a number, or by K_0/K_*."""
    start, target = config.curriculum.start_stiffness, config.curriculum.target_stiffness
    if value == "K0/K*":
        if not (isinstance(start, float) and isinstance(target, float)):
            raise CurriculumError("rules.action_scale 'K0/K*' needs one K_0 and one K_* for all joints.")
        factor = start / target
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < np.inf:
        factor = float(value)
    else:
        raise CurriculumError(f"rules.action_scale: expected 'K0/K*' or a positive factor, got {value!r}.")
    name = find_task(config.task).action_scale
    return dataclasses.replace(config, settings={**config.settings, name: facts.action_scale * factor})


def _windows(config: TrainConfig, facts: RobotFacts, value: Any) -> TrainConfig:
    """Let joints soften one after another, light ones first."""
    if value != "inertia":
        raise CurriculumError(f"rules.windows: expected 'inertia', got {value!r}.")
    size = np.log(facts.inertia)
    span = float(np.ptp(size))
    if span == 0.0:
        raise CurriculumError("rules.windows 'inertia': all joints have the same effective inertia, so none is first.")
    begin = 0.5 * (size - size.min()) / span
    curriculum = dataclasses.replace(
        config.curriculum,
        progress_begin=dict(zip(facts.joint_names, begin.round(6).tolist(), strict=True)),
        progress_end=dict(zip(facts.joint_names, (0.5 + begin).round(6).tolist(), strict=True)),
    )
    return dataclasses.replace(config, curriculum=curriculum)


RULES: dict[str, Callable[[TrainConfig, RobotFacts, Any], TrainConfig]] = {
    "start_stiffness": _start_stiffness,
    "action_scale": _action_scale,
    "windows": _windows,
}
"""Rules by name; add one here to let condition files ask for it."""
