"""Tasks of balancing one pole, or two in series, on a cart that is told where to go: the paper's system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.cartpole import CartPoleModel, DoubleCartPoleModel, make_cartpole_backend
from adc_wrappers.core import CurriculumConfig, CurriculumError
from adc_wrappers.core.action_term import ActionTerm
from adc_wrappers.core.env_states import EnvState, part_of, put_array

from .deployment import Deployment, ObservationPart
from .task import Snapshot, Task

__all__ = [
    "CartPoleSettings",
    "CartSettings",
    "CartTask",
    "DoubleCartPoleSettings",
    "make_cartpole_task",
    "make_double_cartpole_task",
]


SUCCESS_ANGLE = np.deg2rad(12.0)


@dataclass(frozen=True, kw_only=True)
class CartSettings:
    """Settings that every task on a cart has."""

    cart_mass: float = 1.0
    """M, kg."""

    command_limit: float = 1.0
    """Largest commanded cart position, m; the action scale α."""

    position_limit: float = 1.0
    """Cart position beyond which an episode terminates, m (the paper's admissible box)."""

    angle_limit: float = np.pi / 2
    """Angle of any pole beyond which an episode terminates, rad."""

    start_angle: float = 0.2
    """Start angles are uniform in ± this, rad."""

    start_rate: float = 0.3
    """Start angular velocities are uniform in ± this, rad/s."""

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


class CartTask(Task):
    """The task of keeping every pole up and the cart on its rail by commanding the cart's position.

    - Observation: position and velocity of the cart, then angle and angular velocity of each pole from below.
    - Action: commanded cart position over ``command_limit``, clipped to [−1, 1].
    - Success: all poles within 12° of upright for the last second of an episode that did not terminate.

    Args:
        backend: The carts; their state has the order of the observation.
        settings: The task's numbers.
        adc_config: The curriculum that the task recommends.
    """

    def __init__(self, backend: Any, settings: CartSettings, adc_config: CurriculumConfig) -> None:
        self.backend: Any = backend
        self.settings = settings
        self.adc_config = adc_config
        self.time_limit = settings.time_limit
        self.policy_step = backend.policy_step
        self._state: Any = backend.state()
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (len(self._state),), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_term: ActionTerm = ActionTerm(backend.num_envs, backend.joint_names)
        self._action: NDArray[np.float64] = np.zeros(backend.num_envs)
        self._change: NDArray[np.float64] = np.zeros(backend.num_envs)

    @property
    def hold_steps(self) -> int:
        """One second."""
        return max(1, round(1.0 / self.policy_step))

    def begin(self, env_ids: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Start at rest in the middle of the rail with random poles."""
        poles, count = len(self._state) // 2 - 1, len(env_ids)
        angles = rng.uniform(-self.settings.start_angle, self.settings.start_angle, (poles, count))
        rates = rng.uniform(-self.settings.start_rate, self.settings.start_rate, (poles, count))
        moving = [row for pair in zip(angles, rates, strict=True) for row in pair]
        self.backend.reset(type(self._state)(np.zeros(count), np.zeros(count), *moving), env_ids)
        self._action[env_ids] = 0.0
        self._state = self.backend.state()

    def advance(self, actions: NDArray[np.float32]) -> None:
        """Command the carts for one policy step."""
        action = np.clip(actions[:, 0].astype(np.float64), -1.0, 1.0)
        self._change = action - self._action
        self._action = action
        self.backend.advance(self.settings.command_limit * self.action_term(action[:, np.newaxis], 1.0)[:, 0])
        self.action_term.end_step()
        self._state = self.backend.state()

    def observe(self) -> NDArray[np.float32]:
        """Return the state as float32."""
        return np.stack(self._state, axis=1).astype(np.float32)

    @property
    def _angles(self) -> NDArray[np.float64]:
        return np.stack(self._state[2::2])

    def reward_terms(self) -> dict[str, NDArray[np.float64]]:
        """Return one point per step that is lived, less what it costs to be off and to twitch."""
        return {
            "alive": np.ones(self.backend.num_envs),
            "angle": -0.5 * np.square(self._angles).sum(axis=0),
            "position": -0.25 * self._state.x**2,
            "action_rate": -0.05 * self._change**2,
        }

    def terminated(self) -> NDArray[np.bool_]:
        """Return which states have left the admissible box."""
        outside = np.abs(self._state.x) > self.settings.position_limit
        return np.asarray(outside | (np.abs(self._angles).max(axis=0) > self.settings.angle_limit))

    def holds(self) -> NDArray[np.bool_]:
        """Return where every pole is within 12° of upright."""
        return np.asarray(np.abs(self._angles).max(axis=0) < SUCCESS_ANGLE)

    def poses(self) -> NDArray[np.float64]:
        """Return the states."""
        return np.stack(self._state, axis=1)

    def draw_pose(self, pose: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Put the first cart into a state and return its picture."""
        self.backend.reset(type(self._state)(*(np.array([part]) for part in pose)), np.array([0]))
        return self.render(0)

    def snapshot(self, env_ids: NDArray[np.int64]) -> Snapshot:
        """Return states and last actions."""
        return {"state": np.stack(self._state, axis=1)[env_ids], "action": self._action[env_ids]}

    def restore(self, snapshot: Snapshot, env_ids: NDArray[np.int64]) -> None:
        """Put saved mechanisms into envs."""
        self.backend.reset(type(self._state)(*snapshot["state"].T), env_ids)
        self._action[env_ids] = snapshot["action"]
        self._state = self.backend.state()

    def env_state(self) -> EnvState:
        """Return the mechanisms and their last actions."""
        return {"action": self._action.copy(), "physics": self.backend.physics_state()}

    def load_env_state(self, state: EnvState, rng: np.random.Generator) -> None:
        """Restore them."""
        put_array(self._action, state, "action")
        self.backend.load_physics_state(part_of(state, "physics"))
        self._state = self.backend.state()

    def render(self, env_id: int) -> NDArray[np.uint8]:
        """Return the backend's picture."""
        picture: NDArray[np.uint8] = self.backend.render(env_id)
        return picture

    def deployment(self) -> Deployment:
        """Return the cart as one sliding joint about the middle of its rail."""
        parts = [
            ObservationPart(name="cart_position", size=1, unit="m", meaning="0 in the middle of the rail"),
            ObservationPart(name="cart_velocity", size=1, unit="m/s"),
        ]
        for i in range(len(self._state) // 2 - 1):
            angle = "0 upright, positive towards +x, absolute"
            parts.append(ObservationPart(name=f"pole_{i}_angle", size=1, unit="rad", meaning=angle))
            parts.append(ObservationPart(name=f"pole_{i}_angular_velocity", size=1, unit="rad/s"))
        return Deployment(
            joint_names=tuple(self.backend.joint_names),
            nominal_pose=(0.0,),
            action_scale=(float(self.settings.command_limit),),
            action_limit=1.0,
            policy_step=float(self.policy_step),
            physics_step=float(self.backend.physics_step),
            observation=tuple(parts),
        )


@dataclass(frozen=True, kw_only=True)
class CartPoleSettings(CartSettings):
    """Settings of the cart-pole task."""

    pole_mass: float = 0.1
    """m, kg."""

    pole_length: float = 0.5
    """l, m."""


def make_cartpole_task(backend: str, num_envs: int, settings: CartPoleSettings) -> CartTask:
    """Build the task on a named backend; the recommended curriculum goes from ω_n = 6 to 2.5 rad/s."""
    model = CartPoleModel(cart_mass=settings.cart_mass, pole_mass=settings.pole_mass, pole_length=settings.pole_length)
    physics = make_cartpole_backend(
        backend, num_envs, model, physics_step=settings.physics_step, decimation=settings.decimation
    )
    curriculum = CurriculumConfig(
        start_stiffness=36.0 * settings.cart_mass,
        target_stiffness=6.25 * settings.cart_mass,
        length_max=0.9 * settings.time_limit,
    )
    return CartTask(physics, settings, curriculum)


@dataclass(frozen=True, kw_only=True)
class DoubleCartPoleSettings(CartSettings):
    """Settings of the double cart-pole task; angles are absolute."""

    lower_mass: float = 0.1
    """m₁, kg."""

    lower_length: float = 0.5
    """l₁, m."""

    upper_mass: float = 0.1
    """m₂, kg."""

    upper_length: float = 0.5
    """l₂, m."""

    angle_limit: float = 0.6
    """Angle of either pole beyond which an episode terminates, rad."""

    start_angle: float = 0.02
    """Start angles of both poles are uniform in ± this, rad."""

    start_rate: float = 0.02
    """Start angular velocities of both poles are uniform in ± this, rad/s."""


def make_double_cartpole_task(backend: str, num_envs: int, settings: DoubleCartPoleSettings) -> CartTask:
    """Build the task on a named backend; the recommended curriculum goes from ω_n = 10 to 2 rad/s."""
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
    curriculum = CurriculumConfig(
        start_stiffness=100.0 * settings.cart_mass,
        target_stiffness=4.0 * settings.cart_mass,
        length_max=0.8 * settings.time_limit,
    )
    return CartTask(physics, settings, curriculum)
