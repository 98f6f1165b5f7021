"""Pieces of logs that are simulated from where they were measured, and the targets that act in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.trajectories import TrajectoryError, TrajectoryLog

__all__ = ["TargetTable", "WindowSettings", "Windows", "in_joint_order"]

_Array = NDArray[np.float64]
_Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """Settings by which a log is cut."""

    length: float = 0.5
    """Seconds that are compared in one window."""

    burn_in: float = 0.2
    """Seconds that are simulated before, so that the noise of the measured start has died away."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.length) and self.length > 0.0 and np.isfinite(self.burn_in) and self.burn_in >= 0.0):
            raise ValueError(
                f"windows: expected a length above 0 and a burn-in of at least 0 s, got {self.length} and "
                f"{self.burn_in}."
            )


class Windows:
    """Windows of several logs, and the rows that are compared in them.

    Windows follow each other without a gap; what is left at the end of a log is not used.

    Args:
        logs: Logs of one robot, all with its joints in its order.
        settings: How they are cut.

    Raises:
        TrajectoryError: A log is shorter than one window.
    """

    def __init__(self, logs: Sequence[TrajectoryLog], settings: WindowSettings) -> None:
        self.logs = tuple(logs)
        self.settings = settings
        self.log_index: _Rows
        """Log of every window."""
        self.first: _Rows
        """Row of its log at which a window is started."""
        cuts = [self._cut(index, log) for index, log in enumerate(self.logs)]
        self.log_index = np.concatenate([np.full(len(first), i) for i, (first, _) in enumerate(cuts)])
        self.first = np.concatenate([first for first, _ in cuts])
        rows = [compared for _, compared in cuts]
        offsets = np.cumsum([0, *(len(first) for first, _ in cuts[:-1])])
        self.row_window = np.concatenate([w + begin for (w, _), begin in zip(rows, offsets, strict=True)])
        """Window of every row that is compared."""
        self.row = np.concatenate([r for _, r in rows])
        """Its row in the window's log."""
        times = [log.time for log in self.logs]
        self.start_time = np.array([times[i][f] for i, f in zip(self.log_index, self.first, strict=True)])
        row_time = np.array([times[self.log_index[w]][r] for w, r in zip(self.row_window, self.row, strict=True)])
        self.elapsed = row_time - self.start_time[self.row_window]
        """Seconds from the start of its window to every row that is compared."""

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.first)

    @property
    def duration(self) -> float:
        """Seconds that are simulated in one window."""
        return self.settings.burn_in + self.settings.length

    def _cut(self, index: int, log: TrajectoryLog) -> tuple[_Rows, tuple[_Rows, _Rows]]:
        """Return the first rows of a log's windows, and window and row of every row that is compared."""
        settings = self.settings
        count = int(np.floor((log.duration - settings.burn_in) / settings.length + 1e-9))
        if count < 1:
            raise TrajectoryError(
                f"log {index + 1} ({log.source or 'no source'}) is too short: {log.duration:.3g} s in {len(log.time)} "
                f"rows, one window takes {self.duration:.3g} s. Record longer, or use a shorter window and burn-in."
            )
        begin = log.time[0] + settings.length * np.arange(count)
        first = np.searchsorted(log.time, begin - 1e-9)
        low = np.searchsorted(log.time, log.time[first] + settings.burn_in + 1e-9)
        high = np.searchsorted(log.time, log.time[first] + self.duration + 1e-9)
        window = np.repeat(np.arange(count), high - low)
        row = np.concatenate([np.arange(a, b) for a, b in zip(low, high, strict=True)])
        return first, (window, row)

    def measured(self, name: str) -> _Array:
        """Return what was measured at every row that is compared: ``positions``, ``velocities`` or ``torques``."""
        tables = [getattr(log, name) for log in self.logs]
        return np.stack([tables[self.log_index[w]][r] for w, r in zip(self.row_window, self.row, strict=True)])

    def at_start(self, name: str) -> _Array:
        """Return what was measured at the start of every window."""
        tables = [getattr(log, name) for log in self.logs]
        return np.stack([tables[i][f] for i, f in zip(self.log_index, self.first, strict=True)])


class TargetTable:
    """Targets of a log with any delay.

    A target acts from its row's time plus the delay until the next one does. What a physics step sees is the average of
    its targets over that step, so that the motion is a smooth function of the delay.

    Args:
        log: The log.
    """

    def __init__(self, log: TrajectoryLog) -> None:
        self._time = log.time
        self._targets = log.targets
        steps = np.diff(log.time)[:, None] * log.targets[:-1]
        self._integral = np.concatenate((np.zeros((1, log.targets.shape[1])), np.cumsum(steps, axis=0)))

    def averages(self, edges: _Array, joints: Sequence[int] | _Rows) -> _Array:
        """Return the average target between consecutive times: ``(…, n + 1)`` to ``(…, n, joints)``.

        Before the first row its target is taken to have been in force, after the last row the last one.
        """
        place = np.clip(np.searchsorted(self._time, edges, side="right") - 1, 0, len(self._time) - 1)
        since = (edges - self._time[place])[..., None]
        chosen = np.asarray(joints)
        integral = self._integral[place[..., None], chosen] + since * self._targets[place[..., None], chosen]
        return np.asarray(np.diff(integral, axis=-2) / np.diff(edges, axis=-1)[..., None])


def in_joint_order(log: TrajectoryLog, joint_names: Sequence[str]) -> TrajectoryLog:
    """Return a log with the robot's joints in the robot's order.

    Raises:
        TrajectoryError: The log lacks a joint or has one that the robot has not.
    """
    missing = [name for name in joint_names if name not in log.joint_names]
    extra = [name for name in log.joint_names if name not in joint_names]
    if missing or extra:
        columns = ", ".join(f"position.{name}" for name in (extra or missing))
        raise TrajectoryError(
            f"log {log.source!r}: columns {columns}: the robot model "
            + (f"has no joint {', '.join(extra)}" if extra else f"also has the joint {', '.join(missing)}")
            + f". Expected {', '.join(joint_names)}."
        )
    if tuple(joint_names) == log.joint_names:
        return log
    order = [log.joint_names.index(name) for name in joint_names]
    return TrajectoryLog(
        joint_names=tuple(joint_names),
        time=log.time,
        positions=log.positions[:, order],
        velocities=log.velocities[:, order],
        targets=log.targets[:, order],
        torques=None if log.torques is None else log.torques[:, order],
        commanded_stiffness=log.commanded_stiffness[order],
        commanded_damping=log.commanded_damping[order],
        base=log.base,
        source=log.source,
    )
