"""Callbacks: close iterations, evaluate at the target gains, save the curriculum beside the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.vec_env import VecEnv

from adc_wrappers.core.config import CurriculumConfig
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.core.files import write_json
from adc_wrappers.core.shared import CurriculumMethods

from .vec_env import ActuatorCurriculumVecEnv, find_curriculum

__all__ = ["CurriculumCallback", "CurriculumCheckpointCallback", "TargetGainsEvalCallback"]


class CurriculumCallback(BaseCallback):
    """Closes the curriculum's iteration when a rollout ends and logs it under ``adc/``."""

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._wrapper: CurriculumMethods | None = None

    def _on_training_start(self) -> None:
        wrapper = find_curriculum(self.training_env)
        wrapper.refuse_own_iterations("this callback")
        self._wrapper = wrapper

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


class TargetGainsEvalCallback(EvalCallback):
    """Evaluates on an env whose joints are at the target gains, and checks that they are.

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
