"""A batch of carts with something on them: gains, PD law, a drawing, and the closed-loop equations of the paper."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.actuators import Gains
from adc_wrappers.core.env_states import EnvState, put_array
from adc_wrappers.core.errors import BackendError, MissingExtraError

from .model import CartModel, StateT

__all__ = ["AnalyticCart", "CartBackend", "draw_chain"]


_WIDTH, _HEIGHT, _SCALE = 640, 400, 220.0
_FITS = 1.05  # m: a longer chain is drawn smaller
_OVERSAMPLING = 2


def draw_chain(x: float, angles: Sequence[float], lengths: Sequence[float]) -> NDArray[np.uint8]:
    """Return an RGB picture of a cart at ``x`` with a chain of poles, given by absolute angles and lengths."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise MissingExtraError("pillow", "viz", "Drawing the cart-pole") from error
    factor = _OVERSAMPLING
    image = Image.new("RGB", (_WIDTH * factor, _HEIGHT * factor), (248, 248, 250))
    draw = ImageDraw.Draw(image)
    scale = _SCALE * min(1.0, _FITS / sum(lengths))

    def pixel(px: float, py: float) -> tuple[float, float]:
        return (_WIDTH / 2 + px * scale) * factor, (_HEIGHT * 0.62 - py * scale) * factor

    def box(cx: float, cy: float, half_x: float, half_y: float, colour: tuple[int, int, int]) -> None:
        draw.rectangle((*pixel(cx - half_x, cy + half_y), *pixel(cx + half_x, cy - half_y)), fill=colour)

    box(0.0, -0.06, 1.2, 0.012, (140, 140, 148))
    for end in (-1.0, 1.0):
        box(end, -0.06, 0.006, 0.05, (190, 60, 60))
    box(x, 0.0, 0.12, 0.05, (40, 46, 56))
    joints = [(x, 0.0)]
    for angle, length in zip(angles, lengths, strict=True):
        last_x, last_y = joints[-1]
        joints.append((last_x + length * math.sin(angle), last_y + length * math.cos(angle)))
        rod = (*pixel(last_x, last_y), *pixel(*joints[-1]))
        draw.line(rod, fill=(150, 152, 158), width=int(0.024 * scale * factor))
    radius = 0.045 * scale * factor
    for joint in joints[1:]:
        centre = pixel(*joint)
        corners = (centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius)
        draw.ellipse(corners, fill=(242, 178, 12))
    return np.asarray(image.resize((_WIDTH, _HEIGHT), Image.Resampling.LANCZOS), dtype=np.uint8)


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
        x, _, *poles = (float(part[env_id]) for part in self.state())
        return draw_chain(x, poles[::2], [length for _, length in self.model.poles])

    def close(self) -> None:
        """Release the engine."""
        return


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
