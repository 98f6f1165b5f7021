"""What an identification found, as numbers for people, for JSON and for a curriculum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.config import CurriculumConfig

from .information import Information, Verdict, judge
from .losses import Measured, residuals
from .parameters import KINDS
from .simulation import Prediction
from .windows import Windows

if TYPE_CHECKING:
    from .identify import Problem
    from .search import CmaSearch

__all__ = [
    "Identification",
    "IdentifiedParameter",
    "TraceErrors",
    "Valley",
    "as_commanded",
    "identified_parameters",
    "make_identification",
    "trace_errors",
]

_Array = NDArray[np.float64]
_AT_BOUND = 0.005
_MISMATCH = 0.3


class Valley(NamedTuple):
    """A local minimum of the loss."""

    point: _Array
    """In the unit cube."""
    loss: float
    information: Information | None
    """What the data say there; None for a loss that has no errors row by row."""


@dataclass(frozen=True, kw_only=True)
class IdentifiedParameter:
    """One number that was identified."""

    name: str
    kind: str
    unit: str
    value: float
    lower: float | None
    """Lower end of the interval; None where the loss gives none."""
    upper: float | None
    bounds: tuple[float, float]
    sensitivity: float | None
    """Root mean square change of the scaled errors if it moves through its whole range."""
    verdict: Verdict | Literal["not judged"]
    at_bound: Literal["lower", "upper"] | None


@dataclass(frozen=True, kw_only=True)
class TraceErrors:
    """Root mean square errors of simulated against measured traces."""

    position: float
    """rad."""
    velocity: float
    """rad/s."""
    torque: float | None
    """N·m."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification:
    """Identified parameters, with what is needed to judge and to use them."""

    parameters: tuple[IdentifiedParameter, ...]
    loss: float
    loss_name: str
    confidence: float
    """Of all intervals together."""
    warnings: tuple[str, ...]
    joint_names: tuple[str, ...]
    commanded_stiffness: tuple[float, ...]
    """Sent to the robot while the first log was recorded, per joint."""
    commanded_damping: tuple[float, ...]
    simulated_stiffness: tuple[float, ...]
    """What a simulation needs to behave alike, per joint."""
    simulated_damping: tuple[float, ...]
    joint_values: dict[str, tuple[float, ...]]
    """Every parameter kind per joint, free or not."""
    errors: TraceErrors
    """Of the identified parameters."""
    errors_as_commanded: TraceErrors
    """Of a simulation that takes the commanded gains at their word."""
    seed: int
    generations: int
    evaluations: int
    simulated_seconds: float
    settings: dict[str, Any]
    sources: tuple[str, ...]
    prediction: Prediction
    """Of the identified parameters, at the rows that were compared."""
    prediction_as_commanded: Prediction
    point: _Array
    """In the unit cube."""
    windows: Windows
    """What was compared."""
    measured: Measured

    def parameter(self, name: str) -> IdentifiedParameter:
        """Return a parameter by name, such as ``stiffness`` or ``coulomb[kn]``."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise KeyError(f"no parameter {name!r}; there are {', '.join(p.name for p in self.parameters)}.")

    @property
    def identified(self) -> bool:
        """Whether the stiffness is known well enough to train with."""
        known = [p.verdict == "identified" and p.at_bound is None for p in self.parameters if p.kind == "stiffness"]
        return bool(known) and all(known)

    def target_stiffness(self) -> float | dict[str, float]:
        """Return K_* for :class:`CurriculumConfig`: one number, or one per joint where they differ."""
        values = np.round(self.simulated_stiffness, 4)
        if np.ptp(values) < 1e-9:
            return float(values[0])
        return dict(zip(self.joint_names, values.tolist(), strict=True))

    def curriculum(self, start_ratio: float = 1.5) -> CurriculumConfig:
        """Return a curriculum whose target is the identified stiffness.

        Args:
            start_ratio: Start stiffness over target; the paper's is 60 / 40. ``adc select-k0`` finds the task's own.

        Raises:
            ValueError: The stiffness could not be identified.
        """
        if not self.identified:
            raise ValueError(
                "the stiffness was not identified, so there is no target to train for. See the warnings: "
                + " ".join(self.warnings)
            )
        target = self.target_stiffness()
        if isinstance(target, dict):
            start: Any = {name: round(start_ratio * value, 4) for name, value in target.items()}
        else:
            start = round(start_ratio * target, 4)
        return CurriculumConfig(start_stiffness=start, target_stiffness=target)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the traces, as JSON-ready values."""
        gains = {
            "commanded": {"stiffness": self.commanded_stiffness, "damping": self.commanded_damping},
            "simulated": {"stiffness": self.simulated_stiffness, "damping": self.simulated_damping},
        }
        by_joint = {
            side: {name: dict(zip(self.joint_names, values, strict=True)) for name, values in both.items()}
            for side, both in gains.items()
        }
        mapping = {
            name: dict(zip(self.joint_names, self.joint_values[name], strict=True)) for name in ("stiffness", "damping")
        }
        return {
            "parameters": [asdict(parameter) for parameter in self.parameters],
            "gains": {
                **by_joint,
                "mapping": {"meaning": "simulated = mapping × commanded, per joint", **mapping},
            },
            "joints": {
                name: dict(zip(self.joint_names, values, strict=True))
                for name, values in self.joint_values.items()
                if name not in mapping
            },
            "loss": {"name": self.loss_name, "value": self.loss},
            "confidence": self.confidence,
            "warnings": list(self.warnings),
            "errors": {"identified": asdict(self.errors), "as_commanded": asdict(self.errors_as_commanded)},
            "search": {
                "seed": self.seed,
                "generations": self.generations,
                "evaluations": self.evaluations,
                "simulated_seconds": self.simulated_seconds,
            },
            "settings": self.settings,
            "sources": list(self.sources),
        }


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
    """Warn if errors follow each other as noise does not: then the model differs from the robot."""
    errors = residuals(predicted, problem.measured, problem.settings.scales)[0]
    same = np.diff(problem.windows.row_window) == 0
    products = np.sum(errors[:-1][same] * errors[1:][same], axis=(0, 2))
    alike = float(np.max(products / np.maximum(np.sum(errors**2, axis=(0, 2)), 1e-300)))
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
