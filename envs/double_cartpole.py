"""Balancing two poles in series on a cart that is told where to go: the paper's cart-pole with one more link."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.cartpole import (
    DoubleCartPoleBackend,
    DoubleCartPoleModel,
    DoubleCartPoleState,
    make_cartpole_backend,
)
from adc_wrappers.core import CurriculumConfig, CurriculumError

from .task import Task

__all__ = ["DoubleCartPoleSettings", "DoubleCartPoleTask", "make_double_cartpole_task"]


@dataclass(frozen=True, kw_only=True)
class DoubleCartPoleSettings:
    """Settings of the double cart-pole task."""

    cart_mass: float = 1.0
    """M, kg."""

    lower_mass: float = 0.1
    """m₁, kg."""

    lower_length: float = 0.5
    """l₁, m."""

    upper_mass: float = 0.1
    """m₂, kg."""

    upper_length: float = 0.5
    """l₂, m."""

    command_limit: float = 1.0
    """Largest commanded cart position, m; the action scale α."""

    position_limit: float = 1.0
    """Cart position beyond which an episode terminates, m (the paper's admissible box)."""

    angle_limit: float = 0.6
    """Angle of either pole beyond which an episode terminates, rad."""

    start_angle: float = 0.02
    """Start angles of both poles are uniform in ± this, rad."""

    start_rate: float = 0.02
    """Start angular velocities of both poles are uniform in ± this, rad/s."""

    time_limit: int = 500
    """Policy steps in an episode (10 s at 50 Hz)."""

    physics_step: float = 0.002
    """Seconds between two evaluations of the PD law."""

    decimation: int = 10
    """Physics steps in one policy step."""

    def __post_init__(self) -> None:
        for name in ("command_limit", "position_limit", "angle_limit"):
            if not getattr(self, name) > 0:
                raise CurriculumError(f"{name}: expected a positive number, got {getattr(self, name)}.")
        for name in ("start_angle", "start_rate"):
            if not 0 <= getattr(self, name) < np.inf:
                raise CurriculumError(f"{name}: expected a finite number, not negative, got {getattr(self, name)}.")
        if self.time_limit < 1:
            raise CurriculumError(f"time_limit: expected at least 1, got {self.time_limit}.")


class DoubleCartPoleTask(Task):
    """Keep both poles up and the cart on its rail by commanding the cart's position.

    - Observation: position and velocity of the cart, absolute angle and angular velocity of the lower pole, then of
      the upper pole.
    - Action: commanded cart position over ``command_limit``, clipped to [−1, 1].
    - Success: both poles upright within 12° for the last second of an episode that did not terminate.

    Args:
        backend: The double cart-poles.
        settings: The task's numbers.
    """

    def __init__(self, backend: DoubleCartPoleBackend, settings: DoubleCartPoleSettings) -> None:
        self.backend: DoubleCartPoleBackend = backend
        self.settings = settings
        self.time_limit = settings.time_limit
        self.policy_step = backend.policy_step
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        mass = settings.cart_mass
        self.adc_config = CurriculumConfig(
            start_stiffness=100.0 * mass,
            target_stiffness=4.0 * mass,
            length_max=0.8 * settings.time_limit,
        )
        self._state = backend.state()
        self._action: NDArray[np.float64] = np.zeros(backend.num_envs)
        self._change: NDArray[np.float64] = np.zeros(backend.num_envs)

    @property
    def hold_steps(self) -> int:
        """One second."""
        return max(1, round(1.0 / self.policy_step))

    def begin(self, env_ids: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Start at rest in the middle of the rail with poles that are almost upright."""
        count = len(env_ids)
        rest = np.zeros(count)
        angles = rng.uniform(-self.settings.start_angle, self.settings.start_angle, (2, count))
        rates = rng.uniform(-self.settings.start_rate, self.settings.start_rate, (2, count))
        state = DoubleCartPoleState(rest, rest, angles[0], rates[0], angles[1], rates[1])
        self.backend.reset(state, env_ids)
        self._action[env_ids] = 0.0
        self._state = self.backend.state()

    def advance(self, actions: NDArray[np.float32]) -> None:
        """Command the carts for one policy step."""
        action = np.clip(actions[:, 0].astype(np.float64), -1.0, 1.0)
        self._change = action - self._action
        self._action = action
        self.backend.advance(self.settings.command_limit * action)
        self._state = self.backend.state()

    def observe(self) -> NDArray[np.float32]:
        """Return the state as float32."""
        return np.stack(self._state, axis=1).astype(np.float32)

    def reward_terms(self) -> dict[str, NDArray[np.float64]]:
        """Return one point per step that is lived, less what it costs to be off and to twitch."""
        return {
            "alive": np.ones(self.backend.num_envs),
            "angle": -0.5 * (self._state.lower**2 + self._state.upper**2),
            "position": -0.25 * self._state.x**2,
            "action_rate": -0.05 * self._change**2,
        }

    def terminated(self) -> NDArray[np.bool_]:
        """Return which states have left the admissible box."""
        outside = np.abs(self._state.x) > self.settings.position_limit
        return np.asarray(outside | (self._largest_angle() > self.settings.angle_limit))

    def holds(self) -> NDArray[np.bool_]:
        """Return where both poles are within 12° of upright."""
        return np.asarray(self._largest_angle() < np.deg2rad(12.0))

    def _largest_angle(self) -> NDArray[np.float64]:
        return np.maximum(np.abs(self._state.lower), np.abs(self._state.upper))

    def render(self, env_id: int) -> NDArray[np.uint8]:
        """Return the backend's picture."""
        return self.backend.render(env_id)


def make_double_cartpole_task(backend: str, num_envs: int, settings: DoubleCartPoleSettings) -> DoubleCartPoleTask:
    """Build the task on a named backend."""
    model = DoubleCartPoleModel(
        cart_mass=settings.cart_mass,
        lower_mass=settings.lower_mass,
        lower_length=settings.lower_length,
        upper_mass=settings.upper_mass,
        upper_length=settings.upper_length,
    )
    physics = make_cartpole_backend(
        backend, num_envs, model, physics_step=settings.physics_step, decimation=settings.decimation
    )
    return DoubleCartPoleTask(physics, settings)
