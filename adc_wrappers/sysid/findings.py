"""Findings of a search at its end, and what to warn of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .information import Information, judge
from .losses import residuals
from .parameters import KINDS
from .result import Identification, IdentifiedParameter, TraceErrors
from .simulation import Prediction, model_digest

if TYPE_CHECKING:
    from .identify import Problem
    from .search import CmaSearch

__all__ = ["Valley", "as_commanded", "identified_parameters", "make_identification", "trace_errors"]

_Array = NDArray[np.float64]
_AT_BOUND = 0.005
_MISMATCH = 0.3
_SMALL_SHARE = 0.05


class Valley(NamedTuple):
    """A local minimum of the loss."""

    point: _Array
    """In the unit cube."""
    loss: float
    information: Information | None
    """What the data say there; None for a loss that has no errors row by row."""


def trace_errors(problem: Problem, predicted: Prediction) -> TraceErrors:
    """Return root mean square errors of a prediction of one candidate."""
    measured = problem.measured

    def size(ours: _Array, theirs: _Array) -> float:
        return float(np.sqrt(np.mean((ours[0] - theirs) ** 2)))

    return TraceErrors(
        position=size(predicted.positions, measured.positions),
        velocity=size(predicted.velocities, measured.velocities),
        torque=None if measured.torques is None else size(predicted.torques, measured.torques),
    )


def make_identification(problem: Problem, search: CmaSearch, valleys: Sequence[Valley]) -> Identification:
    """Gather what was found; the best valley comes first."""
    space, settings, log = problem.space, problem.settings, problem.logs[0]
    point, loss, known = valleys[0]
    values = space.from_unit(point)
    prediction = problem.predict(point[None])
    joints = space.expand(values)
    parameters = identified_parameters(problem, valleys)
    plain = as_commanded(problem)
    return Identification(
        parameters=parameters,
        loss=loss,
        loss_name=settings.loss,
        confidence=settings.confidence,
        warnings=(*_warnings(parameters, known, space.names, len(valleys)), *_mismatch(problem, prediction)),
        joint_names=space.joint_names,
        commanded_stiffness=tuple(log.commanded_stiffness.tolist()),
        commanded_damping=tuple(log.commanded_damping.tolist()),
        simulated_stiffness=tuple((joints.stiffness[0] * log.commanded_stiffness).tolist()),
        simulated_damping=tuple((joints.damping[0] * log.commanded_damping).tolist()),
        joint_values={name: tuple(getattr(joints, name)[0].tolist()) for name in KINDS},
        errors=trace_errors(problem, prediction),
        errors_as_commanded=trace_errors(problem, plain),
        seed=settings.seed,
        generations=len(search.told),
        evaluations=problem.evaluations,
        simulated_seconds=problem.simulator.simulated_seconds,
        settings={
            "free": [asdict(parameter) for parameter in settings.free],
            "fixed": dict(settings.fixed),
            "windows": asdict(settings.windows),
            "scales": asdict(settings.scales),
            "torques": problem.measured.torques is not None,
            "fixed_base": log.base is None,
            "model": model_digest(settings.robot),
            "physics_step": problem.simulator.physics_step,
        },
        sources=tuple(item.source for item in problem.logs),
        prediction=prediction,
        prediction_as_commanded=plain,
        point=point,
        windows=problem.windows,
        measured=problem.measured,
    )


def _mismatch(problem: Problem, predicted: Prediction) -> Iterator[str]:
    """Warn if errors follow each other as noise does not: then the model differs from the robot.

    Positions, velocities and torques are judged one by one, without those that make up a small share of the errors.
    """
    errors = residuals(predicted, problem.measured, problem.settings.scales)[0]
    same = np.diff(problem.windows.row_window) == 0
    products = np.sum(errors[:-1][same] * errors[1:][same], axis=(0, 2))
    squares = np.maximum(np.sum(errors**2, axis=(0, 2)), 1e-300)
    counts = squares > _SMALL_SHARE * squares.sum()
    alike = float(np.max(products[counts] / squares[counts]))
    if alike > _MISMATCH:
        yield (
            f"the errors that are left are not noise (each is like the one before it, correlation {alike:.2f}): the "
            "model differs from the robot, and the intervals, which count noise only, are too narrow."
        )


def as_commanded(problem: Problem) -> Prediction:
    """Simulate the commanded gains, with every other parameter at its plain value."""
    values = [KINDS[kind].fixed for kind in problem.space.kinds]
    return problem.simulator.predict(np.array([values]))


def identified_parameters(problem: Problem, valleys: Sequence[Valley]) -> tuple[IdentifiedParameter, ...]:
    """Return the parameters of the best valley, with intervals that reach over all of them."""
    return tuple(_parameter(problem, index, valleys) for index in range(len(problem.space)))


def _parameter(problem: Problem, index: int, valleys: Sequence[Valley]) -> IdentifiedParameter:
    space = problem.space
    kind, place = space.kinds[index], float(valleys[0].point[index])
    low, extent = float(space.lower[index]), float(space.upper[index] - space.lower[index])
    value, known = low + place * extent, valleys[0].information
    ends = [
        valley.point[index] + sign * valley.information.half_width[index]
        for valley in valleys
        if valley.information is not None
        for sign in (-1.0, 1.0)
    ]
    verdict = judge(float(np.max(np.abs(np.array(ends) - place))), abs(value) / extent) if ends else "not judged"
    return IdentifiedParameter(
        name=space.names[index],
        kind=kind,
        unit=KINDS[kind].unit,
        value=value,
        lower=low + extent * float(min(ends)) if ends else None,
        upper=low + extent * float(max(ends)) if ends else None,
        bounds=(low, low + extent),
        sensitivity=None if known is None else float(known.sensitivity[index]),
        verdict=verdict,
        at_bound="lower" if place < _AT_BOUND else "upper" if place > 1.0 - _AT_BOUND else None,
    )


def _warnings(
    parameters: tuple[IdentifiedParameter, ...], known: Information | None, names: tuple[str, ...], valleys: int
) -> Iterator[str]:
    for parameter in parameters:
        if parameter.at_bound is not None:
            yield (
                f"{parameter.name} is at its {parameter.at_bound} bound {parameter.value:.4g} {parameter.unit}: the "
                "truth may lie beyond, or the data say nothing about it."
            )
        if parameter.verdict in ("weak", "not identified") and parameter.lower is not None:
            yield (
                f"{parameter.name} is {'only weakly' if parameter.verdict == 'weak' else 'not'} identified: "
                f"{parameter.value:.4g}, interval {parameter.lower:.4g} to {parameter.upper:.4g} {parameter.unit}."
            )
    if valleys > 1:
        yield f"{valleys} different sets of parameters explain the data equally well; the intervals reach over all."
    if known is None:
        yield "a loss between distributions gives no intervals. Identify with the trajectory loss to have them."
    elif known.weakest_deviation > 0.25 and len(known.weakest) > 1:
        together = ", ".join(names[index] for index, _ in known.weakest)
        yield (
            f"the data cannot tell apart {together}: they can move together without changing the traces. Fix one of "
            "them, log torques, or excite more."
        )
