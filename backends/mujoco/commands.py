"""Position targets on their way to the joints, with an optional delay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.env_states import EnvState, put_array
from adc_wrappers.core.errors import BackendError

__all__ = ["MAX_COMMAND_DELAY", "CommandDelay"]

MAX_COMMAND_DELAY = 4
"""Largest delay of a position target, in physics steps."""


class CommandDelay:
    """Turns the targets of a policy step into the targets of its physics steps.

    Until the first targets arrive, a robot is told to hold a pose: at first ``pose``, after a reset that of its start.

    Args:
        num_envs: Number of robots.
        pose: rad, ``(joints,)``.
        decimation: Physics steps in one policy step.
    """

    def __init__(self, num_envs: int, pose: NDArray[np.float64], decimation: int) -> None:
        self.delays: NDArray[np.int64] = np.zeros(num_envs, dtype=np.int64)
        self._decimation = decimation
        self._control = np.zeros((num_envs, decimation, len(pose)))
        self._history = np.zeros((num_envs, MAX_COMMAND_DELAY, len(pose)))
        self._history[:] = pose

    def set_delays(self, delays: NDArray[np.float64], rows: NDArray[np.int64]) -> None:
        """Set the delay of chosen robots."""
        if not np.isin(delays, np.arange(MAX_COMMAND_DELAY + 1)).all():
            values = np.unique(delays).tolist()
            raise BackendError(f"command_delay: expected 0 to {MAX_COMMAND_DELAY} whole physics steps, got {values}.")
        self.delays[rows] = delays.astype(np.int64)

    def forget(self, held: NDArray[np.float64], rows: NDArray[np.int64]) -> None:
        """Drop the targets under way to chosen robots, as if they had been told to hold these poses so far."""
        self._history[rows] = held[:, None]

    def spread(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the targets of each physics step, ``(num_envs, decimation, joints)``; valid until the next call."""
        self._control[:] = targets[:, None]
        for step in range(min(int(self.delays.max()), self._decimation)):
            late = np.flatnonzero(self.delays > step)
            self._control[late, step] = self._history[late, MAX_COMMAND_DELAY + step - self.delays[late]]
        kept = min(self._decimation, MAX_COMMAND_DELAY)
        self._history[:, :-kept] = self._history[:, kept:]
        self._history[:, -kept:] = targets[:, None]
        return self._control

    def save(self) -> EnvState:
        """Return the delays and the targets under way."""
        return {"delays": self.delays.copy(), "history": self._history.copy()}

    def load(self, state: EnvState) -> None:
        """Restore them."""
        put_array(self._history, state, "history")
        delays = self.delays.copy()
        put_array(delays, state, "delays")
        self.set_delays(delays.astype(np.float64), np.arange(len(delays)))
