"""Which array library a function works in; asked many times in every step, so numpy is known at a glance."""

from __future__ import annotations

from typing import Any

import array_api_compat
import array_api_compat.numpy as numpy_namespace
import numpy as np
from numpy.typing import ArrayLike

__all__ = ["array_namespace", "constant"]


def array_namespace(*arrays: Any) -> Any:
    """Return the common namespace of arrays, as :func:`array_api_compat.array_namespace` does.

    >>> array_namespace(np.zeros(1)).__name__
    'array_api_compat.numpy'
    """
    for array in arrays:
        if type(array) is not np.ndarray:
            return array_api_compat.array_namespace(*arrays)
    return numpy_namespace


def constant(values: ArrayLike, like: Any) -> Any:
    """Return numbers as an array of the kind, type and place of ``like``."""
    if type(like) is np.ndarray:
        return np.array(values, dtype=like.dtype)
    return array_namespace(like).asarray(values, dtype=like.dtype, device=array_api_compat.device(like))
