"""Does what was identified hold for a log that was not used, recorded at other gains?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers.trajectories import TrajectoryLog

from .findings import Valley, as_commanded, identified_parameters, trace_errors
from .identify import IdentifySettings, Problem
from .information import polish
from .losses import Scales
from .parameters import FreeParameter
from .result import Identification, IdentifiedParameter, TraceErrors
from .simulation import model_digest
from .windows import WindowSettings

__all__ = ["SavedIdentification", "Validation", "load_identification", "validate"]

_AGREEMENT = 0.05


@dataclass(frozen=True, kw_only=True)
class SavedIdentification:
    """What ``identification.json`` says that a validation needs."""

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


def load_identification(path: Path) -> SavedIdentification:
    """Read an ``identification.json``; the robot's model is not in it.

    Raises:
        ValueError: The file is missing or not of an identification.
    """
    try:
        saved = json.loads(path.read_text())
        free = tuple(FreeParameter(**item) for item in saved["settings"]["free"])
        settings = IdentifySettings(
            free=free,
            fixed=saved["settings"]["fixed"],
            windows=WindowSettings(**saved["settings"]["windows"]),
            scales=Scales(**saved["settings"]["scales"]),
            confidence=saved["confidence"],
            robot={"physics_step": saved["settings"]["physics_step"]},
        )
        parameters = tuple(saved["parameters"])
        return SavedIdentification(
            values=tuple(float(item["value"]) for item in parameters),
            parameters=parameters,
            settings=settings,
            model=saved["settings"].get("model"),
        )
    except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not an identification ({error!r}). `adc sysid fit` makes them.") from error


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
