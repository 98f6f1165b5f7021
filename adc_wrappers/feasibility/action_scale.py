"""The smallest action scale at which a joint PD law can hold Spot on two feet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import SPOT, RobotSpec
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.spot import Stance
from adc_wrappers.envs.spot.body import SpotBody

from .search import minimize
from .stance import StaticStance, tilt
from .statics import Balance, StaticRobot

__all__ = ["InfeasibleStanceError", "smallest_action_scale"]

_SHANK_CLEARANCE = 0.005  # m: a foot sinks 3 mm into MuJoCo's ground under Spot's weight
_LEAST_TOLERANCE = np.deg2rad(0.5)
_TIE_BREAK = 1e-3  # weight of the mean offset: of equal maxima the posture nearest to the nominal one
_RESTARTS = 4

_Array = NDArray[np.float64]


class InfeasibleStanceError(CurriculumError):
    """No posture keeps the constraints, whatever the action scale."""


def smallest_action_scale(
    stance: Stance,
    stiffness: float,
    *,
    tolerance: float = np.deg2rad(5.0),
    clearance: float = 0.05,
    height: float = 0.0,
    friction: float = 0.3,
    seed: int = 0,
    robot: RobotSpec = SPOT,
) -> StaticStance:
    """Find the smallest α with a static stance inside ``|a| ≤ 1``.

    It minimizes ``max_i |q_i + τ_i/K − q_0,i|`` over the postures that are their own mirror image, have the centre of
    mass above the two supporting feet, every other link off the ground, the legs of one side on that side, and every
    joint within its range and its torque limit (the knee's at its angle). Stops at the end of a joint's range carry
    nothing. The answer is an upper bound that a search from several starts could not improve.

    α may rise or fall with K: a joint that sags the way the posture wants it needs less command if it is softer.

    Args:
        stance: Which feet carry, and which way is down.
        stiffness: K of every joint, N·m/rad.
        tolerance: Largest angle between the direction of gravity and the wanted one, rad, at least 0.5°.
        clearance: Least height of all links but the supporting feet and lower legs, m.
        height: Least height of the body's origin, m.
        friction: Coefficient of friction, for the forces with which the feet may push against each other; by default
            the least of the tasks' randomization.
        seed: Seed of the search.
        robot: The table: Spot's, or its planar robot's, whose legs are straight and whose feet cannot squeeze.

    Raises:
        CurriculumError: A number is off.
        InfeasibleStanceError: No posture keeps the constraints.
    """
    _check(stiffness, tolerance, clearance=clearance, height=height, friction=friction)
    postures = _Postures(robot, stance)

    def evaluate(points: _Array) -> tuple[_Array, _Array]:
        joints, balance = postures.balance(points)
        offsets = np.abs(joints + balance.torques / stiffness - np.array(robot.nominal_pose))
        short = (
            tolerance - tilt(balance.down, stance),
            balance.clearance - clearance,
            balance.shank_clearance - _SHANK_CLEARANCE,
            balance.height - height,
            balance.apart,
            1.0 - np.abs(balance.torques / balance.torque_limits).max(axis=1),
        )
        return offsets.max(axis=1) + _TIE_BREAK * offsets.mean(axis=1), np.maximum(0.0, np.negative(short)).sum(axis=0)

    rng = np.random.default_rng(seed)
    searches = (minimize(evaluate, *postures.bounds(friction), rng=rng) for _ in range(_RESTARTS))
    found = min(searches, key=lambda minimum: (minimum.violation, minimum.value))
    if found.violation > 0.0:
        raise InfeasibleStanceError(
            f"no posture holds a {stance.name} within {np.rad2deg(tolerance):g}° of upright, with the body's origin at "
            f"least {height:g} m high, {clearance:g} m of clearance and the joints within their ranges and torque "
            "limits. Allow a larger tolerance, less height or less clearance."
        )
    joints, balance = postures.balance(found.point[np.newaxis])
    x, y, z = balance.down[0].tolist()
    return StaticStance(
        stance=stance,
        stiffness=stiffness,
        down=(x, y, z),
        height=float(balance.height[0]),
        clearance=float(balance.clearance[0]),
        squeeze=float(postures.squeeze(found.point)),
        positions=joints[0],
        torques=balance.torques[0],
        torque_limits=balance.torque_limits[0],
        robot=robot,
    )


class _Postures:
    """Mirrored postures by a few numbers: the joints of a supporting leg, then of another, then the squeeze."""

    def __init__(self, robot: RobotSpec, stance: Stance) -> None:
        support = SpotBody(robot).own_feet(stance.support_feet)
        self._robot = StaticRobot(support, robot)
        self._planar = robot.planar
        parts = len(robot.actuated) // len(robot.foot_names)
        carries = [name in support for name in robot.foot_names]
        self._columns = np.array([(0 if carrying else parts) + part for carrying in carries for part in range(parts)])
        sideways = [name[1] == "r" and name.endswith("_hx") for name in robot.joint_names]
        self._signs = np.where(sideways, -1.0, 1.0)
        left = [self._columns.tolist().index(column) for column in range(2 * parts)]
        self._lower, self._upper = self._robot.lower[left], self._robot.upper[left]

    def bounds(self, friction: float) -> tuple[_Array, _Array]:
        """Joint ranges, and the squeeze as a share of what a foot carries."""
        most = 0.0 if self._planar else friction
        return np.append(self._lower, -most), np.append(self._upper, most)

    def squeeze(self, points: _Array) -> _Array:
        """Return the force that pushes the supporting feet towards each other, N."""
        return np.asarray(0.5 * self._robot.weight * points[..., -1])

    def balance(self, points: _Array) -> tuple[_Array, Balance]:
        """Return the angles of all joints, ``(n, joints)``, and the balance of each posture."""
        joints = points[:, self._columns] * self._signs
        return joints, self._robot.balance(joints, self.squeeze(points))


def _check(stiffness: float, tolerance: float, **others: float) -> None:
    if not (np.isfinite(stiffness) and stiffness > 0.0):
        raise CurriculumError(f"stiffness: expected a positive number, got {stiffness}.")
    if not _LEAST_TOLERANCE <= tolerance <= np.pi:
        raise CurriculumError(f"tolerance: expected 0.5° to 180°, got {np.rad2deg(tolerance):g}°.")
    for name, value in others.items():
        if not (np.isfinite(value) and value >= 0.0):
            raise CurriculumError(f"{name}: expected a number that is not negative, got {value}.")
