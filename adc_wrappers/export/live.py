"""What an export reads from a live env: gains, joints, rates, and whether anything stands in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorActionWrapper, VectorObservationWrapper
from numpy.typing import NDArray

from adc_wrappers.core import ActionScaleCoupling
from adc_wrappers.core.actuators import to_numpy
from adc_wrappers.core.controller import CurriculumController
from adc_wrappers.envs.deployment import Deployment

from .errors import ExportError

__all__ = ["find_controller", "find_deployment", "read_target_gains"]

_TOLERANCE = 1e-4
"""Relative difference that a backend's own precision may make; as the curriculum's own comparison."""

_TRANSLATORS = (gym.ObservationWrapper, gym.ActionWrapper, VectorObservationWrapper, VectorActionWrapper)
_TRANSLATOR_NAMES = ("VecNormalize", "VecFrameStack", "NormalizeObservation", "FrameStackObservation")


def _layers(env: Any) -> Iterator[Any]:
    """Yield an env and everything that it is wrapped around, outermost first."""
    layer = env
    while layer is not None:
        yield layer
        inner = vars(layer)
        layer = inner.get("venv") or inner.get("env")


def find_controller(env: Any) -> CurriculumController:
    """Return the controller of the curriculum inside ``env``."""
    for layer in _layers(env):
        controller = vars(layer).get("adc")
        if isinstance(controller, CurriculumController):
            return controller
    raise ExportError(
        f"{type(env).__name__} has no curriculum inside, so its target gains are not known. Wrap the env with "
        "ActuatorCurriculumWrapper(env, config, training=False), which pins them, and export with that."
    )


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
    for layer in _layers(env):
        if _translates(layer):
            raise ExportError(
                f"{type(layer).__name__} changes what the policy sees or does, and a policy file has only the network. "
                "Put that change into the module and export with an env without the wrapper, or say with deployment= "
                "what the module's numbers are."
            )
    *_, base = _layers(env)
    children = vars(base).get("envs")
    task = getattr(getattr(children[0], "unwrapped", None) if children else base, "task", None)
    if task is None:
        raise ExportError(
            f"{type(base).__name__} is no task of this library, so joints, pose, scale and rates are not known. Pass "
            "deployment= (adc_wrappers.envs.Deployment)."
        )
    found: Deployment = task.deployment()
    return found


def _translates(layer: Any) -> bool:
    if isinstance(layer, ActionScaleCoupling):  # does nothing at the target gains
        return False
    return isinstance(layer, _TRANSLATORS) or type(layer).__name__ in _TRANSLATOR_NAMES
