"""Checks of what callers pass in."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.core.errors import BackendError

__all__ = ["check_sizes", "row_indices", "shaped"]


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
