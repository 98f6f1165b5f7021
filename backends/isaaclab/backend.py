"""The actuators of any Isaac Lab env, the effective inertia of its joints, and events that would fight over gains."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.tensor_gains import COMBINE, GainFactors, TensorGains
from adc_wrappers.core.actuators import to_numpy
from adc_wrappers.core.errors import BackendError, did_you_mean

from .groups import ActuatorGroup, as_tensor, find_groups

__all__ = ["IsaacLabBackend", "check_gain_events", "find_gain_events", "joint_inertia", "mass_matrices"]

_WRITER = "randomize_actuator_gains"
_COMBINE = COMBINE.format(backend="isaaclab")


def joint_inertia(robot: Any, sim: Any) -> torch.Tensor:
    """Return M per joint: the mean over envs of the mass matrix's diagonal at the default joint positions.

    The robots are put into that pose and back. A floating base comes before the joints in the matrix; its pose does not
    matter to their entries.

    Args:
        robot: Isaac Lab's articulation.
        sim: The simulation context, or None if the pose need not be changed.
    """
    joints = len(robot.joint_names)
    with _as_its_tensors(robot), _default_pose(robot, sim):
        matrices, has_armature = mass_matrices(robot)
        offset = matrices.shape[-1] - joints
        if offset not in (0, 6):
            raise BackendError(
                f"expected a mass matrix over {joints} joints, with or without 6 coordinates of a floating base before "
                f"them, got {matrices.shape[-1]} columns."
            )
        inertia = torch.diagonal(matrices, dim1=-2, dim2=-1)[:, offset:].mean(dim=0)
        if not has_armature:
            inertia = inertia + as_tensor(robot.data.joint_armature).mean(dim=0).to(inertia.device)
    return inertia


@contextmanager
def _as_its_tensors(robot: Any) -> Iterator[None]:
    """Leave inference mode, unless the robot's state was made in it.

    Isaac Lab 2 makes the tensors of a robot's state when they are first asked for, and keeps them. Made under inference
    mode they could not be written to outside of it any more: the env's next reset would raise.
    """
    with torch.inference_mode(False), torch.no_grad():
        state = [as_tensor(getattr(robot.data, name)) for name in ("joint_pos", "joint_vel", "default_joint_pos")]
    with torch.inference_mode(any(tensor.is_inference() for tensor in state)), torch.no_grad():
        yield


def mass_matrices(robot: Any) -> tuple[torch.Tensor, bool]:
    """Return the mass matrix of every env at the present pose, and whether armature is in it."""
    if hasattr(robot, "num_base_dofs"):  # Isaac Lab 3
        return as_tensor(robot.data.mass_matrix).clone(), False
    view = getattr(robot, "root_view", None) or robot.root_physx_view
    for name in ("get_generalized_mass_matrices", "get_mass_matrices"):  # Isaac Sim 4.5 and later, and before
        if hasattr(view, name):
            return as_tensor(getattr(view, name)()).clone(), False
    raise BackendError(
        f"{type(view).__name__} gives no mass matrix. Pass the effective inertia yourself: "
        "IsaacLabBackend(env, inertia=[…])."
    )


@contextmanager
def _default_pose(robot: Any, sim: Any) -> Iterator[None]:
    """Put every robot into its default joint positions for a moment."""
    if sim is None:
        yield
        return
    position, velocity = as_tensor(robot.data.joint_pos).clone(), as_tensor(robot.data.joint_vel).clone()
    _place(robot, sim, as_tensor(robot.data.default_joint_pos).clone(), torch.zeros_like(velocity))
    try:
        yield
    finally:
        _place(robot, sim, position, velocity)


def _place(robot: Any, sim: Any, position: torch.Tensor, velocity: torch.Tensor) -> None:
    if hasattr(robot, "write_joint_position_to_sim_index"):
        robot.write_joint_position_to_sim_index(position=position)
        robot.write_joint_velocity_to_sim_index(velocity=velocity)
    else:
        robot.write_joint_state_to_sim(position, velocity)
    sim.forward()
    robot.update(0.0)


class IsaacLabBackend(TensorGains):
    """Gains of a robot in an Isaac Lab env, ``ManagerBasedRLEnv`` or ``DirectRLEnv``, of Isaac Lab 2.1 and later.

    Each actuator group is written where its PD law takes its gains from, see :mod:`.groups`. Gains stay on the env's
    device and are changed in place, also under ``torch.inference_mode()``. A second PD loop in the solver adds to what
    is read, and an implicit group whose tensor is stale reads NaN.

    On Isaac Sim's PhysX the gains of *implicit* groups go through the host, because the engine's own call does; this
    happens when gains are written, not in ``step``. Explicit and native groups, Spot's among them, never do.

    Args:
        env: The env, wrapped or not, with its simulation running: what ``gym.make`` returned.
        asset: The robot's name in the scene.
        groups: Names of the actuator groups to control; default: all.
        inertia: Effective inertia per joint, if it is not to be taken from the engine's mass matrix.
        joint_names: The joints of those groups in the order that every array shall have; default: the robot's own,
            which differs between engines.

    Raises:
        BackendError: There is no such robot or group, a group is not position-controlled, or an event would overwrite
            the gains.

    Example::

        env = gym.make("IsaacContrib-Velocity-Flat-Spot", cfg=cfg)  # Isaac Lab 3.0
        env = ActuatorCurriculumWrapper(env, backend=IsaacLabBackend, iteration_steps=24)
        env = RslRlVecEnvWrapper(env)
    """

    def __init__(
        self,
        env: Any,
        *,
        asset: str = "robot",
        groups: Sequence[str] | None = None,
        inertia: ArrayLike | None = None,
        joint_names: Sequence[str] | None = None,
    ) -> None:
        inner = getattr(env, "unwrapped", env)
        robot = _find_robot(inner, asset)
        self.robot = robot
        self.groups: Sequence[ActuatorGroup] = find_groups(robot, groups)
        self.num_envs = int(inner.num_envs)
        self.device = robot.device
        columns = torch.cat([group.joints for group in self.groups])
        check_gain_events(inner, asset, columns.tolist(), len(robot.joint_names))
        order = _order([robot.joint_names[i] for i in columns.tolist()], columns, joint_names)
        self.joint_names = tuple(robot.joint_names[i] for i in columns[order].tolist())
        slots = torch.argsort(order)
        self._slots = list(torch.split(slots, [len(group.joints) for group in self.groups]))
        self.explicit_time_step = _physics_step(inner) if any(g.kind != "implicit" for g in self.groups) else None
        self._factors = GainFactors((self.num_envs, len(self.joint_names)), self.device)
        self._check_position_control()
        self._inertia = self._effective_inertia(inner, columns[order], inertia)
        self._take_up(inner)

    def _check_position_control(self) -> None:
        for group in self.groups:
            if not bool((group.read()[0] > 0).all()):
                raise BackendError(
                    f"the actuator group {group.name!r} has a stiffness of zero: it is driven by velocity or torque, "
                    "and a curriculum on its stiffness would hold joints that must be free. Leave it out: "
                    "IsaacLabBackend(env, groups=[…])."
                )

    def _effective_inertia(self, env: Any, columns: torch.Tensor, given: ArrayLike | None) -> NDArray[np.float64]:
        if given is not None:
            return np.asarray(given, dtype=np.float64)
        return to_numpy(joint_inertia(self.robot, getattr(env, "sim", None))[columns])

    def effective_inertia(self) -> NDArray[np.float64]:
        """Return M per joint at the robot's default joint positions, the mean over envs, armature included."""
        return self._inertia.copy()


def _order(found: Sequence[str], columns: torch.Tensor, wanted: Sequence[str] | None) -> torch.Tensor:
    """Return how the groups' joints, one group after another, come into the wanted order; by default the robot's."""
    if wanted is None:
        return torch.argsort(columns)
    if sorted(found) != sorted(wanted):
        raise BackendError(
            f"joint_names: expected the joints of the controlled groups, {sorted(found)}, in any order, got "
            f"{list(wanted)}."
        )
    return torch.tensor([list(found).index(name) for name in wanted], device=columns.device)


def _find_robot(env: Any, asset: str) -> Any:
    scene = getattr(env, "scene", None)
    known = dict(getattr(scene, "articulations", {}))
    if not known:
        raise BackendError(
            f"{type(env).__name__} has no scene with articulations: expected an Isaac Lab env, made by gym.make(…)."
        )
    if asset not in known:
        raise BackendError(f"the scene has no robot {asset!r}. {did_you_mean(asset, known)} Pass asset=.")
    return known[asset]


def _physics_step(env: Any) -> float:
    return float(env.physics_dt)


def find_gain_events(
    env: Any, asset: str, joints: Collection[int] | None = None, count: int = 0
) -> Iterator[tuple[str, str]]:
    """Yield mode and name of every event term that writes actuator gains of ``asset``.

    Args:
        env: Isaac Lab's env.
        asset: The robot's name in the scene.
        joints: Only events that write to one of these joints, as indices; None for any.
        count: Number of joints that the robot has.
    """
    manager = getattr(env, "event_manager", None)
    if manager is None:
        return
    for mode, names in manager.active_terms.items():
        for name in names:
            term = manager.get_term_cfg(name)
            entity = (term.params or {}).get("asset_cfg")
            if getattr(entity, "name", asset) != asset or _WRITER not in _names(term.func):
                continue
            if joints is None or not _written(entity, count).isdisjoint(joints):
                yield mode, name


def _written(entity: Any, count: int) -> set[int]:
    """Joints that a term with this ``SceneEntityCfg`` writes to; all where it names none."""
    chosen = getattr(entity, "joint_ids", slice(None))
    if isinstance(chosen, slice):
        return set(range(count)[chosen])
    return {int(joint) for joint in chosen}


def _names(function: Any) -> set[str]:
    """Names of a function, of a class with its bases, or of an instance's; terms are each of these in some release."""
    kind = function if isinstance(function, type) else type(function)
    return {getattr(function, "__name__", ""), *(base.__name__ for base in kind.__mro__)}


def check_gain_events(env: Any, asset: str, joints: Collection[int] | None = None, count: int = 0) -> None:
    """Refuse events that would overwrite the curriculum's gains again and again, and warn of those that are lost.

    The arguments are those of :func:`find_gain_events`. An event on joints that the curriculum leaves alone may stay.

    Raises:
        BackendError: ``randomize_actuator_gains`` runs at resets or at intervals.
    """
    for mode, name in find_gain_events(env, asset, joints, count):
        if mode in ("startup", "prestartup"):
            warnings.warn(
                f"the event {name!r} ({_WRITER}, mode {mode!r}) has no effect: the curriculum sets the gains of every "
                f"env. {_COMBINE}",
                stacklevel=4,
            )
        else:
            raise BackendError(
                f"the event {name!r} ({_WRITER}, mode {mode!r}) writes gains that it derives from the robot's defaults "
                f"and would overwrite the curriculum's. Remove it from the env's events. {_COMBINE}"
            )
