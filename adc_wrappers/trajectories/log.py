"""A trajectory in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["BaseTrack", "TrajectoryError", "TrajectoryLog"]

_Array = NDArray[np.float64]


class TrajectoryError(ValueError):
    """A trajectory log that cannot be used; says where."""


class BaseTrack(NamedTuple):
    """Motion of the base, one row per row of the log."""

    position: _Array
    """Origin of the base link in the world, m, ``(rows, 3)``."""

    quaternion: _Array
    """Orientation in the world, w x y z, ``(rows, 4)``."""

    linear_velocity: _Array
    """In the base frame, m/s, ``(rows, 3)``."""

    angular_velocity: _Array
    """In the base frame, rad/s, ``(rows, 3)``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryLog:
    """One trajectory of one robot.

    A row is an instant: positions, velocities, torques and base are what was measured then; targets are what the joints
    were told from then until the next row.

    Raises:
        TrajectoryError: A shape is wrong, a number is not finite, or time does not increase; names row and column.
    """

    joint_names: tuple[str, ...]
    """In the order of every joint array."""

    time: _Array
    """Seconds on the robot's clock, strictly increasing, ``(rows,)``."""

    positions: _Array
    """rad, ``(rows, joints)``."""

    velocities: _Array
    """rad/s, ``(rows, joints)``."""

    targets: _Array
    """Commanded positions q_d, rad, ``(rows, joints)``."""

    commanded_stiffness: _Array
    """Stiffness that was sent to the robot, N·m/rad, ``(joints,)``."""

    commanded_damping: _Array
    """Damping that was sent to the robot, N·m·s/rad, ``(joints,)``."""

    torques: _Array | None = None
    """Torques of the actuators, before the friction of the joints, N·m, ``(rows, joints)``."""

    base: BaseTrack | None = None
    """Motion of the base; None for a robot on a stand."""

    source: str = ""
    """Where the log comes from, in words."""

    def __post_init__(self) -> None:
        joints = len(self.joint_names)
        if not joints or len(set(self.joint_names)) != joints:
            raise TrajectoryError(f"joint_names: expected names, each once, got {self.joint_names}.")
        object.__setattr__(self, "time", _frozen("time", self.time, None))
        rows = len(self.time)
        for name in ("positions", "velocities", "targets", "torques"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _frozen(name, getattr(self, name), (rows, joints), self.joint_names))
        for name in ("commanded_stiffness", "commanded_damping"):
            object.__setattr__(self, name, self._gains(name))
        if self.base is not None:
            widths = (3, 4, 3, 3)
            parts = zip(BaseTrack._fields, self.base, widths, strict=True)
            base = BaseTrack(*(_frozen(f"base_{name}", part, (rows, width)) for name, part, width in parts))
            object.__setattr__(self, "base", base)
        check_time(self.time)

    def _gains(self, name: str) -> _Array:
        values = _frozen(name, getattr(self, name), (len(self.joint_names),))
        if not (values >= 0.0).all():
            raise TrajectoryError(f"{name}: expected numbers of at least 0, got {values.tolist()}.")
        return values

    @property
    def duration(self) -> float:
        """Seconds from the first row to the last."""
        return float(self.time[-1] - self.time[0])

    @property
    def interval(self) -> float:
        """Median seconds between two rows."""
        return float(np.median(np.diff(self.time)))

    def part(self, begin: int, end: int) -> TrajectoryLog:
        """Return rows ``begin`` to ``end`` (exclusive) as a log of their own."""
        rows = slice(begin, end)
        return TrajectoryLog(
            joint_names=self.joint_names,
            time=self.time[rows],
            positions=self.positions[rows],
            velocities=self.velocities[rows],
            targets=self.targets[rows],
            commanded_stiffness=self.commanded_stiffness,
            commanded_damping=self.commanded_damping,
            torques=None if self.torques is None else self.torques[rows],
            base=None if self.base is None else BaseTrack(*(part[rows] for part in self.base)),
            source=self.source,
        )


def check_time(time: _Array) -> None:
    """Refuse fewer than two rows, and time that does not increase."""
    if len(time) < 2:
        raise TrajectoryError(f"too short: expected at least 2 rows, got {len(time)}.")
    back = np.flatnonzero(np.diff(time) <= 0.0)
    if back.size:
        row = int(back[0]) + 1
        raise TrajectoryError(
            f"row {row + 1}, column 'time': expected more than {time[row - 1]:.9g} s of the row before, got "
            f"{time[row]:.9g}. Time must be the robot's clock and strictly increase; remove rows that came twice."
        )


def _frozen(
    name: str, values: ArrayLike, shape: tuple[int, ...] | None, columns: Sequence[str] | None = None
) -> _Array:
    """Return a float64 copy of this shape that nobody can write to."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != (1 if shape is None else len(shape)) or (shape is not None and array.shape != shape):
        raise TrajectoryError(f"{name}: expected shape {'(rows,)' if shape is None else shape}, got {array.shape}.")
    wrong = np.argwhere(~np.isfinite(array))
    if wrong.size:
        row, place = int(wrong[0][0]), wrong[0][1:]
        column = name if not place.size else f"{name}.{place[0] if columns is None else columns[place[0]]}"
        raise TrajectoryError(
            f"row {row + 1}, column {column!r}: expected a finite number, got {array[tuple(wrong[0])]}."
        )
    array.setflags(write=False)
    return array
