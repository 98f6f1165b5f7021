"""The cart-pole's kernel by hj_reachability, on the same coordinates and the same admissible set as ours.

hj_reachability solves the Hamilton-Jacobi equation in continuous time; commands are not held. Its grid reaches a tenth
beyond the admissible set, so that the level can be negative on it.
"""

from __future__ import annotations

from typing import Any

import hj_reachability as hj
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.viability import CartPlant, KernelSettings
from adc_wrappers.viability.kernel import unstable_direction

MARGIN = 1.1


class CartDynamics(hj.ControlAndDisturbanceAffineDynamics):  # type: ignore[misc, unused-ignore]
    """The closed loop in x, ẋ, θ and the unstable coordinate e; affine in the command."""

    def __init__(self, plant: CartPlant) -> None:
        self.plant, self.unstable = plant, unstable_direction(plant)
        limit, none = jnp.array([plant.command_limit]), jnp.zeros(1)
        super().__init__("max", "min", hj.sets.Box(-limit, limit), hj.sets.Box(none, none))

    def _motion(self, q: Any) -> tuple[Any, Any]:
        """Return the state's rate without a command, and by how much a command changes it."""
        x, v, angle, e = q
        w, model = self.unstable, self.plant.model
        m, length, g = model.pole_mass, model.pole_length, model.gravity
        rate = (e - w[0] * x - w[1] * v - w[2] * angle) / w[3]
        sin, cos = jnp.sin(angle), jnp.cos(angle)
        inertia = model.cart_mass + m * sin**2
        push = -self.plant.stiffness * x - self.plant.damping * v + m * length * sin * rate**2
        linear = (push - m * g * sin * cos) / inertia
        angular = ((model.cart_mass + m) * g * sin - cos * push) / (length * inertia)
        gain, turn = self.plant.stiffness / inertia, -cos * self.plant.stiffness / (length * inertia)
        drift = jnp.array([v, linear, rate, w[0] * v + w[1] * linear + w[2] * rate + w[3] * angular])
        return drift, jnp.array([0.0 * gain, gain, 0.0 * gain, w[1] * gain + w[3] * turn])

    def open_loop_dynamics(self, state: Any, time: Any) -> Any:
        """Return the rate without a command."""
        return self._motion(state)[0]

    def control_jacobian(self, state: Any, time: Any) -> Any:
        """Return the influence of the command."""
        return self._motion(state)[1][:, None]

    def disturbance_jacobian(self, state: Any, time: Any) -> Any:
        """There is no disturbance."""
        return jnp.zeros((4, 1))


class HjKernel:
    """The kernel by hj_reachability; the first call compiles.

    Args:
        plant: The plant, without a force limit.
        settings: Horizon, grid and clipping as in our kernel.
        accuracy: Of hj_reachability: ``"low"`` (first order) to ``"very_high"``.
    """

    def __init__(self, plant: CartPlant, settings: KernelSettings, accuracy: str) -> None:
        high = np.array([plant.position_limit, settings.speed, plant.angle_limit, settings.reach])
        ends = high * np.array([MARGIN, 1.0, MARGIN, MARGIN])
        self.settings, self.dynamics = settings, CartDynamics(plant)
        self.grid = hj.Grid.from_lattice_parameters_and_boundary_conditions(
            hj.sets.Box(-ends, ends), (settings.points,) * 4
        )
        states = self.grid.states
        level = 1.0 - jnp.abs(states[..., [0, 2]]) / high[[0, 2]]
        level = jnp.minimum(level.min(axis=-1), high[3] - jnp.abs(states[..., 3]))
        self.levels = jnp.clip(level, -settings.depth, settings.depth)
        self.solver = hj.SolverSettings.with_accuracy(
            accuracy, hamiltonian_postprocessor=hj.solver.backwards_reachable_tube
        )
        self.values: Any = None

    def solve(self) -> None:
        """Compute the value at the horizon."""
        arguments = (self.solver, self.dynamics, self.grid, 0.0, self.levels, -self.settings.horizon)
        self.values = hj.step(*arguments, progress_bar=False)
        self.values.block_until_ready()

    def contains(self, states: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which states ``(n, 4)`` the value calls viable."""
        unstable = states @ self.dynamics.unstable
        places = jnp.array(np.column_stack((states[:, :3], unstable)))
        value = np.asarray(jax.vmap(self.grid.interpolate, (None, 0))(self.values, places))
        return np.asarray((value >= 0.0) & (np.abs(unstable) <= self.settings.reach))
