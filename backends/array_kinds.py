"""Arrays of numpy or torch, handled alike."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "any_last",
    "array_namespace",
    "clipped",
    "columns",
    "constant",
    "copied",
    "fill_rows",
    "put_rows",
    "sum_last",
]


def array_namespace(*arrays: Any) -> Any:
    """Return the common namespace of arrays, as :func:`array_api_compat.array_namespace` does.

    >>> array_namespace(np.zeros(1)).__name__
    'array_api_compat.numpy'
    """
    for array in arrays:
        if type(array) is not np.ndarray:
            return array_api_compat.array_namespace(*arrays)
    return _numpy_namespace()


@functools.cache
def _numpy_namespace() -> Any:
    # imported at first use: it imports all of numpy, f2py included, which takes longer than Gymnasium's own import
    import array_api_compat.numpy

    return array_api_compat.numpy


def constant(values: ArrayLike, like: Any) -> Any:
    """Return numbers as an array of the kind, type and place of ``like``; what is one already as it is."""
    if type(like) is np.ndarray:
        return np.asarray(values, dtype=like.dtype)
    if type(values) is type(like):
        return values
    return array_namespace(like).asarray(values, dtype=like.dtype, device=array_api_compat.device(like))


def columns(indices: Sequence[int], like: Any) -> Any:
    """Return indices with which arrays of the kind of ``like`` are indexed, on its device.

    A list would be sent to the device anew every time.
    """
    if type(like) is np.ndarray:
        return list(indices)
    xp = array_namespace(like)
    return xp.asarray(list(indices), dtype=xp.int64, device=array_api_compat.device(like))


def clipped(values: Any, lower: Any, upper: Any) -> Any:
    """Return values inside bounds that may be arrays; NaN stays NaN."""
    xp = array_namespace(values)
    return xp.minimum(xp.maximum(values, lower), upper)


def sum_last(values: Any) -> Any:
    """Sum over the last axis; of a single env's few numbers, numpy's own ``sum`` is slower by far than adding them."""
    if type(values) is np.ndarray:
        return np.add.reduce(values, axis=-1)
    return array_namespace(values).sum(values, axis=-1)


def any_last(mask: Any) -> Any:
    """Return whether a mask is true anywhere along the last axis, as quickly."""
    if type(mask) is np.ndarray:
        return np.logical_or.reduce(mask, axis=-1)
    return array_namespace(mask).any(mask, axis=-1)


def copied(array: Any) -> Any:
    """Return a copy of an array."""
    if type(array) is np.ndarray:
        return array.copy()
    return array_namespace(array).asarray(array, copy=True)


def put_rows(array: Any, rows: Any, values: Any) -> None:
    """Write values into rows of an array in place; of a tensor without a transfer from the host."""
    if type(array) is np.ndarray:
        array[rows] = values
    else:
        array.index_copy_(0, rows, values)


def fill_rows(array: Any, rows: Any, value: float) -> None:
    """Write one value into rows of an array in place; of a tensor without a transfer from the host."""
    if type(array) is np.ndarray:
        array[rows] = value
    else:
        array.index_fill_(0, rows, value)
