"""Gains, friction, mass and joint dynamics of every robot, where the physics reads them, and what is checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.core.actuators import Gains
from adc_wrappers.core.env_states import EnvState, put_array
from adc_wrappers.core.errors import BackendError

from .layout import RobotLayout
from .stepping import BatchStepper

__all__ = ["JOINT_FIELDS", "LiveParameters", "check_gains", "check_sizes", "row_indices", "shaped"]


def check_sizes(num_envs: int, physics_step: float, decimation: int, threads: int) -> None:
    """Refuse a batch without robots, steps or threads."""
    if num_envs < 1 or decimation < 1 or threads < 1 or not (np.isfinite(physics_step) and physics_step > 0.0):
        raise BackendError(
            "expected num_envs >= 1, decimation >= 1, nthread >= 1 and physics_step > 0, "
            f"got {num_envs}, {decimation}, {threads} and {physics_step}."
        )


def row_indices(env_ids: ArrayLike | None, num_envs: int) -> NDArray[np.int64]:
    """Return the chosen envs' indices; None means all."""
    if env_ids is None:
        return np.arange(num_envs)
    rows = np.asarray(env_ids)
    whole = rows.ndim == 1 and (rows.size == 0 or np.issubdtype(rows.dtype, np.integer))
    if not whole or not ((rows >= 0) & (rows < num_envs)).all():
        raise BackendError(f"env_ids: expected indices from 0 to {num_envs - 1}, got {rows.tolist()}.")
    return rows.astype(np.int64)


def shaped(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return ``values`` as float64 of exactly this shape."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise BackendError(f"{name}: expected shape {shape}, got {array.shape}.")
    return array


_Array = NDArray[np.float64]
_Rows = NDArray[np.int64]

JOINT_FIELDS = {
    "joint_armature": "dof_armature",
    "joint_coulomb": "dof_frictionloss",
    "joint_viscous": "dof_damping",
}
"""Fields of :class:`RobotParameters` that have one number per joint, and the engine's names for them."""

_FACTORS = ("stiffness_factor", "damping_factor")

_CONSTANT_INPUTS = ("body_mass", "body_inertia", "dof_armature")
"""Fields from which the engine derives others."""

_FIELDS = (*_CONSTANT_INPUTS, "dof_frictionloss", "dof_damping", "geom_friction", "pair_friction")
"""Fields that randomization or identification may have changed, gains aside."""


class LiveParameters:
    """The engine's own per-robot copies of model fields.

    Args:
        stepper: The batch.
        model: The compiled robot, as the values to start from.
        base: Index of the base's body.
        legs: How many legs each joint stands for; what is set and read is one leg's.
    """

    def __init__(self, stepper: BatchStepper, model: Any, base: int, legs: _Array) -> None:
        self._stepper = stepper
        self._legs = legs
        self._gain = stepper.expand("actuator_gainprm")
        self._bias = stepper.expand("actuator_biasprm")
        self._factors: _Array = np.ones((len(stepper.qpos), 2))
        """What robots make of K and of B."""
        self._model = model
        self._base = base
        self._base_mass = float(model.body_mass[base])
        self._base_inertia: _Array = model.body_inertia[base].copy()
        touching = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        self._shapes = np.flatnonzero((model.geom_bodyid != 0) & touching)
        bodies = model.geom_bodyid[np.stack((model.pair_geom1, model.pair_geom2))]
        self._pairs = np.flatnonzero((bodies == 0).any(axis=0))

    def gains(self) -> Gains:
        """Return copies of K and B, without factors."""
        legs, factors = self._legs, self._factors[:, :, None]
        return Gains(self._gain[:, :, 0] / legs / factors[:, 0], -self._bias[:, :, 2] / legs / factors[:, 1])

    def set_gains(self, stiffness: _Array, damping: _Array, rows: _Rows | slice) -> None:
        """Write K and B times the robots' factors: force = K·target − K·q − B·q̇."""
        factors = self._factors[rows][:, :, None]
        stiffness, damping = stiffness * self._legs * factors[:, 0], damping * self._legs * factors[:, 1]
        self._gain[rows, :, 0] = stiffness
        self._bias[rows, :, 1] = -stiffness
        self._bias[rows, :, 2] = -damping

    def set_factor(self, name: str, values: _Array, rows: _Rows) -> None:
        """Give chosen robots a ``stiffness_factor`` or ``damping_factor``; the gains stay."""
        if not (np.isfinite(values).all() and (values > 0.0).all()):
            raise BackendError(f"{name}: expected positive numbers, got {values.tolist()}.")
        gains = self.gains()
        self._factors[rows, _FACTORS.index(name)] = values
        self.set_gains(gains.stiffness[rows], gains.damping[rows], rows)

    def set_friction(self, friction: _Array, rows: _Rows) -> None:
        """Write the sliding friction of every shape of chosen robots, and of every named pair with the world."""
        if not (np.isfinite(friction).all() and (friction >= 0.0).all()):
            raise BackendError(f"friction: expected finite numbers of at least 0, got {friction.tolist()}.")
        for name, places, axes in (("geom_friction", self._shapes, 1), ("pair_friction", self._pairs, 2)):
            if places.size:
                self._stepper.expand(name)[rows[:, None], places, :axes] = friction[:, None, None]

    def set_base_mass(self, offset: _Array, rows: _Rows) -> None:
        """Write mass and inertia of the base, and what the engine derives from them."""
        mass = self._base_mass + offset
        if not (np.isfinite(mass).all() and (mass > 0.0).all()):
            raise BackendError(
                f"base_mass_offset: expected finite numbers above {-self._base_mass:.4g} kg, which is all the base "
                f"weighs, got {offset.tolist()}."
            )
        self._stepper.expand("body_mass")[rows, self._base] = mass
        scale = (mass / self._base_mass)[:, None]
        self._stepper.expand("body_inertia")[rows, self._base] = self._base_inertia * scale
        self._stepper.update_constants(rows)

    def save(self) -> EnvState:
        """Return the fields that robots have values of their own of, gains aside."""
        values = {name: self._stepper.expanded(name) for name in _FIELDS}
        return {name: value for name, value in values.items() if value is not None} | {"factors": self._factors.copy()}

    def load(self, state: EnvState, num_envs: int) -> None:
        """Restore them; a field that is not among them gets the model's values again."""
        factors = np.ones_like(self._factors)
        if "factors" in state:
            put_array(factors, state, "factors")
        for column, name in enumerate(_FACTORS):
            self.set_factor(name, factors[:, column], np.arange(num_envs))
        touched = False
        for name in _FIELDS:
            if name not in state and self._stepper.expanded(name) is None:
                continue
            values = np.repeat(getattr(self._model, name)[None], num_envs, axis=0)
            if name in state:
                put_array(values, state, name)
            self._stepper.expand(name)[:] = values
            touched |= name in _CONSTANT_INPUTS
        if touched:
            self._stepper.update_constants(np.arange(num_envs))

    def set_joint_dynamics(self, name: str, values: _Array, rows: _Rows) -> None:
        """Write armature, dry or viscous friction of every joint of chosen robots, ``(rows, joints)``."""
        if not (np.isfinite(values).all() and (values >= 0.0).all()):
            raise BackendError(f"{name}: expected finite numbers of at least 0, got {values.tolist()}.")
        self._stepper.expand(JOINT_FIELDS[name])[rows[:, None], self._stepper.joint_velocities] = values * self._legs
        if name == "joint_armature":
            self._stepper.update_constants(rows)


def check_gains(stiffness: _Array, damping: _Array, inertia: _Array, time_step: float, layout: RobotLayout) -> None:
    """Refuse gains that are no gains, or that the integrator cannot hold.

    With ``a = K dt²/M`` and ``b = B dt/M``, a step that takes the damping implicitly and the spring explicitly is
    stable for one joint if and only if ``a < 4 + 2b``.
    """
    for name, values in (("stiffness", stiffness), ("damping", damping)):
        if not (np.isfinite(values).all() and (values >= 0.0).all()):
            raise BackendError(f"{name}: expected finite numbers of at least 0, got {values.tolist()}.")
    a = stiffness * time_step**2 / inertia
    b = damping * time_step / inertia
    unstable = np.argwhere(a >= 4.0 + 2.0 * b)
    if unstable.size:
        row, joint = unstable[0]
        raise BackendError(
            f"joint {layout.joint_names[joint]!r}: stiffness {stiffness[row, joint]:g} with damping "
            f"{damping[row, joint]:g} on an effective inertia of {inertia[joint]:.4g} is unstable at a physics step of "
            f"{time_step:g} s. Use a smaller physics step or a lower stiffness."
        )
