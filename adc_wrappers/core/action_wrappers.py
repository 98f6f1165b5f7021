"""The paper's two action ablations: torque per action held constant, and exploration noise on a curriculum.

Both go around a curriculum wrapper and follow its live state:
``ActionScaleCoupling(ActuatorCurriculumWrapper(env))``.

In the envs of this library they act in the env's action term, where actions become joint targets: the policy's own
action is what the next observation and the cost of changing actions see. An env without an action term is given the
changed action instead, so that it sees the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from .action_term import find_action_term
from .controller import CurriculumController
from .errors import CurriculumError, did_you_mean
from .gym_bases import ActionWrapperBase, VectorWrapperBase
from .wrapper_methods import find_curriculum

__all__ = [
    "ActionNoise",
    "ActionNoiseCurriculum",
    "ActionScaleCoupling",
    "ActionScaler",
    "VectorActionNoiseCurriculum",
    "VectorActionScaleCoupling",
]


def _find_controller(env: Any) -> CurriculumController:
    missing = CurriculumError(
        f"{env} has no curriculum inside. Wrap the env with ActuatorCurriculumWrapper first and put this around it."
    )
    return find_curriculum(env, missing).adc


def _box(env: Any) -> gym.spaces.Box:
    space = getattr(env, "single_action_space", env.action_space)
    if not isinstance(space, gym.spaces.Box):
        raise CurriculumError(f"expected a Box action space (joint targets), got {space}.")
    return space


class ActionScaler:
    """The factor ``K_*/K`` on actions about the middle of the action space; what the wrappers are made of.

    An env with an action term is told the factor whenever the curriculum writes gains, evaluation included.

    Args:
        env: An env with a curriculum wrapper inside.
        action_joints: The joint that each number of an action moves, in the order of the action; by default what the
            env's action term says. Needed in other envs where joints differ in ``K_*/K``.
    """

    def __init__(self, env: Any, action_joints: Sequence[str] | None = None) -> None:
        box = _box(env)
        self._controller = controller = _find_controller(env)
        self._low, self._high = box.low, box.high
        bounded = np.isfinite(box.low) & np.isfinite(box.high)
        self._middle = np.where(bounded, 0.5 * (np.where(bounded, box.low, 0) + np.where(bounded, box.high, 0)), 0.0)
        self._term = find_action_term(env, controller.backend)
        if action_joints is None and self._term is not None:
            action_joints = self._term.joint_names
        self._order = _joint_order(box, controller, action_joints)
        if self._term is not None:
            controller.on_gains(self._tell_term)
            self._tell_term()

    @property
    def in_env(self) -> bool:
        """Whether the env's action term scales; actions are then handed on as they are."""
        return self._term is not None

    def _tell_term(self) -> None:
        if self._term is not None:
            joints = len(self._term.joint_names)
            self._term.set_factor(np.broadcast_to(self.scale, (len(self.scale), joints)))

    @property
    def scale(self) -> NDArray[np.float64]:
        """``K_*/K`` of every env, per action or one for all: shape ``(num_envs, actions or 1)``."""
        ratio: NDArray[np.float64] = self._controller.curriculum.target_stiffness / self._controller.stiffness
        return ratio[:, self._order]

    def __call__(self, actions: Any) -> Any:
        """Return the actions, clipped to the action space and scaled; as they are if the env's action term scales."""
        if self.in_env:
            return actions
        scale = self.scale if len(np.shape(actions)) > 1 else self.scale[0]
        if hasattr(actions, "new_tensor"):
            low, high, middle, factor = (actions.new_tensor(x) for x in (self._low, self._high, self._middle, scale))
            return middle + (actions.clamp(low, high) - middle) * factor
        scaled = self._middle + (np.clip(actions, self._low, self._high) - self._middle) * scale
        return scaled.astype(np.asarray(actions).dtype, copy=False)


def _joint_order(
    box: gym.spaces.Box, controller: CurriculumController, action_joints: Sequence[str] | None
) -> list[int]:
    """Return which of the backend's joints each action moves; the first for all where it makes no difference."""
    own = list(controller.backend.joint_names)
    if action_joints is None:
        if controller.curriculum.alike:
            return [0]
        raise CurriculumError(
            "joints differ in K_*/K, and the env does not say which joint each action moves: pass action_joints, the "
            f"names in the order of the actions; the backend has {own}."
        )
    unknown = [name for name in action_joints if name not in own]
    if unknown:
        raise CurriculumError(f"action_joints: unknown joint {unknown[0]!r}. {did_you_mean(unknown[0], own)}")
    if box.shape[-1:] != (len(action_joints),):  # the space of a batch has the envs in front
        raise CurriculumError(
            f"action_joints: expected one joint per action, got {len(action_joints)} for actions of shape {box.shape}."
        )
    return [own.index(name) for name in action_joints]


class ActionScaleCoupling(ActionWrapperBase, gym.utils.RecordConstructorArgs):
    """Constant ``K·α``: actions are scaled by ``K_*/K``, so that an action means the same torque at every K.

    Actions are clipped to the action space first; at the target gains nothing is scaled.

    Args:
        env: An env with a curriculum wrapper inside; single, or a batch of tensors.
        action_joints: The joint that each number of an action moves, in order; see :class:`ActionScaler`.
    """

    def __init__(self, env: gym.Env[Any, Any], action_joints: Sequence[str] | None = None) -> None:
        scaler = ActionScaler(env, action_joints)
        gym.utils.RecordConstructorArgs.__init__(self, action_joints=action_joints)
        ActionWrapperBase.__init__(self, env)
        self._scaler = scaler

    def action(self, action: Any) -> Any:
        """Return the action that the env is given."""
        return self._scaler(action)


class VectorActionScaleCoupling(VectorWrapperBase, gym.utils.RecordConstructorArgs):
    """The vector twin of :class:`ActionScaleCoupling`, with the same arguments."""

    def __init__(self, env: VectorEnv[Any, Any, Any], action_joints: Sequence[str] | None = None) -> None:
        scaler = ActionScaler(env, action_joints)
        gym.utils.RecordConstructorArgs.__init__(self, action_joints=action_joints)
        VectorWrapperBase.__init__(self, env)
        self._scaler = scaler

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step with scaled actions."""
        return self.env.step(self._scaler(actions))


class ActionNoise:
    """Gaussian action noise whose standard deviation follows the curriculum's progress.

    Every iteration draws from a generator of its own, so that a resumed run goes on with the noise that it would have
    had. An env with an action term is told the noise of the next step.

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
        self._term = find_action_term(env, self._controller.backend)
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
        """Return the actions with noise; as they are if the env's action term adds it."""
        if self.std == 0.0:
            return actions
        iteration = self._controller.curriculum.iteration
        if iteration != self._iteration:
            self._rng, self._iteration = np.random.default_rng([self._seed, iteration]), iteration
        noise = self._rng.normal(0.0, self.std, np.shape(actions))
        if self._term is not None:
            self._term.set_noise(np.atleast_2d(noise))
            return actions
        if hasattr(actions, "new_tensor"):
            return actions + actions.new_tensor(noise)
        array = np.asarray(actions)
        return (array + noise).astype(array.dtype, copy=False)


class ActionNoiseCurriculum(ActionWrapperBase, gym.utils.RecordConstructorArgs):
    """Action noise that is annealed by the curriculum's progress, in place of the stiffness.

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
