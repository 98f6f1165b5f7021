"""Comparing gains where they are: on the device of a batch of tensors, without waiting for it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .actuators import ActuatorBackend

__all__ = ["DeviceReadback"]


class DeviceReadback:
    """Checks of a backend's gains whose verdicts stay on its device until somebody reads them.

    Reading a number from a GPU waits for all work before it, so an iteration does it once, for everything.

    Args:
        backend: The backend; where its gains are numpy arrays there is nothing to do here.
        tolerance: Relative difference allowed.
    """

    def __init__(self, backend: ActuatorBackend, tolerance: float) -> None:
        self._backend = backend
        self._tolerance = tolerance
        self._wanted: tuple[NDArray[np.float64], ...] | None = None
        self._on_device: list[Any] | None = None
        self._verdict: Any = None

    def expect(self, stiffness: NDArray[np.float64], damping: NDArray[np.float64], *, unread: bool) -> None:
        """Take note of what was written; with ``unread`` it is compared now, and the verdict comes with the next."""
        self._wanted, self._on_device, self._verdict = (stiffness, damping), None, None
        if unread:
            self._verdict = self._excess()

    def checks(self) -> list[Any] | None:
        """Return the check of the live gains, and that of the last write if nobody has read it; numbers on the device.

        A number above zero, or NaN, says that the gains are not what was written. None: the gains are not tensors.
        """
        now = self._excess()
        if now is None:
            return None
        return [now] if self._verdict is None else [now, self._verdict]

    def _excess(self) -> Any:
        """By how much the worst gain is off beyond what is allowed, a number on the device."""
        live = self._backend.gains()
        if self._wanted is None or not hasattr(live.stiffness, "detach"):
            return None
        if self._on_device is None:
            self._on_device = [self._move(want, have) for want, have in zip(self._wanted, live, strict=True)]
        worst = None
        for want, have in zip(self._on_device, live, strict=True):
            excess = ((have - want).abs() - self._tolerance * want).amax()
            worst = excess if worst is None else sys.modules["torch"].maximum(worst, excess)
        return worst

    def _move(self, values: NDArray[np.float64], like: Any) -> Any:
        """Return numbers as a tensor beside another; the copy does not wait for the device."""
        torch = sys.modules["torch"]
        return torch.as_tensor(values, dtype=like.dtype).to(like.device, non_blocking=True)
