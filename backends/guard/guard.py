"""The guard itself: one look before every command, one after every state, and the phase of the stand it is in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, SPOT, knee_torque_limit

from .limits import ByKind, GuardLimits

__all__ = ["Breach", "Guard", "Moment", "PhaseTracker", "lean_and_side", "torque_limits"]

REACHED: Final = 20.0
"""Degrees from the wanted orientation within which the stance counts as reached."""

LEFT: Final = 45.0
"""Degrees beyond which it counts as left again, which is a new transition."""

DWELL: Final = 5
"""Policy steps for which the stance must be held to count as reached."""

_Array = NDArray[np.float64]
_Turn = Callable[[Any], tuple[float, float]]
_LOWER: Final = np.array([joint.lower for joint in SPOT.actuated])
_UPPER: Final = np.array([joint.upper for joint in SPOT.actuated])
_EFFORT: Final = np.array([joint.effort for joint in SPOT.actuated])
_KINDS: Final = np.array([ByKind._fields.index(name[-2:]) for name in JOINT_NAMES])
_KNEES: Final = np.array([name.endswith("_kn") for name in JOINT_NAMES])
_FALL_LINKS: Final = [i for i, name in enumerate(LINK_NAMES) if name.endswith(("body", "hip", "uleg"))]
_TOUCHING: Final = 1.0


def lean_and_side(gravity: Any, wanted: Sequence[float]) -> tuple[float, float]:
    """Return how a body is turned, degrees, from the direction of gravity in its frame.

    Args:
        gravity: Unit vector, ``(3,)``.
        wanted: The same in the stance: ``(1, 0, 0)`` nose down, ``(−1, 0, 0)`` tail down.

    Returns:
        The lean in the plane of symmetry, (−90, 270]: 0 standing level, 90 in the stance; the turn onto a side.

    Example:
        >>> lean_and_side([0.0, 0.0, -1.0], [1, 0, 0]), lean_and_side([1.0, 0.0, 0.0], [1, 0, 0])
        ((0.0, 0.0), (90.0, 0.0))
    """
    x, y, z = (float(value) for value in gravity)
    along = x * wanted[0]
    lean = float(np.rad2deg(np.arctan2(along, -z)))
    return lean + 360.0 if lean <= -90.0 else lean, float(np.rad2deg(np.arcsin(np.clip(y, -1.0, 1.0))))


class PhaseTracker:
    """The phases of one robot in a stand; before the policy acts, it is being taken over.

    Args:
        wanted: Direction of gravity in the body frame in the stance.
    """

    def __init__(self, wanted: Sequence[float]) -> None:
        self._wanted = tuple(float(value) for value in wanted)
        self.phase = "takeover"
        """The present phase, of :data:`~adc_wrappers.backends.guard.limits.PHASES`."""
        self._near = 0

    def take_over(self) -> None:
        """Begin anew, with the robot on its four feet."""
        self.phase, self._near = "takeover", 0

    def hand_to_policy(self) -> None:
        """Take note that the policy acts from now on."""
        self.phase, self._near = "transition", 0

    def turn(self, gravity: Any) -> tuple[float, float]:
        """Return lean and side of a state between two policy steps, degrees; the phase stays."""
        return lean_and_side(gravity, self._wanted)

    def look(self, gravity: Any) -> tuple[float, float]:
        """Take up the state after a policy step; returns lean and side, degrees."""
        lean, side = lean_and_side(gravity, self._wanted)
        error = float(np.rad2deg(np.arccos(np.clip(np.dot(gravity, self._wanted), -1.0, 1.0))))
        self._near = self._near + 1 if error < REACHED else 0
        if self.phase == "transition" and self._near >= DWELL:
            self.phase = "stance"
        elif self.phase == "stance" and error > LEFT:
            self.phase = "transition"
        return lean, side


@dataclass(frozen=True, kw_only=True)
class Breach:
    """The reason why a policy was stopped."""

    check: str
    """Which check. Of a command: ``finite``, ``position``, ``slew``, ``slew_change``, ``reach``, ``torque``. Of a
    state: ``finite``, ``joint_range``, ``joint_speed``, ``joint_torque``, ``lean``, ``side``, ``speed``, ``turn_rate``,
    ``height``, ``fall``. Of clocks: ``state_age``, ``policy_age``, ``echo_lag``, ``order``, ``clock``. Of what the
    robot says: ``battery``, ``temperature``, ``reading`` (it does not say), ``fault``, ``estop``, ``power``, ``lease``,
    ``stream``."""

    reason: str
    """A sentence with what was expected and what came."""

    phase: str = ""
    """Phase of the stand."""

    time: float = 0.0
    """Robot's clock, s."""

    def to_dict(self) -> dict[str, Any]:
        """Return it for ``info`` and for recordings."""
        return asdict(self)


class Moment(NamedTuple):
    """The moment before targets are sent, as the guard looks at it; everything of one robot."""

    state: RobotState
    """The state that the targets come from; row 0 is looked at."""

    targets: _Array
    """Joint targets, rad, ``(joints,)``."""

    previous: _Array
    """The targets before them, rad, ``(joints,)``."""

    stiffness: _Array
    """Gains under which they act, ``(joints,)``."""

    damping: _Array
    """``(joints,)``."""

    load: _Array
    """Feed-forward torque, N·m, ``(joints,)``."""

    time: float = 0.0
    """Robot's clock, s."""


def torque_limits(joint_positions: _Array) -> _Array:
    """Return the largest torque of each joint at its present angle, N·m, ``(joints,)``."""
    return np.where(_KNEES, knee_torque_limit(joint_positions), _EFFORT)


class Guard:
    """A guard that looks at every command before it is sent and at every state after it, and knows the stand's phase.

    Args:
        limits: The numbers.
        wanted: Direction of gravity in the body frame in the stance.
    """

    def __init__(self, limits: GuardLimits, wanted: Sequence[float]) -> None:
        self.limits = limits
        self.phases = PhaseTracker(wanted)
        self._last: tuple[_Array, _Array] | None = None  # the targets that passed last, and how they had changed

    def before(self, moment: Moment) -> Breach | None:
        """Return what forbids sending these targets, or None."""
        breach = self._first(self._command_problems(moment), moment.time)
        self._last = None if breach is not None else (moment.targets.copy(), moment.targets - moment.previous)
        return breach

    def forget(self) -> None:
        """Take the next targets for those of a robot at rest: an episode begins."""
        self._last = None

    def after(self, state: RobotState, time: float = 0.0) -> Breach | None:
        """Return what forbids going on from the state after a policy step, or None."""
        return self._first(self._state_problems(state, self.phases.look), time)

    def between(self, state: RobotState, time: float = 0.0) -> Breach | None:
        """Return what forbids going on from a state between two policy steps, or None; the phase stays."""
        return self._first(self._state_problems(state, self.phases.turn), time)

    def ages(self, *, state_age: float, policy_age: float, echo_lag: float, time: float = 0.0) -> Breach | None:
        """Return which of the three clocks has run out, or None."""
        seconds = {"state_age": state_age, "policy_age": policy_age, "echo_lag": echo_lag}
        what = {
            "state_age": "the newest state is old",
            "policy_age": "no new action came",
            "echo_lag": "the robot has not acknowledged a command",
        }
        return self._first(
            (
                (name, f"{what[name]}: {value * 1e3:.0f} ms, at most {getattr(self.limits, name) * 1e3:.0f} ms")
                for name, value in seconds.items()
                if not value <= getattr(self.limits, name)
            ),
            time,
        )

    def breach(self, check: str, reason: str, time: float = 0.0) -> Breach:
        """Return a breach that somebody else has found, with the present phase."""
        return Breach(check=check, reason=reason, phase=self.phases.phase, time=time)

    def _first(self, problems: Iterator[tuple[str, str]], time: float) -> Breach | None:
        for check, reason in problems:
            return self.breach(check, reason, time)
        return None

    def _command_problems(self, moment: Moment) -> Iterator[tuple[str, str]]:
        limits, targets = self.limits, moment.targets
        q, speed = moment.state.joint_positions[0], moment.state.joint_velocities[0]
        numbers = {
            "targets": targets, "targets before": moment.previous, "stiffness": moment.stiffness,
            "damping": moment.damping, "feed-forward torques": moment.load, "joint positions": q,
            "joint velocities": speed,
        }  # fmt: skip
        for name, values in numbers.items():
            if not np.isfinite(values).all():
                yield "finite", f"the {name} are not all finite numbers: {values.tolist()}"
                return
        for name, values in (("stiffness", moment.stiffness), ("damping", moment.damping)):
            if (values < 0.0).any():
                yield "finite", f"the {name} is negative: {values.tolist()}"
        beyond = np.maximum(_LOWER - targets, targets - _UPPER)
        yield from _beyond("position", "target beyond the joint's range", beyond, limits.beyond_stop, "rad")
        slew = targets - moment.previous
        yield from _beyond("slew", "target jumps", np.abs(slew), _each(limits.slew), "rad in one step")
        change = np.abs(slew - self._slew_before(moment.previous))
        what = "target's step changes"
        yield from _beyond("slew_change", what, change, _each(limits.slew_change), "rad from step to step")
        reach = _each(limits.envelopes[self.phases.phase].reach)
        yield from _beyond("reach", "target away from the measured position", np.abs(targets - q), reach, "rad")
        torque = moment.stiffness * (targets - q) - moment.damping * speed + moment.load
        share = np.abs(torque) / torque_limits(q)
        what = "predicted torque as a share of the limit"
        yield from _beyond("torque", what, share, limits.torque_share, "")

    def _slew_before(self, previous: _Array) -> _Array:
        """Return how the targets before had changed; targets that this guard did not see pass were at rest."""
        if self._last is None or not np.array_equal(self._last[0], previous):
            return np.zeros_like(previous)
        return self._last[1]

    def _state_problems(self, state: RobotState, turn: _Turn) -> Iterator[tuple[str, str]]:
        limits = self.limits
        if not all(np.isfinite(part[0]).all() for part in state):
            yield "finite", "the robot's state is not all finite numbers"
            return
        q = state.joint_positions[0]
        beyond = np.maximum(_LOWER - q, q - _UPPER)
        yield from _beyond("joint_range", "joint beyond its range", beyond, limits.beyond_range, "rad")
        share = np.abs(state.joint_torques[0]) / torque_limits(q)
        what = "measured torque as a share of the limit"
        yield from _beyond("joint_torque", what, share, limits.measured_torque_share, "")
        touching = state.contact_forces[0, _FALL_LINKS] > _TOUCHING
        if touching.any():
            link = LINK_NAMES[_FALL_LINKS[int(np.argmax(touching))]]
            yield "fall", f"{link} touches the ground"
        yield from self._envelope_problems(state, turn)

    def _envelope_problems(self, state: RobotState, turn: _Turn) -> Iterator[tuple[str, str]]:
        lean, side = turn(state.projected_gravity[0])
        envelope = self.limits.envelopes[self.phases.phase]
        speeds = np.abs(state.joint_velocities[0])
        yield from _beyond("joint_speed", "joint speed", speeds, _each(envelope.joint_speed), "rad/s")
        low, high = envelope.lean
        if not low <= lean <= high:
            yield "lean", f"lean of {lean:.1f}°, expected {low:g}° to {high:g}°"
        if abs(side) > envelope.side:
            yield "side", f"turned {side:.1f}° onto a side, at most {envelope.side:g}°"
        speed = float(np.linalg.norm(state.base_linear_velocity[0]))
        if speed > envelope.speed:
            yield "speed", f"body at {speed:.2f} m/s, at most {envelope.speed:g} m/s"
        rate = float(np.linalg.norm(state.base_angular_velocity[0]))
        if rate > envelope.turn_rate:
            yield "turn_rate", f"body turns at {rate:.2f} rad/s, at most {envelope.turn_rate:g} rad/s"
        height = float(state.base_position[0, 2])
        if height < envelope.height:
            yield "height", f"body {height:.3f} m above the ground, at least {envelope.height:g} m"


def _each(limits: ByKind) -> _Array:
    """Return a limit by kind of joint as one by joint."""
    values: _Array = np.array(limits, dtype=np.float64)[_KINDS]
    return values


def _beyond(check: str, what: str, values: _Array, limit: float | _Array, unit: str) -> Iterator[tuple[str, str]]:
    """Yield the joint that is farthest beyond its limit, if one is; what cannot be compared is beyond."""
    limits = np.broadcast_to(np.asarray(limit, dtype=np.float64), values.shape)
    outside = ~(values <= limits)
    if outside.any():
        worst = int(np.argmax(np.where(outside, np.nan_to_num(values - limits, nan=np.inf), -np.inf)))
        yield check, f"{what}: {JOINT_NAMES[worst]} {values[worst]:.3f}, at most {limits[worst]:g} {unit}".rstrip()
