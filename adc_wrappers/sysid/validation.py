"""Validation of what was identified, on a log that was not used, recorded at other gains."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers.core.reading import check_fields, read_object
from adc_wrappers.trajectories import TrajectoryLog

from .findings import Valley, as_commanded, identified_parameters, trace_errors
from .identify import IdentifySettings, Problem
from .information import polish
from .losses import Scales
from .parameters import FreeParameter, ParameterSpace
from .result import Identification, IdentificationError, IdentifiedParameter, TraceErrors
from .simulation import model_digest
from .windows import WindowSettings

__all__ = ["SavedIdentification", "Validation", "load_identification", "validate"]

_AGREEMENT = 0.05


@dataclass(frozen=True, kw_only=True)
class SavedIdentification:
    """The part of ``identification.json`` that a validation needs."""

    values: tuple[float, ...]
    parameters: tuple[dict[str, Any], ...]
    settings: IdentifySettings
    model: str | None
    """Digest of the robot's model; None for Spot."""

    def with_robot(self, robot: Mapping[str, Any]) -> IdentifySettings:
        """Return the settings with the robot's model, which must be the identified one's.

        Raises:
            ValueError: It is another.
        """
        if model_digest(robot) != self.model:
            wanted = "Spot's own model" if self.model is None else "the model that was identified with (--model)"
            raise ValueError(f"expected {wanted}; the parameters mean nothing for another.")
        return dataclasses.replace(self.settings, robot={**self.settings.robot, **robot})


@dataclass(frozen=True, kw_only=True)
class Validation:
    """A second log under the identified parameters."""

    errors: TraceErrors
    """Of the identified parameters, with the mapping of gains applied to this log's commanded gains."""

    errors_as_commanded: TraceErrors
    """Of a simulation that takes the commanded gains at their word."""

    refitted: tuple[IdentifiedParameter, ...]
    """The parameters fitted to this log instead, from the identified ones on."""

    agrees: bool
    """Whether the stiffness of both logs is the same: within 5 %, or intervals that meet."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return asdict(self)


@dataclass
class _SavedKinds:
    """Kinds of what ``identification.json`` holds."""

    settings: dict[str, Any]
    parameters: list[dict[str, Any]]
    confidence: float


@dataclass
class _SettingsKinds:
    free: list[dict[str, Any]]
    fixed: dict[str, float]
    windows: dict[str, Any]
    scales: dict[str, Any]
    physics_step: float
    model: str | None = None


@dataclass
class _ParameterKinds:
    value: float
    lower: float | None
    upper: float | None


def load_identification(path: Path) -> SavedIdentification:
    """Read an ``identification.json``; the robot's model is not in it.

    Raises:
        IdentificationError: The file is missing or not of an identification.
    """
    saved = read_object(path, IdentificationError)
    where = f"{path} (`adc sysid fit` makes them)"
    check_fields(_SavedKinds, saved, where, IdentificationError, more=True)
    check_fields(_SettingsKinds, saved["settings"], f"{where}, settings", IdentificationError, more=True)
    for item in saved["settings"]["free"]:
        check_fields(FreeParameter, item, f"{where}, free", IdentificationError)
    for item in saved["parameters"]:
        check_fields(_ParameterKinds, item, f"{where}, parameters", IdentificationError, more=True)
    check_fields(WindowSettings, saved["settings"]["windows"], f"{where}, windows", IdentificationError)
    check_fields(Scales, saved["settings"]["scales"], f"{where}, scales", IdentificationError)
    try:
        free = tuple(FreeParameter(**item) for item in saved["settings"]["free"])
        settings = IdentifySettings(
            free=free,
            fixed=saved["settings"]["fixed"],
            windows=WindowSettings(**saved["settings"]["windows"]),
            scales=Scales(**saved["settings"]["scales"]),
            confidence=saved["confidence"],
            robot={"physics_step": saved["settings"]["physics_step"]},
        )
        ParameterSpace(free, ("joint",), settings.fixed)  # each kind once, free or fixed
    except ValueError as error:  # a setting out of range, in its own class's words
        raise IdentificationError(f"{where}: {error}") from error
    values = tuple(float(item["value"]) for item in saved["parameters"])
    if not np.isfinite(values).all():
        raise IdentificationError(f"{where}: expected finite values of the parameters, got {values}.")
    return SavedIdentification(
        values=values,
        parameters=tuple(saved["parameters"]),
        settings=settings,
        model=saved["settings"].get("model"),
    )


def validate(
    found: Identification | SavedIdentification,
    logs: Sequence[TrajectoryLog],
    settings: IdentifySettings,
) -> Validation:
    """Simulate other logs under identified parameters, and fit them once more for comparison.

    Args:
        found: The identification.
        logs: Logs that it has not seen, best recorded at other commanded gains.
        settings: As for the identification.
    """
    problem = Problem(logs, dataclasses.replace(settings, loss="trajectory", use_torques=False))
    try:
        known: list[IdentifiedParameter | dict[str, Any]] = list(found.parameters)
        values = np.array([_value(item) for item in known])
        if len(values) != len(problem.space):
            raise IdentificationError(
                f"expected {len(problem.space)} parameters, as this robot's joints and the settings have it, got "
                f"{len(values)}. Use the identification of this robot."
            )
        point = problem.space.to_unit(values)
        errors = trace_errors(problem, problem.predict(point[None]))
        plain = trace_errors(problem, as_commanded(problem))
        best, loss = polish(problem.residuals, point)
        refitted = identified_parameters(problem, [Valley(best, loss, problem.information(best))])
    finally:
        problem.close()
    return Validation(
        errors=errors,
        errors_as_commanded=plain,
        refitted=refitted,
        agrees=all(
            _agree(before, after) for before, after in zip(known, refitted, strict=True) if after.kind == "stiffness"
        ),
    )


def _value(item: IdentifiedParameter | dict[str, Any]) -> float:
    return float(item["value"]) if isinstance(item, dict) else item.value


def _agree(before: IdentifiedParameter | dict[str, Any], after: IdentifiedParameter) -> bool:
    first = before if isinstance(before, dict) else asdict(before)
    if abs(after.value / first["value"] - 1.0) <= _AGREEMENT:
        return True
    ends = (first["lower"], first["upper"], after.lower, after.upper)
    return None not in ends and first["lower"] <= after.upper and after.lower <= first["upper"]
