"""A probe that moves one joint of any MuJoCo model and locks all else, to prove and to measure gains by motion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.core.actuators import ActuatorBackend, to_numpy
from adc_wrappers.core.errors import BackendError

from .engine import mujoco

__all__ = ["MujocoProbe"]

_Array = NDArray[np.float64]

_LOCK = 1e9  # kg·m²: rotor inertia of whatever must stand still
_BENCH = ("CONTACT", "LIMIT", "EQUALITY", "CLAMPCTRL")


class MujocoProbe:
    """The joints of a MuJoCo model on a bench, for :func:`adc_wrappers.testing.check_backend`.

    Joints whose targets are moved are free; the base, the other joints and whatever else moves carry so much rotor
    inertia that they stand still. Contacts, joint limits, equality constraints, clamps of controls and gravity are
    off; torque limits stay, because they belong to the actuator. The model is changed inside :meth:`move` only, so the
    backend, which holds the same model, always sees its own.

    Args:
        backend: The backend under test; writes its gains to ``model``.
        model: MuJoCo's ``MjModel`` that the backend writes to.
        data: The ``MjData`` that is stepped; by default one of its own.
        pose: Joint positions to rest in, in the backend's order; by default the backend's ``nominal_pose``, else the
            model's, moved into the joints' ranges.
        weight: Let gravity act.
        lock: False leaves the robot as it is, gravity aside: for finding out what disturbs a joint.

    Example:
        >>> import gymnasium as gym
        >>> from adc_wrappers.backends.gymnasium_mujoco import GymnasiumMujocoBackend
        >>> from adc_wrappers.testing import check_backend
        >>> backend = GymnasiumMujocoBackend(gym.make("Hopper-v5"))
        >>> check_backend(MujocoProbe(backend, backend.model), (300.0, 900.0)) < 0.02
        True
    """

    def __init__(
        self,
        backend: ActuatorBackend,
        model: Any,
        data: Any = None,
        *,
        pose: ArrayLike | None = None,
        weight: bool = False,
        lock: bool = True,
    ) -> None:
        self.backend = backend
        self.time_step = float(model.opt.timestep)
        self._model = model
        self._data = mujoco.MjData(model) if data is None else data
        self._weight, self._lock = weight, lock
        self._joints, self._actuators = _find(model, backend)
        self._places = model.jnt_qposadr[self._joints]
        self._dofs = model.jnt_dofadr[self._joints]
        limited = model.jnt_limited[self._joints].astype(bool)
        self._range = np.where(limited[:, None], model.jnt_range[self._joints], [-np.inf, np.inf])
        if pose is None:
            own = getattr(backend, "nominal_pose", None)
            pose = np.clip(model.qpos0[self._places] if own is None else own, *self._range.T)
        self.pose: _Array = np.asarray(pose, dtype=np.float64)
        """Joint positions at rest, ``(joints,)``."""
        self._free: NDArray[np.bool_] = np.zeros(len(self._joints), dtype=bool)

    def rest(self) -> _Array:
        """Put the model to rest in its pose and lock every joint."""
        mujoco.mj_resetData(self._model, self._data)
        self._data.qpos[self._places] = self.pose
        self._free[:] = False
        return self._positions()

    def move(self, targets: _Array) -> _Array:
        """Hold targets for one physics step; a joint whose target is not where it rested is free from then on."""
        wanted = np.asarray(targets, dtype=np.float64)[0]
        self._free |= np.abs(wanted - self.pose) > 1e-12
        controls = getattr(self.backend, "controls", None)
        self._data.ctrl[self._actuators] = wanted if controls is None else controls(wanted)
        with self._bench():
            mujoco.mj_step(self._model, self._data)
        return self._positions()

    def release(self, joint: int) -> None:
        """Leave a joint free though its target stays, until the next :meth:`rest`; for what a weight does to it."""
        self._free[joint] = True

    def causes(self, joint: int, amplitude: float) -> list[str]:
        """Return what keeps a joint from following a step as its gains say."""
        model, found = self._model, []
        dof, place, actuator = self._dofs[joint], self._joints[joint], self._actuators[joint]
        stiffness = float(to_numpy(self.backend.gains().stiffness)[0, joint])
        force = abs(stiffness * amplitude / model.actuator_gear[actuator, 0])
        if model.actuator_forcelimited[actuator] and force > np.abs(model.actuator_forcerange[actuator]).min():
            found.append(f"the step asks for {force:.3g} and the actuator's forcerange clamps it: step less far")
        for name, value in (
            ("damping", model.dof_damping[dof]),
            ("dry friction (frictionloss)", model.dof_frictionloss[dof]),
            ("stiffness", model.jnt_stiffness[place]),
        ):
            if value:
                found.append(f"the joint has a {name} of its own, {value:.3g}")
        return found if self._lock else [*found, *self._loose_causes(joint, amplitude)]

    def _loose_causes(self, joint: int, amplitude: float) -> list[str]:
        """Return what disturbs a joint that is not on the bench."""
        model, found = self._model, []
        end = self.pose[joint] + amplitude
        low, high = self._range[joint]
        if not (low < self.pose[joint] < high and low < end < high):
            found.append(
                f"the step from {self.pose[joint]:.3g} to {end:.3g} meets the joint's limits, {low:.3g} to {high:.3g}"
            )
        actuator = self._actuators[joint]
        low, high = model.actuator_ctrlrange[actuator]
        if model.actuator_ctrllimited[actuator] and not low <= end <= high:
            found.append(f"the target {end:.3g} is clamped to the control range, {low:.3g} to {high:.3g}")
        if (model.jnt_type == int(mujoco.mjtJoint.mjJNT_FREE)).any():
            found.append("the base is free and gives way")
        return found

    @contextmanager
    def _bench(self) -> Iterator[None]:
        model = self._model
        flags, gravity = int(model.opt.disableflags), model.opt.gravity.copy()
        armature = model.dof_armature.copy()
        if not self._weight:
            model.opt.gravity[:] = 0.0
        if self._lock:
            held = np.ones(model.nv, dtype=bool)
            held[self._dofs[self._free]] = False
            model.dof_armature[held] = _LOCK
            for name in _BENCH:
                model.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}"))
        try:
            yield
        finally:
            model.opt.disableflags, model.opt.gravity[:] = flags, gravity
            model.dof_armature[:] = armature

    def _positions(self) -> _Array:
        return np.asarray(self._data.qpos[self._places][None].copy())


def _find(model: Any, backend: ActuatorBackend) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the model's indices of the backend's joints, and of the actuators that drive them."""
    joints = []
    for name in backend.joint_names:
        index = mujoco.mj_name2id(model, int(mujoco.mjtObj.mjOBJ_JOINT), name)
        if index < 0 and name.startswith("joint_"):
            index = int(name.removeprefix("joint_"))
        if index < 0:
            raise BackendError(f"the model has no joint {name!r}, which {type(backend).__name__} names.")
        joints.append(index)
    driven = {int(joint): actuator for actuator, joint in enumerate(model.actuator_trnid[:, 0])}
    missing = [name for name, joint in zip(backend.joint_names, joints, strict=True) if joint not in driven]
    if missing:
        raise BackendError(f"no actuator of the model drives {', '.join(map(repr, missing))}.")
    return np.array(joints), np.array([driven[joint] for joint in joints])
