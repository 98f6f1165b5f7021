"""Values per joint: one number for all, one per joint in order, or by joint name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import CurriculumError, did_you_mean

__all__ = ["JointValues", "joint_count", "normalize_joint_values", "resolve_joint_values"]

JointValues: TypeAlias = float | Sequence[float] | Mapping[str, float]
"""A number for every joint, a sequence in joint order, or a mapping from joint name (or shell pattern) to number."""


def normalize_joint_values(field: str, values: Any) -> float | tuple[float, ...] | dict[str, float]:
    """Return ``values`` as plain Python numbers, so that they compare, hash and survive JSON.

    Args:
        field: Name of the setting, for the error message.
        values: What the user gave.
    """
    if isinstance(values, Mapping):
        if not values:
            raise CurriculumError(f"{field}: expected at least one joint in the mapping, got an empty one.")
        return {str(name): _number(f"{field}[{name!r}]", value) for name, value in values.items()}
    array = np.asarray(values)
    if array.ndim == 0:
        return _number(field, values)
    if array.ndim != 1 or array.size == 0:
        raise CurriculumError(
            f"{field}: expected a number, one number per joint, or a mapping by joint name; "
            f"got an array of shape {array.shape}."
        )
    return tuple(_number(f"{field}[{i}]", value) for i, value in enumerate(array.tolist()))


def _number(field: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise CurriculumError(f"{field}: expected a number, got {value!r}.") from error
    if not np.isfinite(number):
        raise CurriculumError(f"{field}: expected a finite number, got {number}.")
    return number


def joint_count(values: float | tuple[float, ...] | dict[str, float]) -> int | None:
    """Return how many joints ``values`` speaks of, or None where it does not say."""
    return len(values) if isinstance(values, tuple) else None


def resolve_joint_values(
    field: str, values: float | tuple[float, ...] | dict[str, float], joint_names: Sequence[str]
) -> NDArray[np.float64]:
    """Return one value per joint, in the order of ``joint_names``.

    In a mapping an exact joint name wins over a shell pattern such as ``"*_kn"``; every joint must be met
    exactly once, and every key must meet a joint.

    >>> resolve_joint_values("target_stiffness", {"*_kn": 50.0, "hip": 40.0}, ["hip", "fl_kn"])
    array([40., 50.])
    """
    count = len(joint_names)
    if isinstance(values, dict):
        return _resolve_mapping(field, values, joint_names)
    if isinstance(values, tuple):
        if len(values) != count:
            raise CurriculumError(
                f"{field}: expected {count} values, one per joint {tuple(joint_names)}, got {len(values)}."
            )
        return np.array(values, dtype=np.float64)
    return np.full(count, values, dtype=np.float64)


def _resolve_mapping(field: str, values: dict[str, float], joint_names: Sequence[str]) -> NDArray[np.float64]:
    for key in values:
        if not any(fnmatchcase(name, key) for name in joint_names):
            raise CurriculumError(f"{field}: unknown joint {key!r}. {did_you_mean(key, joint_names)}")
    resolved = np.empty(len(joint_names), dtype=np.float64)
    for i, name in enumerate(joint_names):
        keys = [name] if name in values else [key for key in values if fnmatchcase(name, key)]
        if len(keys) != 1:
            raise CurriculumError(
                f"{field}: expected exactly one entry for joint {name!r}, found {len(keys)}"
                + (f" ({', '.join(map(repr, keys))})" if keys else "")
                + ". Name each joint once, or use patterns that do not overlap."
            )
        resolved[i] = values[keys[0]]
    return resolved
