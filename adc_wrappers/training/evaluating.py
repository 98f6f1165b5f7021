"""Evaluation of a policy: as it was trained, or in another engine, with other settings, at another stiffness."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core import (
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    CurriculumConfig,
    CurriculumError,
)
from adc_wrappers.core.errors import did_you_mean
from adc_wrappers.core.files import write_json
from adc_wrappers.envs.fit import MadeFor, check_env
from adc_wrappers.envs.registry import find_task, make_env, make_vector_env
from adc_wrappers.runs import EvaluationResult, evaluate

from .config import TrainConfig

__all__ = [
    "BATCH",
    "EvaluablePolicy",
    "EvaluationSetup",
    "asked_differences",
    "draw_evaluation",
    "evaluate_and_keep",
    "evaluate_policy",
    "pin_and_check",
]

BATCH = 100
"""Envs that are stepped together unless told otherwise."""


class EvaluablePolicy(Protocol):
    """A policy that can be evaluated."""

    @property
    def config(self) -> TrainConfig:
        """How it was trained."""

    @property
    def steps(self) -> int:
        """Env steps that it was trained for."""

    @property
    def made_for(self) -> MadeFor | None:
        """The env that it was made for; None where its task does not say."""

    def __call__(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the actions for a batch of observations."""


@dataclass(frozen=True, kw_only=True)
class EvaluationSetup:
    """The env in which a policy is evaluated, and at which gains."""

    task: str
    """Name of the task."""

    backend: str
    """Engine."""

    settings: dict[str, Any]
    """The task's settings."""

    curriculum: CurriculumConfig
    """Its target stiffness is the one that is pinned."""

    at_target: bool
    """Whether that is the target that the policy was trained for."""

    name: str
    """Stem of the result's files: ``eval``, and what differs from the training."""

    asked: tuple[str, ...] = ()
    """In what the env may differ from the policy's own because the user asked for it."""

    @classmethod
    def of(
        cls,
        config: TrainConfig,
        *,
        backend: str | None = None,
        settings: dict[str, Any] | None = None,
        stiffness: float | None = None,
    ) -> EvaluationSetup:
        """Return the training's own setup, with what is given replaced; nonsense raises."""
        spec = find_task(config.task)
        engine = config.backend if backend is None else backend
        if engine not in spec.simulators:
            raise ValueError(
                f"the task {spec.name!r} has no backend {engine!r}. {did_you_mean(engine, spec.simulators)}"
            )
        merged = {**spec.settings_on(engine, config.settings), **(settings or {})}
        before, after = (spec.build_settings(spec.task_settings(values)) for values in (config.settings, merged))
        changed = {
            field.name: getattr(after, field.name)
            for field in dataclasses.fields(after)
            if getattr(after, field.name) != getattr(before, field.name)
        }
        curriculum, at_target = _pinned(config.curriculum, stiffness)
        parts = ["eval"] if engine == config.backend else ["eval", engine]
        parts += [_setting_name(name, value) for name, value in changed.items()]
        parts += [] if at_target else [f"K{stiffness:g}"]
        return cls(
            task=spec.name,
            backend=engine,
            settings=merged,
            curriculum=curriculum,
            at_target=at_target,
            name="-".join(parts),
            asked=asked_differences(settings=bool(changed) or engine != config.backend, stiffness=not at_target),
        )

    def describe(self) -> dict[str, Any]:
        """Return the setup as JSON-ready values."""
        return {
            "task": self.task,
            "backend": self.backend,
            "settings": self.settings,
            "at_target": self.at_target,
        }


def _pinned(config: CurriculumConfig, stiffness: float | None) -> tuple[CurriculumConfig, bool]:
    if stiffness is None:
        return config, True
    if not (np.isfinite(stiffness) and stiffness > 0):
        raise CurriculumError(f"stiffness: expected a positive number, got {stiffness}.")
    if config.target_stiffness == stiffness:
        return config, True
    changed = dataclasses.replace(
        config, start_stiffness=stiffness, target_stiffness=stiffness, driver="fixed", hold_share=0.0
    )
    return changed, False


def _setting_name(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"no-{name}"
    return re.sub(r"[^\w.=+-]+", "_", f"{name}={value}").strip("_")


def evaluate_policy(
    policy: EvaluablePolicy,
    setup: EvaluationSetup,
    *,
    episodes: int,
    seed: int,
    num_envs: int | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> tuple[EvaluationResult, dict[str, Any]]:
    """Play episodes and return them, with the summary that is stored.

    Args:
        policy: The policy.
        setup: Where and how.
        episodes: Number of episodes.
        seed: Seed of the start states.
        num_envs: Envs that are stepped together; by default 100, or fewer for fewer episodes.
        on_step: Called after every step with the episodes and the env steps done so far.
    """
    if episodes < 1:
        raise ValueError(f"episodes: expected at least 1, got {episodes}.")
    if num_envs is not None and not 1 <= num_envs <= episodes:
        raise ValueError(f"num_envs: expected 1 to {episodes}, the number of episodes, got {num_envs}.")
    batch = min(BATCH, episodes) if num_envs is None else num_envs
    envs = make_vector_env(setup.task, backend=setup.backend, num_envs=batch, settings=setup.settings, seed=seed)
    try:
        pinned = ActuatorCurriculumVectorWrapper(envs, setup.curriculum, training=False)
        said = check_env(policy, pinned, asked=setup.asked)
        result = evaluate(policy, envs, setup.curriculum, episodes=episodes, seed=seed, on_step=on_step)
    finally:
        envs.close()
    trained = {"backend": policy.config.backend, "steps": policy.steps, "seed": policy.config.seed}
    target = policy.config.curriculum.to_dict()["target_stiffness"]
    summary = {"seed": seed, "trained": trained, "target_stiffness": target, **setup.describe(), **result.summary()}
    return result, {**summary, "differs_from_training": said} if said else summary


def evaluate_and_keep(
    policy: EvaluablePolicy, setup: EvaluationSetup, folder: Path, **arguments: Any
) -> tuple[EvaluationResult, dict[str, Any]]:
    """Evaluate, and write the episodes and their summary as the setup's ``.csv`` and ``.json`` into a folder.

    Args:
        policy: The policy.
        setup: Where and how; its name is that of the files.
        folder: Where they go.
        **arguments: Further arguments of :func:`evaluate_policy`.
    """
    result, summary = evaluate_policy(policy, setup, **arguments)
    result.write_csv(folder / f"{setup.name}.csv")
    write_json(folder / f"{setup.name}.json", summary)  # last: its presence says that the evaluation is whole
    return result, summary


def asked_differences(*, settings: bool, stiffness: bool) -> tuple[str, ...]:
    """Return in what an env may differ from a policy's own, because a user gave other settings or another stiffness.

    Damping follows stiffness and inertia, and inertia follows settings and engines.
    """
    numbers = ("nominal_pose", "action_scale", "action_limit", "policy_step", "damping")
    return (*(numbers if settings else ()), *(("stiffness", "damping") if stiffness else ()))


def pin_and_check(policy: EvaluablePolicy, env: Any, *, elsewhere: bool = False) -> None:
    """Pin a single env's gains to the policy's target, and refuse an env that the policy was not made for.

    Args:
        policy: The policy.
        env: The env.
        elsewhere: Whether another simulator was asked for, whose inertias and so its damping differ a little.
    """
    asked = asked_differences(settings=elsewhere, stiffness=False)
    check_env(policy, ActuatorCurriculumWrapper(env, policy.config.curriculum, training=False), asked=asked)


def draw_evaluation(result: EvaluationResult, setup: EvaluationSetup, path: Path, title: str) -> Path:
    """Draw how episodes ended; the frames are drawn by the engine of the evaluation.

    Simulators of tensors have no camera here: their poses are drawn by the task's first engine.
    """
    from adc_wrappers.runs.pictures import draw_failures

    spec = find_task(setup.task)
    engine = spec.backends[0] if setup.backend in spec.native else setup.backend
    env = make_env(setup.task, backend=engine, num_envs=1, **spec.settings_on(engine, setup.settings))
    try:
        return draw_failures(result, env.task.draw_pose, path, title)
    finally:
        env.close()
