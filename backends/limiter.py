"""The command limiter: what stands between a policy's joint targets and the PD law, in simulation and on the robot.

It is part of the actuator model, as gains and delays are: a policy is trained behind it, its file names it, and the
robot runs it. One code does so, over arrays of numpy or torch. The guard stands behind it and never clips.

**What is done, in this order**, to the targets that a policy asks for:

1. filter: the way to them from the last targets is cut by a first-order lag, if one is set;
2. torque: ``K (q_d − q) − B q̇`` stays inside a share of the joint's limit at its present angle;
3. reach: they stay within a distance of the measured position;
4. range: they stay inside the joint's range, less a margin;
5. slew: they change by at most so much from one policy step to the next, and so does that change.

**Which wins.** Limits can contradict each other, and the later one wins. Slew is last: a jump of the target is a jolt
that only we can cause, while too large a torque is a prediction from measured numbers, and the joint's own limit clips
it. Range comes before it and is never lost to it: the last targets were inside the range, and what lies between two
numbers of an interval is inside. Stopping is always allowed, because the change of a change may be no smaller than the
change itself. Torque and reach give way to both, where a joint is carried away faster than its target may follow: the
guard sees that and stops.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from adc_wrappers.core.env_states import EnvState, put_array
from adc_wrappers.core.errors import BackendError, CurriculumError, did_you_mean
from adc_wrappers.core.reading import check_fields

from .array_kinds import array_namespace, clipped, columns, constant, put_rows
from .guard.limits import ByKind, by_kind
from .spot_model import KNEE_ANGLES, KNEE_TORQUES, RobotSpec

__all__ = ["BEYOND", "LIMITERS", "CommandLimiter", "CommandLimits", "JointTable"]

BEYOND: Final = 0.1
"""How far beyond a joint's range targets may lie in a training with looser limits, rad per looseness beyond 1."""

_REACH: Final = ByKind(hx=0.95, hy=1.15, kn=1.55)
_SLEW: Final = ByKind(hx=0.29, hy=0.29, kn=0.34)
_SLEW_CHANGE: Final = ByKind(hx=0.43, hy=0.43, kn=0.48)


@dataclass(frozen=True, kw_only=True)
class CommandLimits:
    """The numbers of a limiter; of those by kind of joint, one number means all joints."""

    margin: float = 0.03
    """How far inside a joint's range its targets stay, rad."""

    torque_share: float = 0.95
    """Largest predicted torque as a share of the joint's limit at its angle."""

    reach: ByKind = _REACH
    """Largest distance of a target from the measured position, rad."""

    slew: ByKind = _SLEW
    """Largest change of a target in one policy step, rad."""

    slew_change: ByKind = _SLEW_CHANGE
    """Largest change of that change, rad; not less than it."""

    filter_seconds: float = 0.0
    """Time constant of the lag; 0 is none."""

    def __post_init__(self) -> None:
        try:
            by_kind(self, "limiter", ("reach", "slew", "slew_change"))
        except BackendError as error:
            raise CurriculumError(str(error)) from error
        for name in ("margin", "torque_share", "filter_seconds"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise CurriculumError(f"limiter {name}: expected a number that is not negative, got {value}.")
        if self.torque_share == 0.0:
            raise CurriculumError("limiter torque_share: expected a positive number, got 0.")
        if any(change < slew for change, slew in zip(self.slew_change, self.slew, strict=True)):
            raise CurriculumError(
                f"limiter slew_change: expected no less than slew, so that a joint can always be stopped; got "
                f"{tuple(self.slew_change)} and {tuple(self.slew)}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: list(value) if isinstance(value, ByKind) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CommandLimits:
        """Read what :meth:`to_dict` returned; what is missing has its default.

        Raises:
            CurriculumError: A name is unknown, or a number is off.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                raise CurriculumError(f"a command limiter has no {name!r}. {did_you_mean(str(name), known)}")
        plain = {name: value for name, value in values.items() if name not in ("reach", "slew", "slew_change")}
        check_fields(cls, plain, "command limiter", partial=True)
        for name in set(values) - set(plain):
            value = values[name]
            listed = isinstance(value, list | tuple) and len(value) == 3
            if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (value if listed else [value])):
                raise CurriculumError(f"command limiter: {name}: expected one number, or three: hx, hy and kn.")
        return cls(**values)


LIMITERS: Final = {"robot": CommandLimits()}
"""Named limiters. ``robot`` lies just inside the guard's limits for a robot, whose commands it therefore never stops
but where limits contradict each other."""


class JointTable:
    """The abilities of a robot's joints, as arrays of the kind that is asked with.

    Args:
        robot: The table that they come from.
    """

    def __init__(self, robot: RobotSpec) -> None:
        joints = robot.actuated
        self.names = tuple(joint.name for joint in joints)
        self.lower = np.array([joint.lower for joint in joints])
        self.upper = np.array([joint.upper for joint in joints])
        self.effort = np.array([joint.effort for joint in joints])
        """Largest torque at any angle, N·m."""
        self.knees = [i for i, name in enumerate(self.names) if name.endswith("_kn")]
        self._kinds = [ByKind._fields.index(name[-2:]) for name in self.names]
        self._made: dict[Any, dict[str, Any]] = {}

    def by_joint(self, values: ByKind) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return numbers by kind of joint as numbers by joint."""
        return np.array(values, dtype=np.float64)[self._kinds]

    def torque_limits(self, positions: Any) -> Any:
        """Return the largest torque of each joint at its angle, N·m, ``(n, joints)``; linear in the knee's table."""
        xp = array_namespace(positions)
        made = self._constants(positions)
        knees = made["knees"]
        angles = positions[:, knees]
        place = clipped((angles - KNEE_ANGLES[0]) * _PER_RADIAN, made["zero"], made["last"])
        place = xp.where(place == place, place, made["zero"])  # NaN has no row
        row = xp.astype(xp.floor(place), xp.int64)
        row = xp.where(row < _LAST, row, row - 1)
        flat = xp.reshape(row, (-1,))
        low = xp.reshape(xp.take(made["table"], flat, axis=0), row.shape)
        high = xp.reshape(xp.take(made["table"], flat + 1, axis=0), row.shape)
        limits = xp.asarray(xp.broadcast_to(made["effort"], positions.shape), copy=True)
        limits[:, knees] = low + (place - xp.astype(row, place.dtype)) * (high - low)
        return limits

    def _constants(self, like: Any) -> dict[str, Any]:
        """Return the table's numbers beside ``like``, made once for each kind of array and place."""
        key = (type(like), like.dtype, getattr(like, "device", None))
        if key not in self._made:
            numbers = {"effort": self.effort, "table": KNEE_TORQUES, "zero": 0.0, "last": float(_LAST)}
            self._made[key] = {name: constant(np.array(value), like) for name, value in numbers.items()}
            self._made[key]["knees"] = columns(self.knees, like)
        return self._made[key]


_LAST: Final = len(KNEE_ANGLES) - 1
_PER_RADIAN: Final = _LAST / float(KNEE_ANGLES[-1] - KNEE_ANGLES[0])


class CommandLimiter:
    """A limiter of the joint targets of a batch of robots, which remembers the last ones and how they had changed.

    Args:
        limits: The numbers.
        robot: The robots' table.
        policy_step: Seconds between two targets.
        held: Targets that the robots hold now, ``(n, joints)``: the kind of array that is used.
    """

    def __init__(self, limits: CommandLimits, robot: RobotSpec, policy_step: float, held: Any) -> None:
        self.limits = limits
        self.joints = JointTable(robot)
        xp = array_namespace(held)
        self.targets: Any = xp.asarray(held, copy=True)
        """The last targets, ``(n, joints)``."""
        self.change: Any = xp.zeros_like(held)
        """By how much they differ from those before, ``(n, joints)``."""
        self.looseness = 1.0
        """Factor on torque, reach, slew and its change, which a training may make larger; 1 wherever a policy runs.

        With it targets may lie beyond the joints' range, too, by :data:`BEYOND` for every 1 that it is larger."""
        self._passes = policy_step / (policy_step + limits.filter_seconds)
        self._lower = constant(self.joints.lower + limits.margin, held)
        self._upper = constant(self.joints.upper - limits.margin, held)
        by_joint = {name: self.joints.by_joint(getattr(limits, name)) for name in ("reach", "slew", "slew_change")}
        self._reach, self._slew, self._slew_change = (constant(values, held) for values in by_joint.values())

    def begin(self, held: Any, rows: Any) -> None:
        """Begin episodes: chosen robots hold these targets, at rest."""
        put_rows(self.targets, rows, held)
        put_rows(self.change, rows, array_namespace(held).zeros_like(held))

    def around(self, positions: Any, distance: ByKind, share: Any) -> Any:
        """Return targets at a distance from positions, inside the range.

        Args:
            positions: ``(n, joints)``, rad.
            distance: The largest, rad.
            share: How much of it, in [−1, 1], ``(n, joints)``.
        """
        away = constant(self.joints.by_joint(distance), positions)
        return clipped(positions + share * away, self._lower, self._upper)

    def __call__(self, asked: Any, positions: Any, velocities: Any, stiffness: Any, damping: Any) -> Any:
        """Return what becomes of the targets that are asked for; nothing is remembered, so asking twice is the same.

        Args:
            asked: ``(n, joints)``, rad.
            positions: Measured, rad.
            velocities: Measured, rad/s.
            stiffness: K under which the targets will act.
            damping: B, likewise.
        """
        last = self.targets
        targets = asked if self.limits.filter_seconds == 0.0 else last + self._passes * (asked - last)
        room = self.looseness * self.limits.torque_share * self.joints.torque_limits(positions)
        middle = positions + damping * velocities / stiffness
        targets = clipped(targets, middle - room / stiffness, middle + room / stiffness)
        reach, slew, slew_change = (self.looseness * limit for limit in (self._reach, self._slew, self._slew_change))
        targets = clipped(targets, positions - reach, positions + reach)
        beyond = BEYOND * (self.looseness - 1.0)
        targets = clipped(targets, self._lower - beyond, self._upper + beyond)
        xp = array_namespace(last)
        low = xp.maximum(-slew, self.change - slew_change)
        high = xp.minimum(slew, self.change + slew_change)
        return last + clipped(targets - last, low, high)

    def accept(self, targets: Any) -> None:
        """Remember the targets that were sent."""
        # in place: a trainer may step under torch's inference mode, and somebody else without
        self.change[:] = targets - self.targets
        self.targets[:] = targets

    def env_state(self) -> EnvState:
        """Return what it remembers, for a checkpoint."""
        return {"targets": self.targets.copy(), "change": self.change.copy()}

    def load_env_state(self, state: EnvState) -> None:
        """Restore it."""
        put_array(self.targets, state, "targets")
        put_array(self.change, state, "change")
