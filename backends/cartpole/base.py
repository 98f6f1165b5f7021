"""What the cart-pole task needs from an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.actuators import Gains
from adc_wrappers.core.errors import BackendError

from .model import CartPoleModel, CartPoleState

__all__ = ["CartPoleBackend"]


class CartPoleBackend(ABC):
    """A batch of cart-poles whose carts follow ``F = K (x_d − x) − B ẋ`` at every physics step.

    Args:
        num_envs: Number of cart-poles.
        model: Their numbers.
        physics_step: Seconds between two evaluations of the PD law.
        decimation: Physics steps in one policy step.
    """

    joint_names: ClassVar[tuple[str, ...]] = ("cart",)

    def __init__(
        self, num_envs: int, model: CartPoleModel, *, physics_step: float = 0.002, decimation: int = 10
    ) -> None:
        if num_envs < 1 or decimation < 1 or not (np.isfinite(physics_step) and physics_step > 0):
            raise BackendError(
                "expected num_envs >= 1, decimation >= 1 and physics_step > 0, "
                f"got {num_envs}, {decimation} and {physics_step}."
            )
        self.num_envs = num_envs
        self.model = model
        self.physics_step = physics_step
        self.decimation = decimation
        self._stiffness: NDArray[np.float64] = np.full((num_envs, 1), model.cart_mass)
        self._damping: NDArray[np.float64] = np.full((num_envs, 1), 2.0 * model.cart_mass)

    @property
    def policy_step(self) -> float:
        """Seconds in one policy step."""
        return self.physics_step * self.decimation

    def effective_inertia(self) -> NDArray[np.float64]:
        """Return the cart's mass, the M of the paper's closed loop.

        It is the inertia that the cart shows while the hinge is free, not the diagonal of the mass matrix (M + m).
        """
        return np.array([self.model.cart_mass])

    def gains(self) -> Gains:
        """Return copies of the live gains."""
        return Gains(self._stiffness.copy(), self._damping.copy())

    def set_gains(
        self,
        stiffness: NDArray[np.float64],
        damping: NDArray[np.float64],
        env_ids: NDArray[np.int64] | None = None,
    ) -> None:
        """Write gains; they act from the next physics step on."""
        rows = slice(None) if env_ids is None else env_ids
        self._stiffness[rows] = stiffness
        self._damping[rows] = damping

    @abstractmethod
    def state(self) -> CartPoleState:
        """Return the state of every cart-pole."""

    @abstractmethod
    def reset(self, state: CartPoleState, env_ids: NDArray[np.int64] | None = None) -> None:
        """Put chosen cart-poles (default: all) into ``state``, whose arrays have one entry each."""

    @abstractmethod
    def advance(self, command: NDArray[np.float64]) -> None:
        """Simulate one policy step under the commanded cart positions, shape ``(num_envs,)``."""

    def render(self, env_id: int = 0) -> NDArray[np.uint8]:
        """Return a picture of one cart-pole."""
        from .drawing import draw_cartpole

        x, _, theta, _ = (float(part[env_id]) for part in self.state())
        return draw_cartpole(x, theta, self.model.pole_length)

    def close(self) -> None:
        """Release the engine."""
        return
