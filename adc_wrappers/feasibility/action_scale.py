"""The smallest action scale at which a joint PD law can hold Spot on two feet, and the search for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import SPOT, RobotSpec
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.spot import Stance
from adc_wrappers.envs.spot.body import SpotBody

from .statics import Balance, StaticRobot, StaticStance, tilt

__all__ = ["InfeasibleStanceError", "Minimum", "minimize", "smallest_action_scale"]


_Array = NDArray[np.float64]
_PATIENCE = 80  # generations without progress
_PROGRESS = 1e-5


class Minimum(NamedTuple):
    """The best point that was found."""

    point: _Array
    value: float
    violation: float
    """0 where every constraint holds."""
    generations: int


def minimize(
    function: Callable[[_Array], tuple[_Array, _Array]],
    lower: _Array,
    upper: _Array,
    *,
    rng: np.random.Generator,
    population: int = 80,
    max_generations: int = 1500,
) -> Minimum:
    """Find the least value within bounds by differential evolution (current-to-best, binomial crossover).

    Of two points the one that violates the constraints less wins, and among those that violate none the one with the
    lower value (Deb's rules), so no penalty weight must be chosen. The search ends when the best
    point has not become better by 1e-5 for 80 generations.

    Args:
        function: From points ``(n, d)`` to their values and how much they violate the constraints, both ``(n,)``.
        lower: Lower bounds, ``(d,)``.
        upper: Upper bounds, ``(d,)``.
        rng: Source of the random numbers.
        population: Points kept at a time, at least 4.
        max_generations: Where the search ends at the latest.

    Example:
        >>> def circle(points):
        ...     return points.sum(axis=1), np.maximum(0.0, (points**2).sum(axis=1) - 1.0)
        >>> best = minimize(circle, np.full(2, -2.0), np.full(2, 2.0), rng=np.random.default_rng(0))
        >>> best.point.round(4).tolist(), best.violation
        ([-0.7071, -0.7071], 0.0)
    """
    points = lower + rng.random((population, len(lower))) * (upper - lower)
    values, violations = function(points)
    generation, mark, marked = 0, (np.inf, np.inf), 0
    for generation in range(1, max_generations + 1):
        trials = _trials(points, points[_best(values, violations)], lower, upper, rng)
        trial_values, trial_violations = function(trials)
        legal = (trial_violations <= 0.0) & (violations <= 0.0)
        better = np.where(legal, trial_values <= values, trial_violations < violations)
        points[better], values[better] = trials[better], trial_values[better]
        violations[better] = trial_violations[better]
        best = _best(values, violations)
        if violations[best] < mark[0] - _PROGRESS or values[best] < mark[1] - _PROGRESS:
            mark, marked = (float(violations[best]), float(values[best])), generation
        elif generation - marked >= _PATIENCE:
            break
    best = _best(values, violations)
    return Minimum(points[best], float(values[best]), float(violations[best]), generation)


def _best(values: _Array, violations: _Array) -> int:
    return int(np.lexsort((values, violations))[0])


def _trials(points: _Array, best: _Array, lower: _Array, upper: _Array, rng: np.random.Generator) -> _Array:
    """One new point for each old one; a coordinate that leaves the bounds is put half way to them."""
    count, size = points.shape
    first, second = (rng.permutation(count) for _ in range(2))
    factor = rng.uniform(0.4, 0.9, (count, 1))
    pull = rng.uniform(0.0, 0.6, (count, 1))
    mutants = points + pull * (best - points) + factor * (points[first] - points[second])
    mutants = np.where(mutants < lower, 0.5 * (points + lower), mutants)
    mutants = np.where(mutants > upper, 0.5 * (points + upper), mutants)
    keep = rng.random((count, size)) > 0.9
    keep[np.arange(count), rng.integers(0, size, count)] = False
    return np.where(keep, points, mutants)


_SHANK_CLEARANCE = 0.005  # m: a foot sinks 3 mm into MuJoCo's ground under Spot's weight
_LEAST_TOLERANCE = np.deg2rad(0.5)
_TIE_BREAK = 1e-3  # weight of the mean offset: of equal maxima the posture nearest to the nominal one
_RESTARTS = 4


class InfeasibleStanceError(CurriculumError):
    """A stance for which no posture keeps the constraints, whatever the action scale."""


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
