"""Stepping a batch of robots on threads, with a torque limit that depends on the knee's angle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import KNEE_TORQUES, knee_torque_limit

from .engine import batch, mujoco, quiet
from .layout import RobotLayout

__all__ = ["MAX_SPEED", "BatchStepper"]

MAX_SPEED = 1e3
"""m/s and rad/s: a robot with a faster coordinate is a simulation that has blown up."""

_RECORDED = ("actuator_force", "actuator_length", "sensordata")
_LOWEST_KNEE_LIMIT = float(KNEE_TORQUES.min())
_PARKING_HEIGHT = 10.0  # m: out of reach of the ground


class BatchStepper:
    """A :class:`mujoco.batch.Batch` of robots and the physics steps it takes.

    A policy step is one call into the engine, which then clips every joint at its largest torque. Where that let a knee
    exceed the limit at its angle in any physics step, that robot alone is put back and its policy step is taken again,
    physics step by physics step, with the limit at the present angle in force. Both ways give the same bits where no
    limit acts, so the result is that of a limit evaluated at every physics step.

    Args:
        model: The compiled robot.
        num_envs: Number of robots.
        nthread: Threads, the caller's included.
        decimation: Physics steps in one policy step.
        layout: Order of joints and links.
        fixed_base: Whether the base is welded.
    """

    def __init__(
        self, model: Any, num_envs: int, nthread: int, decimation: int, layout: RobotLayout, fixed_base: bool
    ) -> None:
        self._batch = batch.Batch(model, num_envs, nthread)
        self._decimation = decimation
        self._knees = layout.knees
        self.joint_positions = np.array([int(model.joint(n).qposadr[0]) for n in layout.joint_names])
        self.joint_velocities = np.array([int(model.joint(n).dofadr[0]) for n in layout.joint_names])
        self.qpos: NDArray[np.float64] = self._batch.bind("qpos")
        self.qvel: NDArray[np.float64] = self._batch.bind("qvel")
        self._force_range = self._batch.expand("actuator_forcerange")
        self._peak_range = self._force_range[0, self._knees].copy()
        sizes = {"actuator_force": model.nu, "actuator_length": model.nu, "sensordata": model.nsensordata}
        self._records = {name: np.zeros((num_envs, decimation, size)) for name, size in sizes.items()}
        self._knee_force = np.zeros((num_envs, decimation, len(self._knees)))
        self._knee_angle = np.zeros_like(self._knee_force)
        self._motion = self._motion_columns()
        self._before = self._motion.copy()
        self._failed = np.zeros(num_envs, dtype=bool)
        self.qpos[:, self.joint_positions] = layout.nominal_pose
        self._parked = self._motion[0].copy()
        if not fixed_base:
            self._parked[1 + 2] = _PARKING_HEIGHT  # after the time: x, y, z of the base

    def _motion_columns(self) -> NDArray[np.float64]:
        """A view of what a physics step changes: time, positions, velocities, and the solver's warm start."""
        spec = mujoco.mjtState.mjSTATE_FULLPHYSICS.value | mujoco.mjtState.mjSTATE_WARMSTART.value
        columns = mujoco.mj_stateSize(self._batch.model, spec)
        state: NDArray[np.float64] = self._batch.state
        return state[:, :columns]

    @property
    def forces(self) -> NDArray[np.float64]:
        """Net ground force of each link at each physics step of the last policy step, ``(n, decimation, links, 3)``."""
        record = self._records["sensordata"]
        return record.reshape(*record.shape[:2], -1, 3)

    @property
    def torques(self) -> NDArray[np.float64]:
        """Torque of each joint at the last physics step, as the engine applied it, ``(n, joints)``."""
        return self._records["actuator_force"][:, -1]

    def expand(self, name: str) -> NDArray[np.float64]:
        """Return the engine's live values of a model field for every robot, ``(n, …)``."""
        values: NDArray[np.float64] = self._batch.expand(name)
        return values

    def update_constants(self, rows: NDArray[np.int64]) -> None:
        """Recompute what the engine derives from masses."""
        self._batch.set_const(np.unique(rows))

    def place(self, qpos: NDArray[np.float64], qvel: NDArray[np.float64], rows: NDArray[np.int64]) -> None:
        """Put robots into a state, at time 0 and without memory."""
        self._motion[rows] = 0.0
        self.qpos[rows], self.qvel[rows] = qpos, qvel
        self._clear(rows)

    def park(self, rows: NDArray[np.int64]) -> None:
        """Take robots out of play: at rest, away from the ground, where they can do no harm."""
        self._motion[rows] = self._parked
        self._clear(rows)

    def _clear(self, rows: NDArray[np.int64]) -> None:
        self._batch.warning[rows] = 0
        self._failed[rows] = False

    def sound(self) -> NDArray[np.bool_]:
        """Return which robots are simulated properly: finite, not absurdly fast, and without a warning."""
        with np.errstate(invalid="ignore"):
            slow = np.abs(self.qvel).max(axis=1) <= MAX_SPEED
        calm = ~self._batch.warning[:, :, 1].any(axis=1)
        return np.asarray(slow & calm & ~self._failed & np.isfinite(self.qpos).all(axis=1))

    def run(self, control: NDArray[np.float64]) -> None:
        """Take one policy step under the targets of each physics step, ``(n, decimation, joints)``."""
        np.copyto(self._before, self._motion)
        with quiet():
            self._advance(control, None, self._records)
            over = self._over_knee_limit()
            if over.size:
                self._repeat(control, over)

    def _advance(
        self, control: NDArray[np.float64], rows: NDArray[np.int64] | None, out: dict[str, NDArray[np.float64]]
    ) -> dict[str, NDArray[np.float64]]:
        try:
            self._batch.rollout(control.shape[1], control, record=_RECORDED, ids=rows, out=out)
        except batch.SimulationError as error:
            self._failed[error.ids] = True
        return out

    def _over_knee_limit(self) -> NDArray[np.int64]:
        """Return the robots one of whose knees exceeded the limit at its angle in one of the last physics steps."""
        if not self._knees.size:
            return self._knees
        force, angle = self._knee_force, self._knee_angle
        np.take(self._records["actuator_force"], self._knees, axis=2, out=force)
        np.abs(force, out=force)
        if not (force > _LOWEST_KNEE_LIMIT).any():
            return np.zeros(0, dtype=np.int64)
        rows = np.flatnonzero((force > _LOWEST_KNEE_LIMIT).any(axis=(1, 2)))
        np.take(self._records["actuator_length"], self._knees, axis=2, out=angle)
        return rows[(force[rows] > knee_torque_limit(angle[rows])).any(axis=(1, 2))]

    def _repeat(self, control: NDArray[np.float64], rows: NDArray[np.int64]) -> None:
        """Take the policy step of chosen robots again, with the knee's limit set before every physics step."""
        self._motion[rows] = self._before[rows]
        self._clear(rows)
        cells = np.ix_(rows, self._knees)
        angles = np.ix_(rows, self.joint_positions[self._knees])
        out = {name: np.empty((len(rows), 1, record.shape[2])) for name, record in self._records.items()}
        for step in range(self._decimation):
            limit = knee_torque_limit(self.qpos[angles])
            self._force_range[cells] = np.stack((-limit, limit), axis=-1)
            self._advance(control[rows, step : step + 1], rows, out)
            for name, record in self._records.items():
                record[rows, step] = out[name][:, 0]
        self._force_range[cells] = self._peak_range
