"""Envs as the robot was identified: the gains of an env that no curriculum has touched."""

from __future__ import annotations

from typing import Any

import numpy as np

from adc_wrappers.core import ActuatorCurriculum, CurriculumConfig

__all__ = ["stand_as_identified"]


def stand_as_identified(backend: Any, config: CurriculumConfig) -> None:
    """Write the target gains of a task's curriculum to every env; a curriculum's wrapper stiffens them afterwards.

    A backend with ``fixed_gains`` is left alone: a robot is what was identified, at the gains that it is commanded.

    Args:
        backend: The actuators.
        config: The curriculum that the task recommends; its target is the identified stiffness.
    """
    if getattr(backend, "fixed_gains", False):
        return
    target = ActuatorCurriculum(config, backend.joint_names).target_stiffness
    stiffness = np.tile(target, (backend.num_envs, 1))
    damping = config.damping_at(stiffness, backend.effective_inertia(), backend.joint_names)
    backend.set_gains(stiffness, damping)
