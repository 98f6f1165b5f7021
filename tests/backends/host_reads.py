"""Counters of what makes a GPU's host wait: every read of a tensor's value, in the CPU's place."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import torch
from torch.overrides import TorchFunctionMode

READS = {
    "item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "__array__", "__len__bool__",
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "is_nonzero", "equal", "allclose",
    "bincount", "__repr__", "__format__", "__contains__",
}  # fmt: skip
INDEXING = {"__getitem__", "__setitem__", "index_put_", "index_put"}


class HostReads(TorchFunctionMode):
    """A counter of reads while it is on, by kind in ``counts``.

    Indexing by a mask counts (it looks for where the mask is true), and so does ``torch.tensor(…, device=…)``.
    ``to(device)`` counts unless it is told not to wait; Isaac Lab's own is left out, where it says so of tensors that
    are on the device already.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._paused = False

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @contextmanager
    def paused(self) -> Iterator[None]:
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self._paused:
            name = getattr(func, "__name__", "")
            theirs = "isaaclab" in sys._getframe(1).f_globals.get("__name__", "").split(".")[0]
            waits = not theirs and _waits(name, args, kwargs)
            if name in READS or (name in INDEXING and _has_mask(args[1])) or waits:
                self.counts[name] += 1
        return func(*args, **kwargs)


def _has_mask(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in parts)


def _waits(name: str, args: Any, kwargs: Any) -> bool:
    if name == "to" and not kwargs.get("non_blocking", False):
        target = kwargs.get("device", args[1] if len(args) > 1 else None)
        return isinstance(target, (str, torch.device))
    return name in ("tensor", "as_tensor") and kwargs.get("device") is not None


class HostSends(HostReads):
    """A counter of what is sent to the device while it is on: lists made into tensors or used as such."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if not self._paused:
            made = name in ("tensor", "as_tensor", "asarray", "new_tensor") and not isinstance(args[-1], torch.Tensor)
            if made or (name in INDEXING and _has_list(args[1])):
                self.counts[name] += 1
        return func(*args, **(kwargs or {}))


def _has_list(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(hasattr(part, "__len__") and not isinstance(part, torch.Tensor) for part in parts)


class Outside(gym.Wrapper):
    """A wrapper inside which nothing is counted."""

    def __init__(self, env: Any, reads: HostReads) -> None:
        super().__init__(env)
        self._reads = reads

    def step(self, action: Any) -> Any:
        with self._reads.paused():
            return self.env.step(action)

    def reset(self, **kwargs: Any) -> Any:
        with self._reads.paused():
            return self.env.reset(**kwargs)
