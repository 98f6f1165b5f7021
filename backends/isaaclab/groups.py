"""Actuator groups of an Isaac Lab robot: who evaluates the PD law, and therefore where its gains must be written.

Isaac Lab has had four ways to change gains. Several calls accept new values, show them, and change nothing in the
motion: writing an explicit group's gains to the solver adds a second PD loop or does nothing, writing the tensor of an
implicit group does nothing. So each group is recognized by what it offers, not by the version of Isaac Lab, and
gets the one call that acts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from adc_wrappers.core.errors import BackendError, did_you_mean

__all__ = [
    "ActuatorGroup",
    "ExplicitGroup",
    "ImplicitGroup",
    "NativeGroup",
    "as_tensor",
    "column_indices",
    "find_groups",
]


def as_tensor(values: Any) -> torch.Tensor:
    """Return a view of ``values`` as a torch tensor, on its own device and without a copy.

    Isaac Lab 2.x holds tensors, 3.0 beta Warp arrays, 3.0 its own ``ProxyArray``.
    """
    if isinstance(values, torch.Tensor):
        return values
    view = getattr(values, "torch", None)
    if isinstance(view, torch.Tensor):
        return view
    if hasattr(values, "__cuda_array_interface__") or hasattr(values, "__array_interface__"):
        import warp  # Isaac Lab 3.0 beta brings it

        tensor: torch.Tensor = warp.to_torch(values)
        return tensor
    raise BackendError(f"expected a tensor, a Warp array or a ProxyArray of Isaac Lab, got {type(values).__name__}.")


def column_indices(joint_indices: Any, count: int, device: Any) -> torch.Tensor:
    """Return a group's joints as indices into the robot's; ``slice(None)`` stands for all of them."""
    if isinstance(joint_indices, slice):
        return torch.arange(count, device=device)[joint_indices]
    if isinstance(joint_indices, torch.Tensor):
        return joint_indices.to(device=device, dtype=torch.long)
    return torch.as_tensor(joint_indices, dtype=torch.long, device=device)


_PROPERTIES = ("stiffness", "damping")
_COMPONENTS = ("controller", "drive")
"""Names of the part of a Newton actuator that evaluates the PD law: in Isaac Lab 3.0, and in later ones."""


class ActuatorGroup(ABC):
    """Joints of a robot whose gains are kept in one place.

    Args:
        robot: Isaac Lab's articulation.
        name: The group's name in the robot's config.
        joints: Indices of its joints among the robot's.
    """

    kind: str
    """Who evaluates the PD law: ``"implicit"``, ``"explicit"`` or ``"native"``."""

    def __init__(self, robot: Any, name: str, joints: torch.Tensor) -> None:
        self.robot = robot
        self.name = name
        self.joints = joints

    def solver_gains(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return stiffness and damping of the solver's own drives, ``(num_envs, joints)``."""
        data = self.robot.data
        return as_tensor(data.joint_stiffness)[:, self.joints], as_tensor(data.joint_damping)[:, self.joints]

    @abstractmethod
    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gains that act, ``(num_envs, joints)`` each: the group's own and whatever the solver adds."""

    @abstractmethod
    def write(self, stiffness: torch.Tensor, damping: torch.Tensor, env_ids: torch.Tensor | None) -> None:
        """Write gains of the chosen envs, ``(len(env_ids), joints)`` each."""


class ImplicitGroup(ActuatorGroup):
    """The solver evaluates the PD law, within its own integration step.

    Until Isaac Lab 3.0 beta the group has a tensor of its own beside the solver's, from which it estimates torques for
    the reward: both are written. From 3.0 on it shows the solver's.
    """

    kind = "implicit"

    def __init__(self, robot: Any, name: str, actuator: Any, joints: torch.Tensor) -> None:
        super().__init__(robot, name, joints)
        self._actuator = actuator
        self._own_tensors = not isinstance(getattr(type(actuator), "stiffness", None), property)
        if self._own_tensors:
            _stop_sharing(actuator, robot)

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the solver's gains; a tensor of the group's own that differs from them reads NaN."""
        solver = self.solver_gains()
        if not self._own_tensors:
            return solver
        stale = (solver[0] != self._actuator.stiffness) | (solver[1] != self._actuator.damping)
        return solver[0].masked_fill(stale, torch.nan), solver[1].masked_fill(stale, torch.nan)

    def write(self, stiffness: torch.Tensor, damping: torch.Tensor, env_ids: torch.Tensor | None) -> None:
        """Write to the solver, and to the group's own tensor where it has one."""
        for name, values in zip(_PROPERTIES, (stiffness, damping), strict=True):
            if self._own_tensors:
                _assign(getattr(self._actuator, name), values, env_ids)
            self._write_to_solver(name, values, env_ids)

    def _write_to_solver(self, name: str, values: torch.Tensor, env_ids: torch.Tensor | None) -> None:
        by_index = getattr(self.robot, f"write_joint_{name}_to_sim_index", None)
        if by_index is not None:
            rows = None if env_ids is None else env_ids.to(torch.int32)
            by_index(**{name: values}, joint_ids=self.joints.to(torch.int32), env_ids=rows)
        else:
            getattr(self.robot, f"write_joint_{name}_to_sim")(values, joint_ids=self.joints, env_ids=env_ids)


class ExplicitGroup(ActuatorGroup):
    """Isaac Lab evaluates the PD law from the group's own tensors and hands torques to the solver."""

    kind = "explicit"

    def __init__(self, robot: Any, name: str, actuator: Any, joints: torch.Tensor) -> None:
        super().__init__(robot, name, joints)
        self._actuator = actuator
        _stop_sharing(actuator, robot)

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the group's gains, and the solver's on top, which must be zero."""
        extra = self.solver_gains()
        return self._actuator.stiffness + extra[0], self._actuator.damping + extra[1]

    def write(self, stiffness: torch.Tensor, damping: torch.Tensor, env_ids: torch.Tensor | None) -> None:
        """Write in place: the tensors are read at every physics step."""
        _assign(self._actuator.stiffness, stiffness, env_ids)
        _assign(self._actuator.damping, damping, env_ids)


class NativeGroup(ActuatorGroup):
    """A Newton actuator evaluates the PD law (Isaac Lab 3, ``use_newton_actuators``)."""

    kind = "native"

    def __init__(self, robot: Any, name: str, joints: torch.Tensor) -> None:
        super().__init__(robot, name, joints)
        from isaaclab.actuators import newton

        self._functions = newton
        self._component = self._find_component()

    def _find_component(self) -> str:
        """Return what this release calls the part that holds kp and kd."""
        for component in _COMPONENTS:
            try:
                self._functions.read_group_parameter(self.robot.actuators, self.name, component, "kp")
            except ValueError:  # what Isaac Lab raises for a component it does not know
                continue
            return component
        raise BackendError(
            f"the Newton actuators of group {self.name!r} have no gain kp in any of {_COMPONENTS}: they are not PD "
            "controllers. Name the groups to control: IsaacLabBackend(env, groups=[…])."
        )

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the Newton actuator's gains, and the solver's on top, which must be zero."""
        extra = self.solver_gains()
        collection, read = self.robot.actuators, self._functions.read_group_parameter
        own = [as_tensor(read(collection, self.name, self._component, attribute)) for attribute in ("kp", "kd")]
        return own[0] + extra[0], own[1] + extra[1]

    def write(self, stiffness: torch.Tensor, damping: torch.Tensor, env_ids: torch.Tensor | None) -> None:
        """Write through Isaac Lab's selection of Newton parameters."""
        for attribute, values in (("kp", stiffness), ("kd", damping)):
            self._functions.write_group_parameter(
                self.robot.actuators, self.name, self._component, attribute, values, env_ids=env_ids
            )


def _assign(tensor: torch.Tensor, values: torch.Tensor, env_ids: torch.Tensor | None) -> None:
    """Write in place, so that whoever holds the tensor sees it."""
    if env_ids is None:
        tensor.copy_(values)
    else:
        tensor.index_copy_(0, env_ids, values.to(tensor.dtype))


def _stop_sharing(actuator: Any, robot: Any) -> None:
    """Give the group tensors of its own where it shares the robot's defaults, which must not change.

    In Isaac Lab 2.x a gain that the config leaves out is the tensor of the defaults itself.
    """
    for name in _PROPERTIES:
        tensor = getattr(actuator, name)
        for shared in (f"default_joint_{name}", f"joint_{name}"):
            other = getattr(robot.data, shared, None)
            if other is not None and _same_memory(tensor, as_tensor(other)):
                with torch.inference_mode(False):
                    setattr(actuator, name, tensor.clone())


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def find_groups(robot: Any, names: Sequence[str] | None = None) -> list[ActuatorGroup]:
    """Return the position-controlled actuator groups of a robot.

    Args:
        robot: Isaac Lab's articulation.
        names: Names of groups; default: all.

    Raises:
        BackendError: There is no such group, or one of them has no PD gains that could be set.
    """
    collection = robot.actuators
    known = list(collection)
    for name in names or ():
        if name not in known:
            raise BackendError(f"the robot has no actuator group {name!r}. {did_you_mean(name, known)}")
    chosen = [name for name in known if names is None or name in names]
    if not chosen:
        raise BackendError(f"the robot has no actuator groups to control; it has {known}.")
    return [_recognize(robot, name, collection[name]) for name in chosen]


def _recognize(robot: Any, name: str, actuator: Any) -> ActuatorGroup:
    collection = robot.actuators
    indices = getattr(collection, "_group_joint_indices", {}).get(name)
    if name in getattr(collection, "_native_group_names", ()):
        group: ActuatorGroup = NativeGroup(robot, name, _columns(robot, indices))
    elif not (hasattr(actuator, "stiffness") and hasattr(actuator, "damping")) or _is_network(actuator):
        raise BackendError(
            f"the actuator group {name!r} ({type(actuator).__name__}) has no stiffness and damping that act on its "
            "joints. Name the groups to control: IsaacLabBackend(env, groups=[…])."
        )
    elif getattr(actuator, "is_implicit_model", False):
        group = ImplicitGroup(robot, name, actuator, _columns(robot, actuator.joint_indices))
    else:
        group = ExplicitGroup(robot, name, actuator, _columns(robot, actuator.joint_indices))
    return group


def _is_network(actuator: Any) -> bool:
    """Learned actuators carry gains that nothing reads."""
    return any(base.__name__.startswith("ActuatorNet") for base in type(actuator).__mro__)


def _columns(robot: Any, indices: Any) -> torch.Tensor:
    return column_indices(indices, len(robot.joint_names), robot.device)
