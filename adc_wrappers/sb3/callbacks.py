"""Callbacks: close iterations, evaluate at the target gains, save the curriculum beside the model."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.vec_env import VecEnv

from adc_wrappers.core.errors import BackendError, CurriculumError
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
        if wrapper._iteration_steps is not None:
            raise CurriculumError(
                f"the curriculum closes its own iterations every {wrapper._iteration_steps} steps, and this callback "
                "would close them too. Create the wrapper without iteration_steps."
            )
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
        super()._init_callback()

    def _on_step(self) -> bool:
        due = self.eval_freq > 0 and self.n_calls % self.eval_freq == 0
        if due and self._pinned is not None:
            self._pinned.adc.verify()
        return super()._on_step()


class CurriculumCheckpointCallback(CheckpointCallback):
    """SB3's ``CheckpointCallback`` that also saves the curriculum, as ``<prefix>_adc_<steps>_steps.json``."""

    def _on_step(self) -> bool:
        keep_going = super()._on_step()
        if self.n_calls % self.save_freq == 0:
            wrapper = find_curriculum(self.training_env)
            if not isinstance(wrapper, ActuatorCurriculumVecEnv):
                raise CurriculumError(
                    "expected an ActuatorCurriculumVecEnv around the training env; the state of "
                    f"{type(wrapper).__name__} is saved with its state_dict()."
                )
            wrapper.save(self._checkpoint_path("adc_", extension="json"))
        return keep_going
