"""The result of an identification, as numbers for people, for JSON and for a curriculum."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.config import CurriculumConfig

from .information import Verdict
from .losses import Measured
from .simulation import Prediction
from .windows import Windows

__all__ = ["Identification", "IdentificationError", "IdentifiedParameter", "TraceErrors"]


class IdentificationError(ValueError):
    """A result or a state of an identification that cannot be used, or is of another one."""


_Array = NDArray[np.float64]


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
