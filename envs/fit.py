"""The fit of an env and a policy that was made for one: joints, pose, α, rates, observation, limiter, live gains."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorActionWrapper, VectorObservationWrapper

from adc_wrappers.backends.limiter import CommandLimits
from adc_wrappers.core import ActionScaleCoupling
from adc_wrappers.core.actuators import to_numpy
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.core.wrapper_methods import CurriculumMethods, layers

from .deployment import Deployment, ObservationPart, check_per_joint

__all__ = ["MadeFor", "PolicyEnvError", "check_env", "env_differences", "find_task_of", "translates"]

_NUMBERS = ("nominal_pose", "action_scale", "action_limit", "policy_step")
_NEVER_ASKED = ("joint_names", "observation", "limiter")
"""Differences that no wish makes acceptable."""

_SAME = 1e-6
_SAME_GAINS = 1e-3
"""Relative difference of gains that counts as none: backends store them in single precision, and compute inertias."""

_TRANSLATORS = (gym.ObservationWrapper, gym.ActionWrapper, VectorObservationWrapper, VectorActionWrapper)
_TRANSLATOR_NAMES = ("VecNormalize", "VecFrameStack", "NormalizeObservation", "FrameStackObservation")


class PolicyEnvError(ValueError):
    """A policy that met an env which it was not made for."""


@dataclass(frozen=True, kw_only=True)
class MadeFor:
    """The env that a policy was made for."""

    deployment: Deployment
    """Joints, pose, α, rates, observation."""

    stiffness: tuple[float, ...]
    """K per joint in simulation: the target."""

    damping: tuple[float, ...]
    """B per joint in simulation."""

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            check_per_joint(name, getattr(self, name), len(self.deployment.joint_names))

    @classmethod
    def of(cls, env: Any) -> MadeFor:
        """Return what an env is now, its live gains included.

        Raises:
            BackendError: There is no task inside that says so.
        """
        gains = find_backend(env).gains()
        first = (tuple(to_numpy(values)[0].tolist()) for values in (gains.stiffness, gains.damping))
        stiffness, damping = first
        return cls(deployment=find_task_of(env).deployment(), stiffness=stiffness, damping=damping)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MadeFor:
        """Read what :meth:`to_dict` returned.

        Raises:
            CurriculumError: Something is missing, or of another kind.
        """
        try:
            parts = dict(values["deployment"])
            parts["observation"] = tuple(ObservationPart(**part) for part in parts["observation"])
            for name in ("joint_names", "nominal_pose", "action_scale"):
                parts[name] = tuple(parts[name])
            if parts.get("limiter") is not None:
                parts["limiter"] = CommandLimits.from_dict(parts["limiter"])
            gains = {name: tuple(values[name]) for name in ("stiffness", "damping")}
            return cls(deployment=Deployment(**parts), **gains)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CurriculumError(f"what a policy was made for cannot be read ({error!r}).") from error


class PolicyWithOrigin(Protocol):
    """A policy that says what it was made for."""

    @property
    def made_for(self) -> MadeFor | None:
        """The env; None where its task does not say."""


def check_env(policy: PolicyWithOrigin, env: Any, *, gains: bool = True, asked: Collection[str] = ()) -> list[str]:
    """Refuse an env that a policy was not made for.

    Compared are the order of joints, the nominal pose, α, the clip of actions, the policy rate, the layout of the
    observation, the command limiter, and the gains that are live in the backend now.

    Args:
        policy: A policy file (:func:`adc_wrappers.policy.load`) or the policy of a run.
        env: An env of this library, single or vectorized, wrapped or bare.
        gains: Compare gains; False on a robot, which is commanded others than the simulator.
        asked: What the user chose to have otherwise (``action_scale``, ``stiffness`` …): it is said in a warning, and
            not refused. Joints, observation and command limiter are always refused.

    Returns:
        What differs and was said.

    Raises:
        PolicyEnvError: The env differs; lists everything that does.
    """
    found = env_differences(policy, env, gains=gains)
    said = [text for name, text in found.items() if name in asked and name not in _NEVER_ASKED]
    refused = [text for text in found.values() if text not in said]
    if refused:
        raise PolicyEnvError(
            f"the env is not the one that the policy was made for. {'; '.join(refused)}. Make the env with the "
            "policy's own settings, make_env(policy.config.task, **policy.config.settings), and pin its target gains."
        )
    if said:
        warnings.warn(f"the env is not the one that the policy was made for: {'; '.join(said)}.", stacklevel=2)
    return said


def env_differences(policy: PolicyWithOrigin, env: Any, *, gains: bool = True) -> dict[str, str]:
    """Return in what an env differs from the one that a policy was made for, by name, in words; nothing if it does not.

    Args:
        policy: The policy.
        env: The env.
        gains: Compare gains.
    """
    wanted = policy.made_for
    if wanted is None:
        return {}
    found = find_task_of(env).deployment()
    texts = {}
    layer = next((layer for layer in layers(env) if translates(layer)), None)
    if layer is not None:
        texts["observation"] = f"{type(layer).__name__} changes what the policy sees or does"
    if found.joint_names != wanted.deployment.joint_names:
        texts["joint_names"] = _difference("joints", wanted.deployment.joint_names, found.joint_names)
    if _layout(found) != _layout(wanted.deployment):
        texts["observation"] = _difference("observation", _layout(wanted.deployment), _layout(found))
    for name in _NUMBERS:
        before, now = getattr(wanted.deployment, name), getattr(found, name)
        if not _close(before, now, _SAME):
            texts[name] = _difference(name, before, now)
    if found.limiter != wanted.deployment.limiter:
        texts["limiter"] = _difference("command limiter", *(_limits(d) for d in (wanted.deployment, found)))
    if gains and "joint_names" not in texts:
        texts.update(_gain_differences(wanted, env))
    return texts


def _gain_differences(wanted: MadeFor, env: Any) -> dict[str, str]:
    live = find_backend(env).gains()
    texts = {}
    for name in ("stiffness", "damping"):
        before = getattr(wanted, name)
        wrong = [row for row in to_numpy(getattr(live, name)) if not _close(before, row, _SAME_GAINS)]
        if wrong:
            texts[name] = _difference(f"live {name}", before, tuple(wrong[0].tolist()))
    return texts


def _layout(deployment: Deployment) -> tuple[str, ...]:
    return tuple(f"{part.name}[{part.size}]{part.unit and f' {part.unit}'}" for part in deployment.observation)


def _close(before: Any, now: Any, tolerance: float) -> bool:
    first, second = np.asarray(before, dtype=np.float64), np.asarray(now, dtype=np.float64)
    return first.shape == second.shape and bool(np.allclose(first, second, rtol=tolerance, atol=1e-9))


def _difference(name: str, before: Any, now: Any) -> str:
    return f"{name}: the policy was made for {_short(before)}, the env has {_short(now)}"


def _limits(deployment: Deployment) -> str:
    if deployment.limiter is None:
        return "none"
    values = deployment.limiter.to_dict()
    return ", ".join(f"{name} {_short(tuple(v) if isinstance(v, list) else v)}" for name, v in values.items())


def _short(values: Any) -> str:
    if isinstance(values, str):
        return values
    if not isinstance(values, tuple):
        return f"{values:g}"
    shown = [value if isinstance(value, str) else f"{value:.6g}" for value in values]
    distinct = set(shown)
    return next(iter(distinct)) if len(distinct) == 1 else f"({', '.join(shown)})"


def translates(layer: Any) -> bool:
    """Whether a wrapper changes what a policy sees or does."""
    if isinstance(layer, ActionScaleCoupling):  # does nothing at the target gains
        return False
    return isinstance(layer, _TRANSLATORS) or type(layer).__name__ in _TRANSLATOR_NAMES


def find_task_of(env: Any) -> Any:
    """Return the task of this library inside an env.

    Raises:
        BackendError: There is none.
    """
    *_, base = layers(env)
    children = vars(base).get("envs")
    task = getattr(getattr(children[0], "unwrapped", None) if children else base, "task", None)
    if task is None:
        raise BackendError(
            f"{type(base).__name__} is no task of this library, so joints, pose, scale and rates are not known."
        )
    return task


def find_backend(env: Any) -> Any:
    """Return the backend whose gains an env's joints have."""
    for layer in layers(env):
        if isinstance(layer, CurriculumMethods):
            return layer.adc.backend
    return find_task_of(env).backend
