"""Callbacks: close iterations, evaluate at the target gains, save the curriculum, follow the KL divergence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EventCallback,
)
from stable_baselines3.common.vec_env import VecEnv

from adc_wrappers.core.config import CurriculumConfig
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.core.files import write_json
from adc_wrappers.core.wrapper_methods import CurriculumMethods

from .vec_env import ActuatorCurriculumVecEnv, find_curriculum

__all__ = [
    "CurriculumCallback",
    "CurriculumCheckpointCallback",
    "KLAdaptiveCallback",
    "KLAdaptiveLearningRate",
    "TargetGainsEvalCallback",
]


class CurriculumCallback(BaseCallback):
    """A callback that closes the curriculum's iteration when a rollout ends and logs it under ``adc/``.

    When training starts it warns of what would go wrong in silence: a model that was loaded without its curriculum,
    and callbacks of SB3 that evaluate beside the target gains or save a model without the curriculum.
    """

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._wrapper: CurriculumMethods | None = None

    def _on_training_start(self) -> None:
        wrapper = find_curriculum(self.training_env)
        wrapper.refuse_own_iterations("this callback")
        self._wrapper = wrapper
        _warn_of_lost_curriculum(self.model, wrapper)
        for callback in _callbacks_in(self.locals.get("callback")):
            _warn_of_unaware(callback)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        if self._wrapper is None:
            return
        for name, value in self._wrapper.end_iteration().items():
            self.logger.record(f"adc/{name}", value)
        totals = self._wrapper.adc.last_totals
        self.logger.record("adc/episodes", totals.episodes)
        if totals.episodes:
            self.logger.record("adc/episode_length_mean", totals.mean_length)


def _warn_of_lost_curriculum(model: Any, wrapper: CurriculumMethods) -> None:
    """Warn if a policy that has been updated before begins at the start stiffness: SB3 saves models without envs."""
    if getattr(model, "_n_updates", 0) > 0 and wrapper.curriculum.iteration == 0:
        warnings.warn(
            f"the model has been trained before, but its curriculum begins anew at K_0 = "
            f"{wrapper.curriculum.stiffness.mean():g}: model.save() and load() do not hold the curriculum. Write it "
            "with ActuatorCurriculumVecEnv.save(path) beside the model (or train with CurriculumCheckpointCallback) "
            "and wrap the env with ActuatorCurriculumVecEnv.load(path, venv) before you load the model.",
            stacklevel=2,
        )


def _callbacks_in(callback: Any) -> Iterator[BaseCallback]:
    """Yield a callback and those that it calls."""
    if isinstance(callback, CallbackList):
        for part in callback.callbacks:
            yield from _callbacks_in(part)
    elif isinstance(callback, BaseCallback):
        yield callback
        if isinstance(callback, EventCallback):
            yield from _callbacks_in(callback.callback)


def _warn_of_unaware(callback: BaseCallback) -> None:
    """Warn of callbacks that do not know the curriculum."""
    if isinstance(callback, CheckpointCallback) and not isinstance(callback, CurriculumCheckpointCallback):
        warnings.warn(
            f"{type(callback).__name__} saves the model without the curriculum, which begins anew at K_0 when it is "
            "loaded. Use adc_wrappers.sb3.CurriculumCheckpointCallback, with the same arguments.",
            stacklevel=2,
        )
    if isinstance(callback, EvalCallback) and not isinstance(callback, TargetGainsEvalCallback):
        try:
            curriculum = find_curriculum(callback.eval_env)
        except BackendError:
            return
        if curriculum.adc.training:
            warnings.warn(
                f"{type(callback).__name__} evaluates, and chooses its best model, at K_0 = "
                f"{curriculum.curriculum.stiffness.mean():g}, because its env has a curriculum that nobody moves. Use "
                "adc_wrappers.sb3.TargetGainsEvalCallback, or make that env with training=False.",
                stacklevel=2,
            )


class TargetGainsEvalCallback(EvalCallback):
    """A callback that evaluates on an env whose joints are at the target gains, and checks that they are.

    Args:
        eval_env: A VecEnv whose curriculum is pinned (``training=False``), or one without a curriculum, which is then
            wrapped with the training env's settings when training starts.
        **arguments: Arguments of SB3's ``EvalCallback``.
    """

    def __init__(self, eval_env: VecEnv, **arguments: Any) -> None:
        super().__init__(eval_env, **arguments)
        self._pinned: CurriculumMethods | None = None

    def _init_callback(self) -> None:
        try:
            self._pinned = find_curriculum(self.eval_env)
        except BackendError:
            config = find_curriculum(self.training_env).curriculum.config
            wrapped = ActuatorCurriculumVecEnv(self.eval_env, config, training=False)
            self.eval_env, self._pinned = wrapped, wrapped
        if self._pinned.adc.training:
            raise CurriculumError(
                "the evaluation env follows a curriculum of its own. Create it with training=False, which pins the "
                "target gains."
            )
        _refuse_other_target(self._pinned, find_curriculum(self.training_env))
        super()._init_callback()

    def _on_step(self) -> bool:
        due = self.eval_freq > 0 and self.n_calls % self.eval_freq == 0
        if due and self._pinned is not None:
            self._pinned.adc.verify()
        return super()._on_step()


def _refuse_other_target(pinned: CurriculumMethods, training: CurriculumMethods) -> None:
    """Refuse an evaluation at other gains than training leads to."""
    have, want = pinned.curriculum, training.curriculum
    same = np.array_equal(have.target_stiffness, want.target_stiffness)
    if not same or _damping(have.config) != _damping(want.config):
        raise CurriculumError(
            f"the evaluation env is pinned at K = {np.unique(have.target_stiffness).tolist()}, "
            f"{_damping(have.config)}; training leads to {np.unique(want.target_stiffness).tolist()}, "
            f"{_damping(want.config)}. Give it the training's CurriculumConfig, or pass one without a curriculum."
        )


def _damping(config: CurriculumConfig) -> str:
    if config.damping == "fixed":
        return f"fixed damping {config.fixed_damping}"
    return f"damping ratio {config.damping_ratio:g}"


class CurriculumCheckpointCallback(CheckpointCallback):
    """SB3's ``CheckpointCallback`` that also saves the curriculum, as ``<prefix>_adc_<steps>_steps.json``."""

    def _on_step(self) -> bool:
        keep_going = super()._on_step()
        if self.n_calls % self.save_freq == 0:
            path = Path(self._checkpoint_path("adc_", extension="json"))
            write_json(path, find_curriculum(self.training_env).state_dict())
        return keep_going


class KLAdaptiveLearningRate:
    """A learning-rate schedule: down if an update moved the policy too far, up if it hardly did.

    The rule and the bounds are RSL-RL's; there it acts after every minibatch, here after every update, because SB3
    reports the divergence only then. Use with :class:`KLAdaptiveCallback`.

    Args:
        learning_rate: Where to begin.
        target_kl: Wanted divergence per update.
        factor: Factor by which the rate moves.
        bounds: Smallest and largest rate.

    Example:
        >>> schedule = KLAdaptiveLearningRate(1e-3, target_kl=0.01)
        >>> schedule.update(0.05)
        >>> round(schedule(1.0), 6)
        0.000667
    """

    def __init__(
        self,
        learning_rate: float = 1e-3,
        target_kl: float = 0.01,
        factor: float = 1.5,
        bounds: tuple[float, float] = (1e-5, 1e-2),
    ) -> None:
        if not (0 < bounds[0] <= learning_rate <= bounds[1] and target_kl > 0 and factor > 1):
            raise CurriculumError(
                "expected 0 < bounds[0] <= learning_rate <= bounds[1], target_kl > 0 and factor > 1; got "
                f"learning_rate {learning_rate}, bounds {bounds}, target_kl {target_kl}, factor {factor}."
            )
        self.learning_rate = learning_rate
        self.target_kl = target_kl
        self.factor = factor
        self.bounds = bounds

    def __call__(self, progress_remaining: float) -> float:
        """Return the present rate, whatever share of training remains."""
        return self.learning_rate

    def update(self, kl: float) -> None:
        """Take the divergence of an update into account; a value that is not finite lowers the rate."""
        if not np.isfinite(kl) or kl > 2.0 * self.target_kl:
            self.learning_rate /= self.factor
        elif 0.0 < kl < 0.5 * self.target_kl:
            self.learning_rate *= self.factor
        self.learning_rate = float(np.clip(self.learning_rate, *self.bounds))

    def state_dict(self) -> dict[str, float]:
        """Return what a checkpoint needs."""
        return {"learning_rate": self.learning_rate}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a checkpoint's rate."""
        self.learning_rate = float(np.clip(state["learning_rate"], *self.bounds))


class KLAdaptiveCallback(BaseCallback):
    """A callback that feeds ``train/approx_kl`` of every update, the last too, to a :class:`KLAdaptiveLearningRate`."""

    def __init__(self, schedule: KLAdaptiveLearningRate) -> None:
        super().__init__()
        self.schedule = schedule
        self._fed_at = -1

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        self._feed()

    def _on_training_end(self) -> None:
        self._feed()

    def _feed(self) -> None:
        kl = self.logger.name_to_value.get("train/approx_kl")
        if kl is not None and self.num_timesteps != self._fed_at:
            self.schedule.update(float(kl))
            self._fed_at = self.num_timesteps
