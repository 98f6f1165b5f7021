"""The table's schema: which columns a log has, and how they become a :class:`TrajectoryLog` and back."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .log import BaseTrack, TrajectoryError, TrajectoryLog, check_time

__all__ = ["BASE_COLUMNS", "MIN_ROWS", "joints_of", "log_from_columns", "log_to_columns"]

_Array = NDArray[np.float64]
_Columns = Mapping[str, _Array]

MIN_ROWS = 10
"""A file with fewer rows is refused: nothing can be identified from it."""

_REQUIRED = (("positions", "position"), ("velocities", "velocity"), ("targets", "target"))
_AXES = ("x", "y", "z")
BASE_COLUMNS: dict[str, tuple[str, ...]] = {
    "position": tuple(f"base_position.{axis}" for axis in _AXES),
    "quaternion": tuple(f"base_quaternion.{axis}" for axis in ("w", *_AXES)),
    "linear_velocity": tuple(f"base_linear_velocity.{axis}" for axis in _AXES),
    "angular_velocity": tuple(f"base_angular_velocity.{axis}" for axis in _AXES),
}
"""Columns of the base, all of them or none."""


def joints_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the joints that a table speaks of, in the order of its ``position.…`` columns."""
    return tuple(name.split(".", 1)[1] for name in names if name.startswith("position."))


def log_from_columns(columns: _Columns, description: Mapping[str, Any], where: str) -> TrajectoryLog:
    """Build a log from a table and its description.

    Args:
        columns: Numbers by column name; NaN where a cell has none.
        description: The sidecar's ``joints``, ``commanded`` and ``source``.
        where: What to call the table in errors.

    Raises:
        TrajectoryError: A column is missing or unknown, a cell is not a finite number, time does not increase, the
            quaternion is none, or the table is too short; names row (1 is the first after the header) and column.
    """
    joints = _joints(columns, description, where)
    _check_names(columns, joints, where)
    rows = len(columns["time"])
    if rows < MIN_ROWS:
        raise TrajectoryError(f"{where}: too short: expected at least {MIN_ROWS} rows, got {rows}.")
    for name, values in columns.items():
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            row = int(wrong[0])
            raise TrajectoryError(
                f"{where}: row {row + 1}, column {name!r}: expected a finite number, got {values[row]}."
            )
    stiffness, damping = _commanded(description, joints, where)
    has_torques = f"torque.{joints[0]}" in columns
    try:
        check_time(columns["time"])
        return TrajectoryLog(
            joint_names=joints,
            time=columns["time"],
            **{name: _table(columns, prefix, joints) for name, prefix in _REQUIRED},
            torques=_table(columns, "torque", joints) if has_torques else None,
            base=_base(columns),
            commanded_stiffness=stiffness,
            commanded_damping=damping,
            source=str(description.get("source", "")),
        )
    except TrajectoryError as error:
        raise TrajectoryError(f"{where}: {error}") from error


def log_to_columns(log: TrajectoryLog) -> dict[str, _Array]:
    """Return the table of a log, column by column."""
    columns = {"time": log.time}
    tables = [(prefix, getattr(log, name)) for name, prefix in _REQUIRED]
    if log.torques is not None:
        tables.append(("torque", log.torques))
    for prefix, table in tables:
        columns |= {f"{prefix}.{joint}": table[:, i] for i, joint in enumerate(log.joint_names)}
    if log.base is not None:
        for part, names in zip(log.base, BASE_COLUMNS.values(), strict=True):
            columns |= {name: part[:, i] for i, name in enumerate(names)}
    return columns


def _joints(columns: _Columns, description: Mapping[str, Any], where: str) -> tuple[str, ...]:
    joints = description.get("joints")
    names = isinstance(joints, list) and all(isinstance(name, str) for name in joints)
    if not isinstance(joints, list) or not joints or not names or len(set(joints)) != len(joints):
        raise TrajectoryError(
            f"{where}: its description needs 'joints', a list of joint names, each once; got {joints!r}."
        )
    for name in joints_of(tuple(columns)):
        if name not in joints:
            raise TrajectoryError(
                f"{where}: column 'position.{name}': no joint of this name; the description lists {', '.join(joints)}."
            )
    return tuple(joints)


def _check_names(columns: _Columns, joints: tuple[str, ...], where: str) -> None:
    required = ["time", *(f"{prefix}.{joint}" for _, prefix in _REQUIRED for joint in joints)]
    torques = [f"torque.{joint}" for joint in joints]
    base = [name for names in BASE_COLUMNS.values() for name in names]
    wanted = list(required)
    for group in (torques, base):
        wanted += group if any(name in columns for name in group) else []
    missing = [name for name in wanted if name not in columns]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        near = difflib.get_close_matches(missing[0], [name for name in columns if name not in wanted], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise TrajectoryError(f"{where}: column {missing[0]!r}{more} is missing.{hint}")
    unknown = [name for name in columns if name not in (*required, *torques, *base)]
    if unknown:
        raise TrajectoryError(
            f"{where}: column {unknown[0]!r} is not of the schema. Expected time, position.JOINT, velocity.JOINT, "
            f"target.JOINT, and optionally torque.JOINT and {', '.join(BASE_COLUMNS['position'])} and so on."
        )


def _commanded(description: Mapping[str, Any], joints: tuple[str, ...], where: str) -> tuple[_Array, _Array]:
    commanded = description.get("commanded")
    if not isinstance(commanded, Mapping):
        raise TrajectoryError(
            f"{where}: its description needs 'commanded': {{'stiffness': …, 'damping': …}}, the gains sent to "
            f"the robot; got {commanded!r}."
        )
    return _gains(commanded, "stiffness", joints, where), _gains(commanded, "damping", joints, where)


def _gains(commanded: Mapping[str, Any], name: str, joints: tuple[str, ...], where: str) -> _Array:
    """Read one number for all joints, a list in joint order, or a mapping by joint name."""
    values = commanded.get(name)
    if isinstance(values, Mapping):
        values = [values.get(joint) for joint in joints]
    elif isinstance(values, (int, float)):
        values = [values] * len(joints)
    numbers = isinstance(values, list) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in values
    )
    if not numbers or not isinstance(values, list) or len(values) != len(joints):
        raise TrajectoryError(
            f"{where}: commanded {name}: expected a number, {len(joints)} numbers, or one by name for every joint; got "
            f"{commanded.get(name)!r}."
        )
    return np.array(values, dtype=np.float64)


def _table(columns: _Columns, prefix: str, joints: tuple[str, ...]) -> _Array:
    return np.stack([columns[f"{prefix}.{joint}"] for joint in joints], axis=1)


def _base(columns: _Columns) -> BaseTrack | None:
    if BASE_COLUMNS["position"][0] not in columns:
        return None
    base = BaseTrack(*(np.stack([columns[name] for name in names], axis=1) for names in BASE_COLUMNS.values()))
    length = np.linalg.norm(base.quaternion, axis=1)
    wrong = np.flatnonzero(np.abs(length - 1.0) > 1e-2)
    if wrong.size:
        row = int(wrong[0])
        raise TrajectoryError(
            f"row {row + 1}, column 'base_quaternion.w' and x, y, z: expected unit length, got {length[row]:.4g}."
        )
    return base
