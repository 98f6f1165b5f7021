"""Torque limits that follow a knee's angle: how they are written into the engine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import KNEE_ANGLES, KNEE_TORQUES, knee_torque_limit

from .layout import RobotLayout

__all__ = ["KneeLimits", "SlopedKnees"]

_Array = NDArray[np.float64]
_Rows = NDArray[np.int64]

_BOTH_WAYS = np.array([-1.0, 1.0])
_NO_LIMIT = 1e10  # N·m
_NEAR = 0.7  # share of its limit from which on a knee may reach it within a policy step
_TOLERANCE = 0.1  # N·m: how far a sloped limit may be from the table's

_SLOPES = np.concatenate(([0.0], np.diff(KNEE_TORQUES) / np.diff(KNEE_ANGLES), [0.0]))
_ENDS = np.concatenate((KNEE_ANGLES[:1], KNEE_ANGLES))  # an end of each piece of the table, and the torque there
_HEIGHTS = np.concatenate((KNEE_TORQUES[:1], KNEE_TORQUES))


class SlopedKnees(NamedTuple):
    """Knees whose limit is a slope in their angle for one policy step; one entry per knee."""

    rows: _Rows
    """Robots."""

    knees: _Rows
    """Which of a robot's knees."""

    slopes: _Array
    """Of the torque beside the PD law's over the angle, N·m/rad."""

    limits: _Array
    """Where the engine clips what it calls the force, with the sign of the side that is clipped, N·m."""


class KneeLimits:
    """The torque limits of a batch's knees, written into the engine.

    The engine clips an actuator's force at constants. A limit that is a slope, ``τ ≤ c + s·q``, becomes a constant if a
    spring with the torque ``s·q`` acts on the joint and the actuator gives so much less: the sum is the PD law, clipped
    at the slope, and it is constant over the step where it is clipped, as it should be. The table is straight between
    its rows and nearly so over the angle that a knee turns by in a policy step.

    Args:
        batch: The engine's batch.
        layout: Which joints are knees.
        positions: Columns of the joints among positions.
        velocities: Columns of the joints among velocities.
    """

    def __init__(self, batch: Any, layout: RobotLayout, positions: _Rows, velocities: _Rows) -> None:
        self.joints = layout.knees
        self.columns = positions[layout.knees]
        self._legs = layout.legs[layout.knees]
        self._lowest = float(KNEE_TORQUES.min() * self._legs.min(initial=np.inf))
        self._qpos, self._qvel = batch.bind("qpos"), batch.bind("qvel")
        self._speeds = velocities[layout.knees]
        names = [layout.joint_names[knee] for knee in layout.knees]
        self._springs = np.array([int(batch.model.joint(name).id) for name in names], dtype=np.int64)
        self._range: _Array = batch.expand("actuator_forcerange")
        self._peak = self._range[0, layout.knees].copy()
        self._gain: _Array = batch.expand("actuator_gainprm")[:, :, 0]
        self._bias: _Array = batch.expand("actuator_biasprm")
        # In the plane every knee is a pair of knees and few are near their limit: the spring is not worth its field.
        self._stiffness: _Array | None = None if layout.planar or not names else batch.expand("jnt_stiffness")

    def over(self, targets: _Array) -> NDArray[np.bool_]:
        """Return the robots one of whose knees would exceed its limit at the next physics step."""
        return np.asarray((np.abs(self._torque(targets)) > self._limit_now()).any(axis=1))

    def _torque(self, targets: _Array) -> _Array:
        """The PD law of each knee as it is now, without limits."""
        knees = self.joints
        angle, speed = self._qpos[:, self.columns], self._qvel[:, self._speeds]
        return np.asarray(self._gain[:, knees] * (targets[:, knees] - angle) + self._bias[:, knees, 2] * speed)

    def _limit_now(self) -> _Array:
        return knee_torque_limit(self._qpos[:, self.columns]) * self._legs

    def follow(self, rows: _Rows) -> None:
        """Set the limits of chosen robots to those at their present angles."""
        limit = knee_torque_limit(self._qpos[rows[:, None], self.columns]) * self._legs
        self._range[rows[:, None], self.joints] = limit[:, :, None] * _BOTH_WAYS

    def forget(self, rows: _Rows) -> None:
        """Set the limits of chosen robots to the largest at any angle."""
        self._range[rows[:, None], self.joints] = self._peak

    def slope(self, first: _Array, last: _Array) -> SlopedKnees | None:
        """Give a sloped limit to every knee that may reach its limit in the policy step to come.

        Args:
            first: Targets of its first physics step.
            last: Targets of its last one.

        Returns:
            The knees; None where there are no sloped limits.
        """
        if self._stiffness is None:
            return None
        torque, late = self._torque(first), self._torque(last)
        torque = np.where(np.abs(late) > np.abs(torque), late, torque)
        rows, knees = np.nonzero(np.abs(torque) > _NEAR * self._limit_now())
        sign = np.sign(torque[rows, knees])
        piece = np.searchsorted(KNEE_ANGLES, self._qpos[rows, self.columns[knees]])
        legs = self._legs[knees]
        slopes = sign * _SLOPES[piece] * legs
        limits = sign * (_HEIGHTS[piece] * legs) - slopes * _ENDS[piece]
        joints = self.joints[knees]
        self._range[rows, joints, 0] = np.where(sign < 0.0, limits, -_NO_LIMIT)
        self._range[rows, joints, 1] = np.where(sign < 0.0, _NO_LIMIT, limits)
        self._bias[rows, joints, 1] = -self._gain[rows, joints] - slopes
        self._stiffness[rows, self._springs[knees]] = -slopes
        return SlopedKnees(rows, knees, slopes, limits)

    def straighten(self, sloped: SlopedKnees | None) -> None:
        """Take the sloped limits away."""
        if sloped is None or self._stiffness is None:
            return
        joints = self.joints[sloped.knees]
        self._range[sloped.rows, joints] = self._peak[sloped.knees]
        self._bias[sloped.rows, joints, 1] = -self._gain[sloped.rows, joints]
        self._stiffness[sloped.rows, self._springs[sloped.knees]] = 0.0

    def add_springs(self, sloped: SlopedKnees, angles: _Array, forces: _Array) -> None:
        """Make torques of forces, which lack what the springs gave.

        Args:
            sloped: The knees.
            angles: At the beginning of each physics step, ``(n, steps, knees)``.
            forces: Of all joints, as the engine has them, ``(n, steps, joints)``.
        """
        given = sloped.slopes[:, None] * angles[sloped.rows, :, sloped.knees]
        forces[sloped.rows, :, self.joints[sloped.knees]] += given

    def exceeded(self, sloped: SlopedKnees | None, angles: _Array, torques: _Array) -> _Rows:
        """Return the robots that had another torque than their knees' limits allow, ascending.

        Args:
            sloped: Knees that had sloped limits.
            angles: At the beginning of each physics step, ``(n, steps, knees)``.
            torques: ``(n, steps, knees)``.
        """
        amount = np.abs(torques)
        rows, steps, knees = np.nonzero(amount > self._lowest)
        limit = knee_torque_limit(angles[rows, steps, knees]) * self._legs[knees]
        wrong = rows[amount[rows, steps, knees] > limit + (_TOLERANCE if sloped is not None else 0.0)]
        if sloped is not None:
            angle = angles[sloped.rows, :, sloped.knees]
            allowed = np.abs(sloped.limits[:, None] + sloped.slopes[:, None] * angle)
            held = amount[sloped.rows, :, sloped.knees] >= allowed * (1.0 - 1e-9)
            low = allowed < knee_torque_limit(angle) * self._legs[sloped.knees][:, None] - _TOLERANCE
            wrong = np.concatenate((wrong, sloped.rows[(held & low).any(axis=1)]))
        return np.unique(wrong)
