"""A live env as an export reads it: gains, joints, rates, and whether anything stands in between."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.actuators import to_numpy
from adc_wrappers.core.controller import CurriculumController
from adc_wrappers.core.errors import BackendError
from adc_wrappers.core.wrapper_methods import find_curriculum, layers
from adc_wrappers.envs.deployment import Deployment
from adc_wrappers.envs.fit import find_task_of, translates

from .metadata import ExportError

__all__ = ["find_controller", "find_deployment", "read_target_gains"]

_TOLERANCE = 1e-4
"""Relative difference that a backend's own precision may make; as the curriculum's own comparison."""


def find_controller(env: Any) -> CurriculumController:
    """Return the controller of the curriculum inside ``env``."""
    missing = ExportError(
        f"{type(env).__name__} has no curriculum inside, so its target gains are not known. Wrap the env with "
        "ActuatorCurriculumWrapper(env, config, training=False), which pins them, and export with that."
    )
    return find_curriculum(env, missing).adc


def read_target_gains(controller: CurriculumController) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read the live gains from the backend and return stiffness and damping per joint, if they are the target's.

    Raises:
        ExportError: A joint of some env has other gains than the curriculum's target.
    """
    target = controller.curriculum.target_stiffness
    expected = {"stiffness": target, "damping": controller.damping(target)}
    live = controller.backend.gains()
    for name, wanted in expected.items():
        found = to_numpy(getattr(live, name))
        wrong = np.argwhere(~(np.abs(found - wanted) <= _TOLERANCE * wanted))  # NaN is wrong too
        if len(wrong):
            env, joint = wrong[0]
            raise ExportError(
                f"the live gains are not the target's: joint {controller.backend.joint_names[joint]!r} of env {env} "
                f"has {name} {found[env, joint]:g}, and the curriculum's target is {wanted[joint]:g}. A policy file "
                "promises the target gains. Export inside `with env.evaluation():`, or with an env that was wrapped "
                "with training=False, and evaluate the policy there first."
            )
    return to_numpy(live.stiffness)[0], to_numpy(live.damping)[0]


def find_deployment(env: Any) -> Deployment:
    """Return what the task inside ``env`` says about running its policies, if the policy sees the task as it is.

    Raises:
        ExportError: There is no task of this library inside, or a wrapper changes observations or actions.
    """
    for layer in layers(env):
        if translates(layer):
            raise ExportError(
                f"{type(layer).__name__} changes what the policy sees or does, and a policy file has only the network. "
                "Put that change into the module and export with an env without the wrapper, or say with deployment= "
                "what the module's numbers are."
            )
    try:
        task = find_task_of(env)
    except BackendError as error:
        raise ExportError(f"{error} Pass deployment= (adc_wrappers.envs.Deployment).") from error
    found: Deployment = task.deployment()
    return found
