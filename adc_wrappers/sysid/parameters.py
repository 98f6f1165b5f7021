"""Parameters that are identified: which are free, for which joints together, and between which bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import did_you_mean

__all__ = ["KINDS", "FreeParameter", "JointParameters", "ParameterKind", "ParameterSpace", "Scope", "parse_free"]

_Array = NDArray[np.float64]
Scope = Literal["shared", "type", "joint"]


class ParameterKind(NamedTuple):
    """A parameter of the actuator model."""

    unit: str
    lower: float
    upper: float
    fixed: float
    """Value while it is not free."""
    meaning: str


KINDS: dict[str, ParameterKind] = {
    "stiffness": ParameterKind("× commanded", 0.3, 1.7, 1.0, "K of the PD law, as a multiple of the commanded one"),
    "damping": ParameterKind("× commanded", 0.2, 3.0, 1.0, "B of the PD law, as a multiple of the commanded one"),
    "armature": ParameterKind("kg·m²", 0.0, 0.1, 0.0, "rotor inertia seen at the joint"),
    "coulomb": ParameterKind("N·m", 0.0, 5.0, 0.0, "dry friction of the joint"),
    "viscous": ParameterKind("N·m·s/rad", 0.0, 5.0, 0.0, "viscous friction of the joint; it acts as damping does"),
    "delay": ParameterKind("s", 0.0, 0.03, 0.0, "time from a target to the PD law"),
    "offset": ParameterKind("rad", -0.1, 0.1, 0.0, "measured minus true angle; the PD law sees the measured one"),
}
"""Parameters by name. Bounds are wide enough for a legged robot of Spot's size; give your own for another."""


class JointParameters(NamedTuple):
    """Values of every candidate and joint, each ``(candidates, joints)``; units as in :data:`KINDS`."""

    stiffness: _Array
    damping: _Array
    armature: _Array
    coulomb: _Array
    viscous: _Array
    delay: _Array
    offset: _Array


@dataclass(frozen=True)
class FreeParameter:
    """A parameter kind that is free."""

    kind: str
    """One of :data:`KINDS`."""

    scope: Scope = "shared"
    """One number for all joints, one per joint type (the last part of its name: hx, hy, kn), or one per joint."""

    lower: float | None = None
    upper: float | None = None
    """Bounds; by default those of the kind."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown parameter {self.kind!r}. {did_you_mean(self.kind, KINDS)}")
        if self.scope not in get_args(Scope):
            raise ValueError(f"{self.kind}: unknown scope {self.scope!r}. {did_you_mean(self.scope, get_args(Scope))}")
        low, high = self.bounds
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"{self.kind}: expected finite bounds, the lower below the upper; got {low} and {high}.")
        if low < 0.0 and self.kind != "offset":
            raise ValueError(f"{self.kind}: expected bounds of at least 0, got {low}.")

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound."""
        kind = KINDS[self.kind]
        return kind.lower if self.lower is None else self.lower, kind.upper if self.upper is None else self.upper


def parse_free(text: str) -> FreeParameter:
    """Read ``KIND``, ``KIND:SCOPE`` or ``KIND:SCOPE=LOWER,UPPER``.

    >>> parse_free("coulomb:type=0,2")
    FreeParameter(kind='coulomb', scope='type', lower=0.0, upper=2.0)
    """
    head, _, bounds = text.partition("=")
    kind, _, scope = head.partition(":")
    lower = upper = None
    if bounds:
        try:
            lower, upper = (float(part) for part in bounds.split(","))
        except ValueError as error:
            raise ValueError(f"{text!r}: expected bounds as LOWER,UPPER, got {bounds!r}.") from error
    return FreeParameter(kind, scope or "shared", lower, upper)  # type: ignore[arg-type]


class _Column(NamedTuple):
    """One number that is searched for."""

    kind: str
    group: str
    joints: tuple[int, ...]
    lower: float
    upper: float


class ParameterSpace:
    """The box that is searched: its columns are free parameters of groups of joints.

    Args:
        free: The free parameters.
        joint_names: The robot's joints.
        fixed: Values of kinds that are not free, where they are not the default (1 for gains, 0 for the others).

    Example:
        >>> space = ParameterSpace([FreeParameter("stiffness"), FreeParameter("coulomb", "type")], ["fl_hx", "fl_kn"])
        >>> space.names
        ('stiffness', 'coulomb[hx]', 'coulomb[kn]')
    """

    def __init__(
        self, free: Iterable[FreeParameter], joint_names: Sequence[str], fixed: Mapping[str, float] | None = None
    ) -> None:
        self.free = tuple(free)
        self.joint_names = tuple(joint_names)
        self.fixed = dict(fixed or {})
        kinds = [parameter.kind for parameter in self.free]
        if not kinds or len(set(kinds)) != len(kinds):
            raise ValueError(f"expected free parameters, each kind once, got {kinds}.")
        for kind in self.fixed:
            if kind not in KINDS or kind in kinds:
                raise ValueError(f"fixed: expected kinds that are not free, got {kind!r}.")
        self._columns = [column for parameter in self.free for column in _columns(parameter, self.joint_names)]
        self.lower = np.array([column.lower for column in self._columns])
        self.upper = np.array([column.upper for column in self._columns])

    def __len__(self) -> int:
        """Return how many numbers are searched for."""
        return len(self._columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of every number: ``kind`` or ``kind[group]``."""
        return tuple(f"{c.kind}[{c.group}]" if c.group else c.kind for c in self._columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kind of every number."""
        return tuple(column.kind for column in self._columns)

    def joints(self, index: int) -> tuple[int, ...]:
        """Return the joints that a number acts on."""
        return self._columns[index].joints

    def from_unit(self, points: _Array) -> _Array:
        """Return values of points in the unit cube."""
        return np.asarray(self.lower + points * (self.upper - self.lower))

    def to_unit(self, values: _Array) -> _Array:
        """Return values as points in the unit cube."""
        return np.asarray((values - self.lower) / (self.upper - self.lower))

    def expand(self, values: _Array) -> JointParameters:
        """Return the parameters of every joint for values ``(candidates, len(self))``."""
        table = np.atleast_2d(values)
        shape = (len(table), len(self.joint_names))
        parts = {
            name: np.full(shape, self.fixed.get(name, kind.fixed), dtype=np.float64) for name, kind in KINDS.items()
        }
        for index, column in enumerate(self._columns):
            parts[column.kind][:, column.joints] = table[:, index, None]
        return JointParameters(**parts)


def _columns(parameter: FreeParameter, joint_names: tuple[str, ...]) -> list[_Column]:
    lower, upper = parameter.bounds
    if parameter.scope == "shared":
        groups = {"": tuple(range(len(joint_names)))}
    elif parameter.scope == "joint":
        groups = {name: (index,) for index, name in enumerate(joint_names)}
    else:
        types = [name.rsplit("_", 1)[-1] for name in joint_names]
        groups = {kind: tuple(i for i, other in enumerate(types) if other == kind) for kind in dict.fromkeys(types)}
    return [_Column(parameter.kind, group, joints, lower, upper) for group, joints in groups.items()]
