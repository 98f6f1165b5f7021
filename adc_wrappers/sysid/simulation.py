"""Many candidates at once: every window of the logs under every candidate's parameters, in one batch of robots."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotParameters, RobotStart

from .parameters import JointParameters, ParameterSpace
from .windows import TargetTable, Windows

__all__ = ["Prediction", "WindowSimulator", "identification_robot", "model_digest"]

_Array = NDArray[np.float64]

PHYSICS_STEP = 0.002
"""s."""

MOST_STEPS = 250
"""Physics steps in one call of the engine; more take memory without gaining time."""


def model_digest(robot: Mapping[str, Any]) -> str | None:
    """Return a digest of the robot's model, a file, a text or an ``MjSpec``; None for Spot."""
    model = robot.get("model")
    if model is None:
        return None
    if hasattr(model, "to_xml"):
        return hashlib.sha256(model.to_xml().encode()).hexdigest()
    text = isinstance(model, str) and "<" in model
    return hashlib.sha256(str(model).encode() if text else Path(model).read_bytes()).hexdigest()


class Prediction(NamedTuple):
    """Measurements that candidates would give, each ``(candidates, rows, joints)``; NaN where a simulation broke."""

    positions: _Array
    velocities: _Array
    torques: _Array


def identification_robot(
    num_envs: int, decimation: int, *, fixed_base: bool, robot: Mapping[str, Any] | None = None
) -> Any:
    """Return a batch of robots to identify with: the MuJoCo backend, by default with Spot.

    Args:
        num_envs: Robots in the batch.
        decimation: Physics steps in one call.
        fixed_base: Whether the base is on a stand.
        robot: Further settings of ``MujocoRobotBackend``: ``model``, ``joint_names``, ``physics_step``, ``nthread``, …
    """
    from adc_wrappers.backends.mujoco import MujocoRobotBackend

    settings: dict[str, Any] = {"physics_step": PHYSICS_STEP, **(robot or {})}
    return MujocoRobotBackend(num_envs, fixed_base=fixed_base, decimation=decimation, **settings)


class WindowSimulator:
    """A simulator of windows, open loop, from their measured starts under the logged targets.

    A batch holds ``candidates`` times the windows; more candidates are simulated one batch after another.

    Args:
        windows: The windows; all logs must have a base track, or none.
        space: What is free.
        candidates: Candidates in one batch.
        robot: Settings of the MuJoCo backend, see :func:`identification_robot`.
    """

    def __init__(
        self,
        windows: Windows,
        space: ParameterSpace,
        *,
        candidates: int,
        robot: Mapping[str, Any] | None = None,
    ) -> None:
        self.windows = windows
        self.space = space
        self.candidates = candidates
        on_stand = {log.base is None for log in windows.logs}
        if len(on_stand) != 1:
            raise ValueError("some logs have a base track and some have none: identify them one after another.")
        step = float((robot or {}).get("physics_step", PHYSICS_STEP))
        needed = int(np.ceil(windows.duration / step - 1e-9))
        self._calls = -(-needed // MOST_STEPS)
        self._backend = identification_robot(
            candidates * len(windows), -(-needed // self._calls), fixed_base=on_stand.pop(), robot=robot
        )
        self._tables = [TargetTable(log) for log in windows.logs]
        self._steps = self._calls * self._backend.decimation
        self._edges = np.arange(self._steps + 1) * step
        self.simulated_seconds = 0.0
        """Of all robots together, so far."""

    @property
    def physics_step(self) -> float:
        """Seconds."""
        return float(self._backend.physics_step)

    def predict(self, values: _Array) -> Prediction:
        """Return what candidates ``(n, len(space))`` would have measured at the rows that are compared."""
        parts = [self._batch(values[i : i + self.candidates]) for i in range(0, len(values), self.candidates)]
        return Prediction(*(np.concatenate(channel) for channel in zip(*parts, strict=True)))

    def _batch(self, values: _Array) -> Prediction:
        count = len(values)
        padded = np.concatenate((values, np.repeat(values[-1:], self.candidates - count, axis=0)))
        parameters = self.space.expand(padded)
        self._set(parameters)
        control = self._control(parameters)
        state, decimation = self._backend.state(), self._backend.decimation
        q, dq = state.joint_positions[:, None].copy(), state.joint_velocities[:, None].copy()
        start = Prediction(q, dq, np.zeros_like(q))
        tracks = [
            self._backend.advance_each(control[:, call * decimation : (call + 1) * decimation])
            for call in range(self._calls)
        ]
        self.simulated_seconds += len(control) * self._steps * self.physics_step
        kept = Prediction(*(np.concatenate(parts, axis=1) for parts in zip(start, *tracks, strict=True)))
        return self._at_rows(kept, parameters, count)

    def _set(self, parameters: JointParameters) -> None:
        """Give every robot its candidate's parameters and its window's start."""
        windows, backend = self.windows, self._backend
        count = len(windows)
        rows = np.arange(backend.num_envs)
        logs = [windows.logs[i] for i in windows.log_index]
        stiffness = np.stack([log.commanded_stiffness for log in logs])
        damping = np.stack([log.commanded_damping for log in logs])
        spread = JointParameters(*(np.repeat(part, count, axis=0) for part in parameters))
        copies = (self.candidates, 1)
        backend.set_gains(spread.stiffness * np.tile(stiffness, copies), spread.damping * np.tile(damping, copies))
        backend.set_parameters(
            RobotParameters(
                joint_armature=spread.armature, joint_coulomb=spread.coulomb, joint_viscous=spread.viscous
            ),
            rows,
        )  # fmt: skip
        positions = np.tile(windows.at_start("positions"), copies) - spread.offset
        velocities = np.tile(windows.at_start("velocities"), copies)
        place, turn, linear, angular = (np.tile(part, copies) for part in _base_starts(windows))
        backend.reset(RobotStart(place, turn, linear, angular, positions, velocities))

    def _control(self, parameters: JointParameters) -> _Array:
        """Return the targets of every robot and physics step, delayed, in true angles."""
        windows = self.windows
        joints = len(self.space.joint_names)
        control = np.empty((self.candidates, len(windows), len(self._edges) - 1, joints))
        columns, group = np.unique(parameters.delay, axis=1, return_inverse=True)
        for index, table in enumerate(self._tables):
            mine = np.flatnonzero(windows.log_index == index)
            start = windows.start_time[mine][None, :, None] + self._edges
            for column, delay in enumerate(columns.T):
                chosen = np.flatnonzero(group.reshape(-1) == column)
                averages = table.averages(start - delay[:, None, None], chosen)
                control[:, mine[:, None], :, chosen[None, :]] = np.moveaxis(averages, (1, 3), (0, 1))
        control -= parameters.offset[:, None, None, :]
        return control.reshape(self.candidates * len(windows), -1, joints)

    def _at_rows(self, kept: Prediction, parameters: JointParameters, count: int) -> Prediction:
        """Interpolate states to the times of the rows: a cubic through positions and velocities."""
        windows, step = self.windows, self.physics_step
        place = np.minimum((windows.elapsed / step + 1e-9).astype(np.int64), self._steps - 1)
        s = (windows.elapsed / step - place)[:, None]
        robot = np.arange(count)[:, None] * len(windows) + windows.row_window
        q0, q1 = kept.positions[robot, place], kept.positions[robot, place + 1]
        v0, v1 = kept.velocities[robot, place] * step, kept.velocities[robot, place + 1] * step
        positions = (
            (1 + 2 * s) * (1 - s) ** 2 * q0 + s * (1 - s) ** 2 * v0 + s**2 * (3 - 2 * s) * q1 - s**2 * (1 - s) * v1
        )
        speed = 6 * s * (1 - s) * (q1 - q0) + (1 - s) * (1 - 3 * s) * v0 + s * (3 * s - 2) * v1
        torques = (1 - s) * kept.torques[robot, place] + s * kept.torques[robot, place + 1]
        return Prediction(positions + parameters.offset[:count, None, :], speed / step, torques)

    def close(self) -> None:
        """Release the engine."""
        self._backend.close()


def _base_starts(windows: Windows) -> tuple[_Array, _Array, _Array, _Array]:
    """Return position, quaternion, world velocity and body rates of the base at the start of every window."""
    count = len(windows)
    if windows.logs[0].base is None:
        level = np.tile([1.0, 0.0, 0.0, 0.0], (count, 1))
        return np.zeros((count, 3)), level, np.zeros((count, 3)), np.zeros((count, 3))
    tracks = [windows.logs[i].base for i in windows.log_index]
    rows = zip(tracks, windows.first, strict=True)
    starts = [[part[row] for part in track] for track, row in rows if track is not None]
    position, quaternion, linear, angular = (np.stack(part) for part in zip(*starts, strict=True))
    quaternion = quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)
    twice = 2.0 * np.cross(quaternion[:, 1:], linear)
    world = linear + quaternion[:, :1] * twice + np.cross(quaternion[:, 1:], twice)
    return position, quaternion, world, angular
