"""Actuators of an mjlab entity: who evaluates the PD law, and therefore where its gains are.

MuJoCo's own position elements take them from ``gainprm`` and ``biasprm`` of the model. These are shared by all envs
until they are expanded: a field that is not has stride 0, and what is written for one env is written for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from mjlab.actuator import BuiltinPdActuator, BuiltinPositionActuator, IdealPdActuator, XmlActuator

from adc_wrappers.core.errors import BackendError

__all__ = ["MODEL_FIELDS", "MjlabGroup", "find_groups"]

MODEL_FIELDS = ("actuator_gainprm", "actuator_biasprm")
"""Fields of the model that hold gains, to be expanded before anything is written."""

Rows = torch.Tensor | None
"""Chosen envs; None for all."""


class MjlabGroup(ABC):
    """Joints whose gains are kept in one place.

    Args:
        sim: mjlab's simulation.
        actuator: mjlab's actuator.
    """

    explicit = False
    """Whether the PD law is evaluated outside of MuJoCo's integrator."""

    def __init__(self, sim: Any, actuator: Any) -> None:
        self._sim, self._actuator = sim, actuator
        self.joint_names: tuple[str, ...] = tuple(actuator.target_names)

    @abstractmethod
    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return live stiffness and damping, ``(num_envs, joints)`` each."""

    @abstractmethod
    def write(self, stiffness: torch.Tensor, damping: torch.Tensor, rows: Rows) -> None:
        """Write gains of chosen envs, ``(len(rows), joints)`` each."""

    def _field(self, name: str, controls: torch.Tensor, column: int) -> torch.Tensor:
        values: torch.Tensor = getattr(self._sim.model, name)[:, controls, column]
        return values

    def _put(self, name: str, rows: Rows, controls: torch.Tensor, column: int, values: torch.Tensor) -> None:
        chosen = slice(None) if rows is None else rows[:, None]
        getattr(self._sim.model, name)[chosen, controls, column] = values


class PositionGroup(MjlabGroup):
    """A ``<position>`` element per joint: K and B in one element."""

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return K of the gain and B of the bias; NaN where gain and bias disagree about K."""
        controls = self._actuator.global_ctrl_ids
        stiffness = self._field("actuator_gainprm", controls, 0)
        wrong = stiffness != -self._field("actuator_biasprm", controls, 1)
        return stiffness.masked_fill(wrong, torch.nan), -self._field("actuator_biasprm", controls, 2)

    def write(self, stiffness: torch.Tensor, damping: torch.Tensor, rows: Rows) -> None:
        """Write gain and bias."""
        controls = self._actuator.global_ctrl_ids
        self._put("actuator_gainprm", rows, controls, 0, stiffness)
        self._put("actuator_biasprm", rows, controls, 1, -stiffness)
        self._put("actuator_biasprm", rows, controls, 2, -damping)


class PairGroup(MjlabGroup):
    """A ``<position>`` and a ``<velocity>`` element per joint: K in one, B in the other."""

    def __init__(self, sim: Any, actuator: Any) -> None:
        super().__init__(sim, actuator)
        controls, count = actuator.global_ctrl_ids, actuator.num_targets
        self._positions, self._velocities = controls[:count], controls[count:]

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return K and B; damping of the position element, which must be none, adds to it."""
        stiffness = self._field("actuator_gainprm", self._positions, 0)
        wrong = stiffness != -self._field("actuator_biasprm", self._positions, 1)
        extra = -self._field("actuator_biasprm", self._positions, 2)
        damping = self._field("actuator_gainprm", self._velocities, 0)
        return stiffness.masked_fill(wrong, torch.nan), damping + extra

    def write(self, stiffness: torch.Tensor, damping: torch.Tensor, rows: Rows) -> None:
        """Write gain and bias of both elements."""
        self._put("actuator_gainprm", rows, self._positions, 0, stiffness)
        self._put("actuator_biasprm", rows, self._positions, 1, -stiffness)
        self._put("actuator_gainprm", rows, self._velocities, 0, damping)
        self._put("actuator_biasprm", rows, self._velocities, 2, -damping)


class IdealGroup(MjlabGroup):
    """mjlab evaluates the PD law from its own tensors, before every physics step."""

    explicit = True

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the actuator's tensors."""
        return self._actuator.stiffness.clone(), self._actuator.damping.clone()

    def write(self, stiffness: torch.Tensor, damping: torch.Tensor, rows: Rows) -> None:
        """Write in place: fused groups hold the same memory, and a new tensor would leave them behind."""
        chosen = slice(None) if rows is None else rows
        self._actuator.stiffness[chosen] = stiffness
        self._actuator.damping[chosen] = damping


def find_groups(sim: Any, actuators: Sequence[Any]) -> list[MjlabGroup]:
    """Return the groups of position-controlled joints.

    Args:
        sim: mjlab's simulation.
        actuators: mjlab's actuators, of one entity.

    Raises:
        BackendError: One of them has no PD gains that act.
    """
    return [_recognize(sim, actuator) for actuator in actuators]


def _recognize(sim: Any, actuator: Any) -> MjlabGroup:
    if type(actuator).compute is IdealPdActuator.compute:  # a learned one computes otherwise and ignores its gains
        return IdealGroup(sim, actuator)
    if isinstance(actuator, BuiltinPdActuator):
        return PairGroup(sim, actuator)
    position = isinstance(actuator, XmlActuator) and actuator.command_field == "position"
    if isinstance(actuator, BuiltinPositionActuator) or position:
        return PositionGroup(sim, actuator)
    raise BackendError(
        f"{type(actuator).__name__} on {list(actuator.target_names)} is not a position controller with a stiffness and "
        "a damping. Name the joints to control: MjlabBackend(env, joints=[…])."
    )
