"""The paper's two action ablations: torque per action held constant, and exploration noise on a curriculum.

Both go around a curriculum wrapper and follow its live state:
``ActionScaleCoupling(ActuatorCurriculumWrapper(env))``.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from .bases import ActionWrapperBase, VectorWrapperBase
from .controller import CurriculumController
from .errors import CurriculumError

__all__ = [
    "ActionNoise",
    "ActionNoiseCurriculum",
    "ActionScaleCoupling",
    "ActionScaler",
    "VectorActionNoiseCurriculum",
    "VectorActionScaleCoupling",
]


def _find_controller(env: Any) -> CurriculumController:
    layer = env
    while layer is not None:
        controller = getattr(layer, "adc", None)
        if isinstance(controller, CurriculumController):
            return controller
        layer = getattr(layer, "env", None)
    raise CurriculumError(
        f"{env} has no curriculum inside. Wrap the env with ActuatorCurriculumWrapper first and put this around it."
    )


def _box(env: Any) -> gym.spaces.Box:
    space = getattr(env, "single_action_space", env.action_space)
    if not isinstance(space, gym.spaces.Box):
        raise CurriculumError(f"expected a Box action space (joint targets), got {space}.")
    return space


class ActionScaler:
    """Scales actions about the middle of the action space by ``K_*/K``; what the wrappers are made of.

    Args:
        env: An env with a curriculum wrapper inside.
    """

    def __init__(self, env: Any) -> None:
        box = _box(env)
        self._controller = _find_controller(env)
        self._low, self._high = box.low, box.high
        bounded = np.isfinite(box.low) & np.isfinite(box.high)
        self._middle = np.where(bounded, 0.5 * (np.where(bounded, box.low, 0) + np.where(bounded, box.high, 0)), 0.0)
        joints = len(self._controller.backend.joint_names)
        target = self._controller.curriculum.target_stiffness
        start = self._controller.curriculum.start_stiffness
        self._per_joint = box.shape == (joints,)
        if not self._per_joint and not np.allclose(start / target, (start / target)[0]):
            raise CurriculumError(
                f"joint-specific stiffness needs one action per joint: {joints} joints, action shape {box.shape}."
            )

    @property
    def scale(self) -> NDArray[np.float64]:
        """``K_*/K`` of every env, per action or one for all: shape ``(num_envs, actions or 1)``."""
        ratio: NDArray[np.float64] = self._controller.curriculum.target_stiffness / self._controller.stiffness
        return ratio if self._per_joint else ratio[:, :1]

    def __call__(self, actions: Any, scale: NDArray[np.float64]) -> Any:
        """Return the actions, clipped to the action space, times ``scale``."""
        if hasattr(actions, "new_tensor"):
            low, high, middle, factor = (actions.new_tensor(x) for x in (self._low, self._high, self._middle, scale))
            return middle + (actions.clamp(low, high) - middle) * factor
        scaled = self._middle + (np.clip(actions, self._low, self._high) - self._middle) * scale
        return scaled.astype(np.asarray(actions).dtype, copy=False)


class ActionScaleCoupling(ActionWrapperBase, gym.utils.RecordConstructorArgs):
    """Keeps ``K·α`` constant: scales actions by ``K_*/K``, so that an action means the same torque at every K.

    Actions are clipped to the action space first; at the target gains nothing is scaled.

    Args:
        env: An env with a curriculum wrapper inside; single, or a batch of tensors.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        scaler = ActionScaler(env)
        gym.utils.RecordConstructorArgs.__init__(self)
        ActionWrapperBase.__init__(self, env)
        self._scaler = scaler

    def action(self, action: Any) -> Any:
        """Return the scaled action."""
        scale = self._scaler.scale
        return self._scaler(action, scale if len(np.shape(action)) > 1 else scale[0])


class VectorActionScaleCoupling(VectorWrapperBase, gym.utils.RecordConstructorArgs):
    """The vector twin of :class:`ActionScaleCoupling`."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        scaler = ActionScaler(env)
        gym.utils.RecordConstructorArgs.__init__(self)
        VectorWrapperBase.__init__(self, env)
        self._scaler = scaler

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step with scaled actions."""
        return self.env.step(self._scaler(actions, self._scaler.scale))


class ActionNoise:
    """Gaussian action noise whose standard deviation follows the curriculum's progress.

    Every iteration draws from a generator of its own, so that a resumed run goes on with the noise that it would have
    had.

    Args:
        env: An env with a curriculum wrapper inside.
        start_std: Standard deviation at progress 0.
        end_std: Standard deviation at progress 1.
        seed: Seed of the noise.
    """

    def __init__(self, env: Any, start_std: float, end_std: float, seed: int) -> None:
        for name, value in (("start_std", start_std), ("end_std", end_std)):
            if not (np.isfinite(value) and value >= 0.0):
                raise CurriculumError(f"{name}: expected a finite number that is not negative, got {value}.")
        _box(env)
        self._controller = _find_controller(env)
        self._start, self._end = start_std, end_std
        self._seed, self._iteration = seed, -1
        self._rng = np.random.default_rng(seed)

    @property
    def std(self) -> float:
        """Present standard deviation; 0 while the target gains are pinned."""
        if not self._controller.training:
            return 0.0
        return self._start + self._controller.curriculum.progress * (self._end - self._start)

    def __call__(self, actions: Any) -> Any:
        """Return the actions with noise."""
        if self.std == 0.0:
            return actions
        iteration = self._controller.curriculum.iteration
        if iteration != self._iteration:
            self._rng, self._iteration = np.random.default_rng([self._seed, iteration]), iteration
        noise = self._rng.normal(0.0, self.std, np.shape(actions))
        if hasattr(actions, "new_tensor"):
            return actions + actions.new_tensor(noise)
        array = np.asarray(actions)
        return (array + noise).astype(array.dtype, copy=False)


class ActionNoiseCurriculum(ActionWrapperBase, gym.utils.RecordConstructorArgs):
    """Adds action noise that is annealed by the curriculum's progress instead of the stiffness.

    For the paper's ablation put it around a curriculum whose start stiffness is its target: the joints stay as they
    are and episode length drives the noise alone.

    Args:
        env: An env with a curriculum wrapper inside.
        start_std: Standard deviation at progress 0, in units of the action.
        end_std: Standard deviation at progress 1.
        seed: Seed of the noise.
    """

    def __init__(self, env: gym.Env[Any, Any], start_std: float = 0.5, end_std: float = 0.0, seed: int = 0) -> None:
        noise = ActionNoise(env, start_std, end_std, seed)
        gym.utils.RecordConstructorArgs.__init__(self, start_std=start_std, end_std=end_std, seed=seed)
        ActionWrapperBase.__init__(self, env)
        self._noise = noise

    @property
    def noise_std(self) -> float:
        """Present standard deviation."""
        return self._noise.std

    def action(self, action: Any) -> Any:
        """Return the noisy action."""
        return self._noise(action)


class VectorActionNoiseCurriculum(VectorWrapperBase, gym.utils.RecordConstructorArgs):
    """The vector twin of :class:`ActionNoiseCurriculum`, with the same arguments."""

    def __init__(
        self, env: VectorEnv[Any, Any, Any], start_std: float = 0.5, end_std: float = 0.0, seed: int = 0
    ) -> None:
        noise = ActionNoise(env, start_std, end_std, seed)
        gym.utils.RecordConstructorArgs.__init__(self, start_std=start_std, end_std=end_std, seed=seed)
        VectorWrapperBase.__init__(self, env)
        self._noise = noise

    @property
    def noise_std(self) -> float:
        """Present standard deviation."""
        return self._noise.std

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step with noisy actions."""
        return self.env.step(self._noise(actions))
