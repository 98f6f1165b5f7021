"""The paper's two action ablations around a Stable-Baselines3 ``VecEnv`` with the curriculum inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from adc_wrappers.core.action_wrappers import ActionNoise, ActionScaler
from adc_wrappers.training.actions import ActionConfig

from .vec_env import ActuatorCurriculumVecEnv

__all__ = ["ActionVecEnv"]


class ActionVecEnv(VecEnvWrapper):
    """Adds noise to actions and scales them, as an :class:`~adc_wrappers.training.actions.ActionConfig` says.

    Args:
        venv: The env with the curriculum.
        config: What is done to actions.
        seed: Seed of the noise.
    """

    venv: ActuatorCurriculumVecEnv

    def __init__(self, venv: ActuatorCurriculumVecEnv, config: ActionConfig, seed: int) -> None:
        super().__init__(venv)
        self._parts: list[Callable[[Any], Any]] = []
        if config.noise_std > 0.0:
            self._parts.append(ActionNoise(venv, config.noise_std, 0.0, seed))
        if config.constant_torque:
            self._parts.append(ActionScaler(venv))

    def reset(self) -> VecEnvObs:
        """Reset all envs."""
        return self.venv.reset()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Start a step with what has become of the actions."""
        for part in self._parts:
            actions = part(actions)
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Finish the step."""
        return self.venv.step_wait()
