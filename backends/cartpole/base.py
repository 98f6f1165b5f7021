"""A batch of carts with something on them: gains and PD law, whatever the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.actuators import Gains
from adc_wrappers.core.errors import BackendError
from adc_wrappers.core.states import EnvState

from .model import CartModel, StateT

__all__ = ["CartBackend"]


class CartBackend(ABC, Generic[StateT]):
    """A batch of mechanisms whose carts follow ``F = K (x_d − x) − B ẋ`` at every physics step.

    Args:
        num_envs: Number of mechanisms.
        model: What they are; decides what a state is.
        physics_step: Seconds between two evaluations of the PD law.
        decimation: Physics steps in one policy step.
    """

    joint_names: ClassVar[tuple[str, ...]] = ("cart",)

    def __init__(
        self, num_envs: int, model: CartModel[StateT], *, physics_step: float = 0.002, decimation: int = 10
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
    def state(self) -> StateT:
        """Return copies of the state of every mechanism."""

    @abstractmethod
    def reset(self, state: StateT, env_ids: NDArray[np.int64] | None = None) -> None:
        """Put chosen mechanisms (default: all) into ``state``, whose arrays have one entry each."""

    @abstractmethod
    def advance(self, command: NDArray[np.float64]) -> None:
        """Simulate one policy step under the commanded cart positions, shape ``(num_envs,)``."""

    @abstractmethod
    def physics_state(self) -> EnvState:
        """Return the state as the engine has it; mechanisms that load it go on as these do, to the last bit."""

    @abstractmethod
    def load_physics_state(self, state: EnvState) -> None:
        """Put all mechanisms where :meth:`physics_state` was taken; gains stay."""

    def render(self, env_id: int = 0) -> NDArray[np.uint8]:
        """Return a picture of one mechanism."""
        from .drawing import draw_chain

        x, _, *poles = (float(part[env_id]) for part in self.state())
        return draw_chain(x, poles[::2], [length for _, length in self.model.poles])

    def close(self) -> None:
        """Release the engine."""
        return
