"""The history of observations: what was seen in the policy steps before this one."""

from __future__ import annotations

from typing import Any

from adc_wrappers.backends.array_kinds import array_namespace, put_rows

__all__ = ["ObservationHistory"]


class ObservationHistory:
    """The last observations of a batch of robots, newest first, side by side, in numpy or torch.

    One noisy moment does not tell how a robot moves; several do, and with the last actions among them they also tell
    how late its joints are. An episode begins as if the robot had always been as it is.

    Args:
        frame: What is observed now, ``(n, size)``: arrays of its kind, on its device, are used.
        moments: How many moments a policy sees, this one included; 1: nothing is remembered.
    """

    def __init__(self, frame: Any, moments: int) -> None:
        self._before = moments - 1
        self.past: Any = self._repeated(frame) if self._before else None
        """The moments before this one, ``(n, (moments − 1) · size)``; None if nothing is remembered."""

    def _repeated(self, frame: Any) -> Any:
        return array_namespace(frame).concat((frame,) * self._before, axis=-1)

    def begin(self, frame: Any, rows: Any) -> None:
        """Begin episodes of chosen robots with what is observed of all now."""
        if self.past is not None:
            put_rows(self.past, rows, self._repeated(frame[rows]))

    def step(self, frame: Any) -> None:
        """Remember what is observed, before it changes."""
        if self.past is not None:
            older = array_namespace(frame).concat((frame, self.past), axis=-1)
            self.past[:] = older[:, : self.past.shape[1]]

    def seen(self, frame: Any) -> Any:
        """Return what a policy sees: what is observed now, and what is remembered."""
        return frame if self.past is None else array_namespace(frame).concat((frame, self.past), axis=-1)
