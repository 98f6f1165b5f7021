"""The actuators of any mjlab env, and the effective inertia of its joints."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.tensor_gains import COMBINE, GainFactors, TensorGains
from adc_wrappers.core.errors import BackendError, did_you_mean

from .groups import MODEL_FIELDS, MjlabGroup, find_groups

__all__ = ["MjlabBackend", "check_gain_events"]

_WRITER = "pd_gains"
_COMBINE = COMBINE.format(backend="mjlab")


def check_gain_events(env: Any, entity: str) -> None:
    """Refuse mjlab's own randomization of gains, which derives them from the model's defaults.

    Raises:
        BackendError: ``pd_gains`` runs at resets or at intervals and would overwrite the curriculum's.
    """
    manager = env.event_manager
    for mode, names in manager.active_terms.items():
        for name in names:
            term = manager.get_term_cfg(name)
            target = getattr(term.params.get("asset_cfg"), "name", entity)
            if getattr(term.func, "__name__", type(term.func).__name__) != _WRITER or target != entity:
                continue
            if mode != "startup":
                raise BackendError(
                    f"the event {name!r} ({_WRITER}, mode {mode!r}) writes gains that it derives from the model's "
                    f"defaults and would overwrite the curriculum's. Remove it from the env's events. {_COMBINE}"
                )
            warnings.warn(
                f"the event {name!r} ({_WRITER}, mode {mode!r}) has no effect: the curriculum sets the gains of every "
                f"env. {_COMBINE}",
                stacklevel=4,
            )


class MjlabBackend(TensorGains):
    """Gains of an entity in an mjlab env.

    Built-in position, built-in PD, XML position and ideal PD actuators are written where each takes its gains from, see
    :mod:`.groups`. Gains stay on the env's device and are changed in place.

    Args:
        env: The env, wrapped or not: a :class:`~.env.GymMjlabEnv`.
        entity: The robot's name in the scene.
        joints: Names of joints to control, in the order that every array shall have; default: all that have an
            actuator, in the robot's order.
        inertia: Effective inertia per joint, if it is not to be taken from the model at the default pose.

    Raises:
        BackendError: There is no such robot or joint, a joint is not position-controlled, or an event would overwrite
            the gains.
    """

    def __init__(
        self,
        env: Any,
        *,
        entity: str = "robot",
        joints: Sequence[str] | None = None,
        inertia: ArrayLike | None = None,
    ) -> None:
        inner = getattr(env, "unwrapped", env)
        known = dict(getattr(getattr(inner, "scene", None), "entities", {}))
        if entity not in known:
            raise BackendError(f"the scene has no entity {entity!r}. {did_you_mean(entity, known)} Pass entity=.")
        check_gain_events(inner, entity)
        robot = known[entity]
        self.num_envs, self.device = int(inner.num_envs), inner.device
        self.groups: Sequence[MjlabGroup] = find_groups(inner.sim, _chosen(robot.actuators, joints))
        names = [name for group in self.groups for name in group.joint_names]
        self.joint_names = tuple(joints or (name for name in robot.joint_names if name in names))
        self.explicit_time_step = float(inner.physics_dt) if any(group.explicit for group in self.groups) else None
        missing = [field for field in MODEL_FIELDS if field not in inner.sim.expanded_fields]
        if missing:
            inner.sim.expand_model_fields(tuple(missing))
        self._slots = [
            torch.tensor([self.joint_names.index(name) for name in group.joint_names], device=self.device)
            for group in self.groups
        ]
        self._factors = GainFactors((self.num_envs, len(self.joint_names)), self.device)
        self._check_position_control()
        given = None if inertia is None else np.asarray(inertia, dtype=np.float64)
        self._inertia = _joint_inertia(inner, robot, self.joint_names) if given is None else given
        self._take_up(inner)

    def _check_position_control(self) -> None:
        for group in self.groups:
            if not bool((group.read()[0] > 0).all()):
                raise BackendError(
                    f"the joints {list(group.joint_names)} have a stiffness of zero: they are driven by velocity or "
                    "torque. Leave them out: MjlabBackend(env, joints=[…])."
                )

    def effective_inertia(self) -> NDArray[np.float64]:
        """Return M per joint at the robot's default joint positions, armature included."""
        return self._inertia.copy()


def _chosen(actuators: Sequence[Any], joints: Sequence[str] | None) -> list[Any]:
    if joints is None:
        return list(actuators)
    known = [name for actuator in actuators for name in actuator.target_names]
    for name in joints:
        if name not in known:
            raise BackendError(f"no actuator moves the joint {name!r}. {did_you_mean(name, known)}")
    found = [actuator for actuator in actuators if set(actuator.target_names) & set(joints)]
    whole = [name for actuator in found for name in actuator.target_names]
    if sorted(whole) != sorted(joints):
        raise BackendError(f"joints: expected all joints of their actuators, {sorted(whole)}, got {sorted(joints)}.")
    return found


def _joint_inertia(env: Any, robot: Any, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the diagonal of the model's inertia matrix at the robot's default joint positions."""
    model = env.sim.mj_model
    data = mujoco.MjData(model)
    positions = robot.indexing.joint_q_adr.cpu().numpy()
    data.qpos[positions] = robot.data.default_joint_pos[0].cpu().numpy()
    mujoco.mj_forward(model, data)
    columns = dict(zip(robot.joint_names, robot.indexing.joint_v_adr.cpu().tolist(), strict=True))
    found = []
    for name in names:
        alone, product = np.zeros(model.nv), np.zeros(model.nv)
        alone[columns[name]] = 1.0
        mujoco.mj_mulM(model, data, product, alone)
        found.append(float(product[columns[name]]))
    return np.array(found)
