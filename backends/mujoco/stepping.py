"""Steppers of a batch of robots on threads: delayed targets, and a torque limit that depends on the knee's angle."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import MAX_COMMAND_DELAY
from adc_wrappers.backends.spot_model import KNEE_TORQUES, knee_torque_limit
from adc_wrappers.core.env_states import EnvState, put_array
from adc_wrappers.core.errors import BackendError

from .base_motion import BaseMotion
from .engine import batch, mujoco, quiet
from .layout import RobotLayout

__all__ = ["KEPT_STEPS", "MAX_SPEED", "BatchStepper", "CommandDelay", "JointTrack"]


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
        """Restore them; of a run that was saved when delays were shorter, with fewer targets under way."""
        history: Any = state.get("history")
        shape: tuple[int, ...] = getattr(history, "shape", ())
        kept = min(shape[1], MAX_COMMAND_DELAY) if len(shape) == 3 else MAX_COMMAND_DELAY
        put_array(self._history[:, MAX_COMMAND_DELAY - kept :], state, "history")
        delays = self.delays.copy()
        put_array(delays, state, "delays")
        self.set_delays(delays.astype(np.float64), np.arange(len(delays)))


_Array = NDArray[np.float64]
_Rows = NDArray[np.int64]

MAX_SPEED = 1e3
"""m/s and rad/s: a robot with a faster coordinate is a simulation that has blown up."""

KEPT_STEPS = 3
"""Physics steps at the end of a policy step whose ground forces are kept."""

_PARKING_HEIGHT = 10.0  # m: out of reach of the ground
_MOTION = mujoco.mjtState.mjSTATE_FULLPHYSICS.value | mujoco.mjtState.mjSTATE_WARMSTART.value
_TIME = 1  # columns of a motion before the positions
_BOTH_WAYS = np.array([-1.0, 1.0])


class JointTrack(NamedTuple):
    """The joints after each physics step of a policy step, each ``(n, decimation, joints)``."""

    positions: _Array
    velocities: _Array
    torques: _Array


class BatchStepper:
    """A :class:`mujoco.batch.Batch` of robots and the physics steps it takes.

    The engine clips every joint at its largest torque at any angle. A knee's limit at its angle is narrower and must be
    set anew before every physics step, so there are two ways to take a policy step, which give the same bits where no
    narrower limit acts:

    - freely: one call into the engine for all its physics steps;
    - carefully: one call per physics step, with the limit at the present angle in force.

    Robots that begin with a knee beyond its limit take it carefully. The others take it freely; those that are found to
    have exceeded a limit are put back to the physics step where they did and go on carefully from there.

    Args:
        model: The compiled robot.
        num_envs: Number of robots.
        nthread: Threads, the caller's included.
        decimation: Physics steps in one policy step.
        layout: Order of joints and links.
        base: How the base moves.
    """

    def __init__(
        self, model: Any, num_envs: int, nthread: int, decimation: int, layout: RobotLayout, base: BaseMotion
    ) -> None:
        self._batch = batch.Batch(model, num_envs, nthread)
        self._decimation = decimation
        self._knees, self._legs = layout.knees, layout.legs
        self._knee_legs = layout.legs[layout.knees]
        self._lowest_knee_limit = float(KNEE_TORQUES.min() * self._knee_legs.min(initial=np.inf))
        self.joint_positions = np.array([int(model.joint(n).qposadr[0]) for n in layout.joint_names])
        self.joint_velocities = np.array([int(model.joint(n).dofadr[0]) for n in layout.joint_names])
        self.qpos: _Array = self._batch.bind("qpos")
        self.qvel: _Array = self._batch.bind("qvel")
        self._control: _Array = self._batch.bind("ctrl")
        self._actuator_force: _Array = self._batch.bind("actuator_force")
        self._sensordata: _Array = self._batch.bind("sensordata")
        self._force_range = self.expand("actuator_forcerange")
        self._peak_range = self._force_range[0, self._knees].copy()
        self._stiffness = self.expand("actuator_gainprm")[:, :, 0]
        self._minus_damping = self.expand("actuator_biasprm")[:, :, 2]
        self._motion = self._motion_columns()
        self._before = self._motion.copy()
        sizes = {"actuator_force": model.nu, "sensordata": model.nsensordata, _MOTION: self._motion.shape[1]}
        self._records = {item: np.zeros((num_envs, decimation, size)) for item, size in sizes.items()}
        self.torques: _Array = np.zeros((num_envs, model.nu))
        """Torque of each joint of one leg at the last physics step, as the engine applied it, ``(n, joints)``."""
        kept = min(decimation, KEPT_STEPS)
        self.forces: _Array = np.zeros((num_envs, kept, model.nsensordata // 3, 3))
        """Net ground force of each link at each of the last physics steps, ``(n, KEPT_STEPS or fewer, links, 3)``."""
        self._failed = np.zeros(num_envs, dtype=bool)
        self.qpos[:, self.joint_positions] = layout.nominal_pose
        self._parked = self._motion[0].copy()
        if base.height_column is not None:
            self._parked[_TIME + base.height_column] = _PARKING_HEIGHT

    def _motion_columns(self) -> _Array:
        """A view of what a physics step changes: time, positions, velocities, and the solver's warm start."""
        columns = mujoco.mj_stateSize(self._batch.model, _MOTION)
        state: _Array = self._batch.state
        return state[:, :columns]

    def expand(self, name: str) -> _Array:
        """Return the engine's live values of a model field for every robot, ``(n, …)``."""
        values: _Array = self._batch.expand(name)
        return values

    def expanded(self, name: str) -> _Array | None:
        """Return a copy of a model field's values for every robot; None where all share the model's."""
        values: _Array | None = self._batch.expanded(name)
        return None if values is None else values.copy()

    def update_constants(self, rows: _Rows) -> None:
        """Recompute what the engine derives from masses."""
        self._batch.set_const(np.unique(rows))

    def place(self, qpos: _Array, qvel: _Array, rows: _Rows) -> None:
        """Put robots into a state, at time 0 and without memory."""
        self._motion[rows] = 0.0
        self.qpos[rows], self.qvel[rows] = qpos, qvel
        self._clear(rows)

    def save(self) -> EnvState:
        """Return every robot's motion with the solver's warm start, its warnings, and whether the engine gave up."""
        return {
            "motion": self._motion.copy(),
            "warning": np.asarray(self._batch.warning, dtype=np.int64),
            "failed": self._failed.copy(),
        }

    def load(self, state: EnvState) -> None:
        """Restore them."""
        warning = np.asarray(self._batch.warning, dtype=np.int64)
        put_array(warning, state, "warning")
        put_array(self._failed, state, "failed")
        put_array(self._motion, state, "motion")
        self._batch.warning[:] = warning

    def park(self, rows: _Rows) -> None:
        """Take robots out of play: at rest, away from the ground, where they can do no harm."""
        self._motion[rows] = self._parked
        self._clear(rows)

    def _clear(self, rows: _Rows) -> None:
        self._batch.warning[rows] = 0
        self._failed[rows] = False

    def sound(self) -> NDArray[np.bool_]:
        """Return which robots are simulated properly: finite, not absurdly fast, and without a warning."""
        with np.errstate(invalid="ignore"):
            slow = np.abs(self.qvel).max(axis=1) <= MAX_SPEED
        calm = ~self._warned(slice(None))
        return np.asarray(slow & calm & ~self._failed & np.isfinite(self.qpos).all(axis=1))

    def _warned(self, rows: _Rows | slice) -> NDArray[np.bool_]:
        return np.asarray(self._batch.warning[rows, :, 1].any(axis=1))

    def run(self, control: _Array, track: JointTrack | None = None) -> None:
        """Take one policy step under the targets of each physics step, ``(n, decimation, joints)``; fill the track."""
        np.copyto(self._before, self._motion)
        with quiet():
            if not self._knees.size:
                self._run_freely(control, np.arange(len(control)), track)
                return
            over = self._begin_over_knee_limit(control[:, 0])
            first = np.where(over, 0, self._decimation)
            if not over.all():
                rows = np.flatnonzero(~over)
                self._run_freely(control, rows, track)
                first[rows] = self._put_back(rows)
            if (first < self._decimation).any():
                self._run_carefully(control, first, track)

    def _begin_over_knee_limit(self, targets: _Array) -> NDArray[np.bool_]:
        """Return the robots one of whose knees would exceed its limit at the next physics step."""
        knees = self._knees
        angle = self.qpos[:, self.joint_positions[knees]]
        speed = self.qvel[:, self.joint_velocities[knees]]
        torque = self._stiffness[:, knees] * (targets[:, knees] - angle) + self._minus_damping[:, knees] * speed
        return np.asarray((np.abs(torque) > knee_torque_limit(angle) * self._knee_legs).any(axis=1))

    def _run_freely(self, control: _Array, rows: _Rows, track: JointTrack | None) -> None:
        """Take the policy step of chosen robots in one call, and record it in the first rows of the records."""
        everybody = len(rows) == len(control)
        out = {item: record[: len(rows)] for item, record in self._records.items()}
        try:
            self._batch.rollout(
                self._decimation, control if everybody else control[rows], record=tuple(out),
                ids=None if everybody else rows, out=out,
            )  # fmt: skip
        except batch.SimulationError as error:
            self._failed[error.ids] = True
        kept = self.forces.shape[1]
        self.torques[rows] = out["actuator_force"][:, -1] / self._legs
        self.forces[rows] = out["sensordata"][:, -kept:].reshape(len(rows), *self.forces.shape[1:])
        if track is not None:
            speeds = _TIME + self.qpos.shape[1] + self.joint_velocities
            track.positions[rows] = out[_MOTION][:, :, _TIME + self.joint_positions]
            track.velocities[rows] = out[_MOTION][:, :, speeds]
            track.torques[rows] = out["actuator_force"] / self._legs

    def _put_back(self, rows: _Rows) -> _Rows:
        """Put robots that have just exceeded a knee's limit back to the beginning of that physics step.

        Args:
            rows: The robots that took the last policy step freely.

        Returns:
            The physics step from which each of them must go on carefully; ``decimation`` if from none.
        """
        first = np.full(len(rows), self._decimation)
        force = np.take(self._records["actuator_force"][: len(rows)], self._knees, axis=2)
        np.abs(force, out=force)
        who, when, knee = np.nonzero(force > self._lowest_knee_limit)  # few, in the order of time for each robot
        if not who.size:
            return first
        column = _TIME + self.joint_positions[self._knees[knee]]
        angle = np.where(when > 0, self._records[_MOTION][who, when - 1, column], self._before[rows[who], column])
        over = force[who, when, knee] > knee_torque_limit(angle) * self._knee_legs[knee]
        chosen, begin = np.unique(who[over], return_index=True)
        step = when[over][begin]
        failed = self._failed[rows[chosen]]  # their records are not theirs
        chosen, step = chosen[~failed], step[~failed]
        step[self._warned(rows[chosen])] = 0  # the engine stopped and recorded nothing new
        later = step > 0
        motion = self._before[rows[chosen]]
        motion[later] = self._records[_MOTION][chosen[later], step[later] - 1]
        self._motion[rows[chosen]] = motion
        self._clear(rows[chosen])
        first[chosen] = step
        return first

    def _run_carefully(self, control: _Array, first: _Rows, track: JointTrack | None) -> None:
        """Take physics steps one by one, with the knee's limit set before each of them.

        Args:
            control: Targets of every physics step.
            first: The physics step from which each robot is stepped; ``decimation`` for those that are not.
            track: Filled from that step on.
        """
        kept, knees = self.forces.shape[1], self.joint_positions[self._knees]
        rows = np.zeros(0, dtype=np.int64)
        for step in range(int(first.min()), self._decimation):
            if (first == step).any():
                rows = np.flatnonzero(first <= step)
            limit = knee_torque_limit(self.qpos[rows[:, None], knees]) * self._knee_legs
            self._force_range[rows[:, None], self._knees] = limit[:, :, None] * _BOTH_WAYS
            self._control[rows] = control[rows, step]
            try:
                self._batch.step(rows)
            except batch.SimulationError as error:
                self._failed[error.ids] = True
            place = step - self._decimation + kept
            if place >= 0:
                self.forces[rows, place] = self._sensordata[rows].reshape(len(rows), *self.forces.shape[2:])
            if track is not None:
                track.positions[rows, step] = self.qpos[rows[:, None], self.joint_positions]
                track.velocities[rows, step] = self.qvel[rows[:, None], self.joint_velocities]
                track.torques[rows, step] = self._actuator_force[rows] / self._legs
        self.torques[rows] = self._actuator_force[rows] / self._legs
        self._force_range[rows[:, None], self._knees] = self._peak_range
