"""Checks of what the backend is given, and how many workers it gets."""

from __future__ import annotations

import multiprocessing
import operator
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import BackendError

__all__ = ["check_settings", "numbers", "worker_count"]

Array = NDArray[np.float64]
_FEW_ENVS = 4


def numbers(name: str, values: Any, shape: tuple[int, ...], least: float = -np.inf, most: float = np.inf) -> Array:
    """Return finite numbers of this shape and range, or say what is wrong with them."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise BackendError(f"{name}: expected shape {shape}, got {array.shape}.")
    if not (np.isfinite(array).all() and (array >= least).all() and (array <= most).all()):
        raise BackendError(f"{name}: expected finite numbers from {least:g} to {most:g}, got {array.tolist()}.")
    return array


def check_settings(num_envs: int, physics_step: float, decimation: int, workers: int | None, gravity: float) -> None:
    """Refuse settings that no world can have."""
    for name, value, least in (("num_envs", num_envs, 1), ("decimation", decimation, 1), ("workers", workers or 0, 0)):
        if operator.index(value) < least:
            raise BackendError(f"{name}: expected a whole number of at least {least}, got {value}.")
    if not (np.isfinite(physics_step) and physics_step > 0.0 and np.isfinite(gravity)):
        raise BackendError(f"expected a physics_step above 0 and a finite gravity, got {physics_step} and {gravity}.")


def worker_count(num_envs: int, workers: int | None) -> int:
    """Return how many processes to start; a daemonic process may start none."""
    daemonic = multiprocessing.current_process().daemon
    if workers is None:
        return 0 if daemonic or num_envs < _FEW_ENVS else min(num_envs, _cores())
    if workers and daemonic:
        raise BackendError(
            f"workers={workers}: this process is itself a daemonic worker, which may start none. Use workers=0 here."
        )
    return min(workers, num_envs)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
