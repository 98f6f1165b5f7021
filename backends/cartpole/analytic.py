"""The closed-loop equations of the paper's appendix, integrated for a whole batch in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.states import EnvState, put_array

from .base import CartBackend
from .model import CartModel, StateT

__all__ = ["AnalyticCart"]


class AnalyticCart(CartBackend[StateT]):
    """Mechanisms in continuous time: the PD law is part of the equations and is integrated with them (RK4)."""

    def __init__(
        self, num_envs: int, model: CartModel[StateT], *, physics_step: float = 0.002, decimation: int = 10
    ) -> None:
        super().__init__(num_envs, model, physics_step=physics_step, decimation=decimation)
        self._state: NDArray[np.float64] = np.zeros((2 + 2 * len(model.poles), num_envs))

    def state(self) -> StateT:
        """Return copies of the state."""
        return self.model.name_state(self._state.copy())

    def reset(self, state: StateT, env_ids: NDArray[np.int64] | None = None) -> None:
        """Put chosen mechanisms into ``state``."""
        self._state[:, slice(None) if env_ids is None else env_ids] = np.stack(state)

    def physics_state(self) -> EnvState:
        """Return the state."""
        return {"state": self._state.copy()}

    def load_physics_state(self, state: EnvState) -> None:
        """Restore it."""
        put_array(self._state, state, "state")

    def advance(self, command: NDArray[np.float64]) -> None:
        """Integrate one policy step."""
        dt = self.physics_step
        state = self._state
        for _ in range(self.decimation):
            k1 = self._derivative(state, command)
            k2 = self._derivative(state + 0.5 * dt * k1, command)
            k3 = self._derivative(state + 0.5 * dt * k2, command)
            k4 = self._derivative(state + dt * k3, command)
            state = state + (dt / 6.0) * (k1 + 2.0 * (k2 + k3) + k4)
        self._state = state

    def _derivative(self, state: NDArray[np.float64], command: NDArray[np.float64]) -> NDArray[np.float64]:
        force = self._stiffness[:, 0] * (command - state[0]) - self._damping[:, 0] * state[1]
        derivative = np.empty_like(state)
        derivative[0::2] = state[1::2]
        derivative[1::2] = self.model.accelerations(state, force)
        return derivative
