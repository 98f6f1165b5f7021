"""The one place where numba and scipy are imported, and how loops are compiled and spread over threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from adc_wrappers.core.errors import MissingExtraError

try:
    import numba
except ImportError as error:
    raise MissingExtraError("numba", "viability", "Computing viability") from error
try:
    from scipy import linalg
except ImportError as error:
    raise MissingExtraError("scipy", "viability", "Designing a linear-quadratic regulator") from error

__all__ = ["available_threads", "compiled", "linalg", "spread"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile a loop over numbers and arrays at its first call; the machine code is kept on disk."""
    result: _Function = numba.njit(cache=True, nogil=True)(function)
    return result


def available_threads() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spread(work: Callable[[int, int], Any], count: int, threads: int | None = None) -> list[Any]:
    """Call ``work(first, last)`` on parts of ``range(count)``, one thread each, and return the answers in order."""
    parts = max(1, min(count, available_threads() if threads is None else threads))
    edges = [count * part // parts for part in range(parts + 1)]
    if parts == 1:
        return [work(0, count)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))
