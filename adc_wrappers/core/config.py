"""Settings of the Actuator Dynamics Curriculum."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .actuators import damping_for
from .drivers import DRIVERS, MEASURES, IterationReport
from .errors import CurriculumError, did_you_mean
from .joints import JointValues, normalize_joint_values, resolve_joint_values
from .reading import check_fields

__all__ = ["AUTHORS", "LATER_SETTINGS", "SEED_LIMIT", "CurriculumConfig"]

SEED_LIMIT = 2**32
"""Seeds are below this: numpy's and SB3's generators take no larger ones."""

_JOINT_FIELDS = ("start_stiffness", "target_stiffness", "exponent", "progress_begin", "progress_end", "fixed_damping")

_ORDERED = (
    ("length_min", "length_max"),
    ("success_min", "success_max"),
    ("task_progress_min", "task_progress_max"),
    ("adaptive_lower", "adaptive_upper"),
)

DAMPING = ("critical", "fixed")
AVERAGES = ("iteration", "resets")

AUTHORS: dict[str, Any] = {"damping": "fixed", "fixed_damping": 1.5, "average": "resets"}
"""In what the curriculum of the paper's authors' public code differs from the paper's: ``CurriculumConfig(**AUTHORS)``.

It keeps K·α constant as well, which is not the curriculum's: put ``ActionScaleCoupling`` around the env."""

LATER_SETTINGS: dict[str, Any] = {
    "damping": "critical",
    "fixed_damping": None,
    "average": "iteration",
    "task_progress_min": 0.0,
    "task_progress_max": 0.5,
    "adaptive_measure": "task_progress",
    "adaptive_lower": 0.1,
    "adaptive_upper": 0.5,
    "adaptive_step": 0.1,
    "adaptive_iterations": 10,
}
"""Settings that states of older versions do not have, and what they were."""


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig:
    """Settings of the curriculum; the defaults are the paper's (Table "ADC hyperparameters").

    A setting typed :data:`JointValues` takes one number for all joints, a sequence in joint order, or a mapping
    from joint name (or shell pattern such as ``"*_kn"``) to number.

    >>> CurriculumConfig().start_stiffness
    60.0
    >>> CurriculumConfig(start_stiffness=30.0)
    Traceback (most recent call last):
    ...
    adc_wrappers.core.errors.CurriculumError: start_stiffness 30.0 is below target_stiffness 40.0: ...
    """

    start_stiffness: JointValues = 60.0
    """K_0, at progress 0 (N·m/rad; N/m for a sliding joint)."""

    target_stiffness: JointValues = 40.0
    """K_*, the identified stiffness, at progress 1."""

    length_min: float = 0.0
    """Episode-length EMA at which the length-driven progress leaves 0 (policy steps)."""

    length_max: float = 1000.0
    """Episode-length EMA at which it reaches 1. The target is reached only if the EMA gets here, so let it sit a
    little below the task's time limit if the joints should really arrive at the target."""

    ema: float = 0.05
    """η: weight of one iteration's mean in the moving averages of episode length and success."""

    average: str = "iteration"
    """When the moving average of episode lengths moves: once per ``"iteration"`` (the paper), or once for all episodes
    that end in the same step (``"resets"``, the authors' code). K itself changes when an iteration ends either way."""

    exponent: JointValues = 1.0
    """p: shape of the annealing curve, ``K = K_0 + β^p (K_* − K_0)``."""

    damping: str = "critical"
    """``"critical"``: damping follows stiffness (the paper); ``"fixed"``: it is ``fixed_damping`` throughout."""

    damping_ratio: float = 1.0
    """ζ: damping that follows stiffness is ``B_i = 2 ζ √(K_i M_i)``; 1 is critical."""

    fixed_damping: JointValues | None = None
    """B of ``damping="fixed"`` (N·m·s/rad; N·s/m for a sliding joint)."""

    driver: str | Callable[[IterationReport], float] = "episode_length"
    """What moves progress: ``"episode_length"`` (the paper), ``"time"``, ``"fixed"``, ``"uniform"``, ``"success"``,
    ``"task_progress"``, ``"adaptive"``, or a function from :class:`IterationReport` to a progress in [0, 1]."""

    monotone: bool = False
    """Never return to stiffer joints: progress keeps its maximum."""

    hold_share: float = 0.0
    """Last share of ``total_iterations`` that is held at the target whatever the driver says."""

    total_iterations: int | None = None
    """Length of training in iterations; needed by ``driver="time"`` and by ``hold_share``."""

    fixed_progress: float = 0.0
    """Progress of ``driver="fixed"``: 0 trains at the start stiffness, 1 at the target."""

    success_min: float = 0.0
    """Success-rate EMA at which the success-driven progress leaves 0."""

    success_max: float = 0.9
    """Success-rate EMA at which it reaches 1."""

    task_progress_min: float = 0.0
    """Moving average of the task's own progress (``info["progress"]``) at which progress driven by it leaves 0."""

    task_progress_max: float = 0.5
    """Moving average at which it reaches 1."""

    adaptive_measure: str = "task_progress"
    """What ``driver="adaptive"`` looks at: ``"task_progress"``, ``"success"``, or ``"episode_length"`` as a share of
    ``length_max``; always over iterations at one stiffness."""

    adaptive_lower: float = 0.1
    """Measure below which it goes one step back to stiffer joints."""

    adaptive_upper: float = 0.5
    """Measure from which it goes one step on."""

    adaptive_step: float = 0.1
    """Size of a step, in progress."""

    adaptive_iterations: int = 10
    """Iterations at one stiffness after which it decides."""

    progress_begin: JointValues = 0.0
    """Progress at which a joint begins to soften; with ``progress_end`` a window per joint."""

    progress_end: JointValues = 1.0
    """Progress at which a joint has arrived at its target."""

    allow_softer_start: bool = False
    """Permit a start stiffness below the target (the reverse of the method)."""

    seed: int = 0
    """Seed of ``driver="uniform"``."""

    def __post_init__(self) -> None:
        for field in _JOINT_FIELDS:
            if getattr(self, field) is not None:
                object.__setattr__(self, field, normalize_joint_values(field, getattr(self, field)))
        self._check_scalars()
        self._check_joint_values()
        self._check_damping()
        self._check_driver()

    def _check_scalars(self) -> None:
        for field, low, high, rule in (
            ("length_min", 0.0, np.inf, "not negative"),
            ("success_min", 0.0, 1.0, "in [0, 1]"),
            ("success_max", 0.0, 1.0, "in [0, 1]"),
            ("fixed_progress", 0.0, 1.0, "in [0, 1]"),
            ("task_progress_min", 0.0, 1.0, "in [0, 1]"),
            ("task_progress_max", 0.0, 1.0, "in [0, 1]"),
            ("adaptive_lower", 0.0, 1.0, "in [0, 1]"),
            ("adaptive_upper", 0.0, 1.0, "in [0, 1]"),
        ):
            value = getattr(self, field)
            if not (np.isfinite(value) and low <= value <= high):
                raise CurriculumError(f"{field}: expected a number {rule}, got {value}.")
        for field, low, high in (("ema", 0.0, 1.0), ("damping_ratio", 0.0, np.inf), ("adaptive_step", 0.0, 1.0)):
            value = getattr(self, field)
            if not (np.isfinite(value) and low < value <= high):
                raise CurriculumError(f"{field}: expected a number above {low:g} and at most {high:g}, got {value}.")
        if not 0.0 <= self.hold_share < 1.0:
            raise CurriculumError(f"hold_share: expected a share in [0, 1), got {self.hold_share}.")
        for low_field, high_field in _ORDERED:
            low, high = getattr(self, low_field), getattr(self, high_field)
            if not (np.isfinite(high) and low < high):
                raise CurriculumError(f"expected {low_field} < {high_field}, got {low} and {high}.")
        if not 0 <= self.seed < SEED_LIMIT:
            raise CurriculumError(f"seed: expected a whole number in [0, 2^32), got {self.seed}.")
        for field in ("total_iterations", "adaptive_iterations"):
            if getattr(self, field) is not None and getattr(self, field) < 1:
                raise CurriculumError(f"{field}: expected at least 1, got {getattr(self, field)}.")
        if self.adaptive_measure not in MEASURES:
            raise CurriculumError(
                f"unknown adaptive_measure {self.adaptive_measure!r}. {did_you_mean(self.adaptive_measure, MEASURES)}"
            )

    def _check_joint_values(self) -> None:
        for field in ("start_stiffness", "target_stiffness", "exponent"):
            worst = min(_numbers(getattr(self, field)))
            if worst <= 0.0:
                raise CurriculumError(f"{field}: expected positive numbers, got {worst}.")
        for field in ("progress_begin", "progress_end"):
            if any(not 0.0 <= value <= 1.0 for value in _numbers(getattr(self, field))):
                raise CurriculumError(f"{field}: expected numbers in [0, 1], got {getattr(self, field)}.")
        if isinstance(self.start_stiffness, float) and isinstance(self.target_stiffness, float):
            check_direction(self, self.start_stiffness, self.target_stiffness)

    def _check_damping(self) -> None:
        for field, known in (("damping", DAMPING), ("average", AVERAGES)):
            value = getattr(self, field)
            if value not in known:
                raise CurriculumError(f"unknown {field} {value!r}. {did_you_mean(str(value), known)}")
        if (self.damping == "fixed") != (self.fixed_damping is not None):
            raise CurriculumError(
                "expected damping='fixed' together with fixed_damping, its value, or neither; got "
                f"damping={self.damping!r}, fixed_damping={self.fixed_damping!r}."
            )
        if self.fixed_damping is not None and min(_numbers(self.fixed_damping)) <= 0.0:
            raise CurriculumError(f"fixed_damping: expected positive numbers, got {self.fixed_damping}.")

    def _check_driver(self) -> None:
        if isinstance(self.driver, str):
            if self.driver not in DRIVERS:
                raise CurriculumError(f"unknown driver {self.driver!r}. {did_you_mean(self.driver, DRIVERS)}")
            if self.driver == "time" and self.total_iterations is None:
                raise CurriculumError(
                    "driver='time' needs total_iterations: how many iterations the whole training takes."
                )
        elif not callable(self.driver):
            raise CurriculumError(f"driver: expected a name or a function, got {self.driver!r}.")
        if self.hold_share > 0.0 and self.total_iterations is None:
            raise CurriculumError("hold_share needs total_iterations: a share of how many iterations?")

    def damping_at(
        self, stiffness: NDArray[np.float64], inertia: NDArray[np.float64], joint_names: Sequence[str]
    ) -> NDArray[np.float64]:
        """Return the damping that goes with a stiffness, in its shape.

        Args:
            stiffness: K, the joints along the last axis.
            inertia: Effective inertia per joint.
            joint_names: Names of the joints.

        >>> CurriculumConfig(damping="fixed", fixed_damping=1.5).damping_at(np.full(2, 40.0), np.ones(2), ("a", "b"))
        array([1.5, 1.5])
        """
        if self.damping == "critical":
            return damping_for(stiffness, inertia, self.damping_ratio)
        fixed: Any = self.fixed_damping
        values = resolve_joint_values("fixed_damping", fixed, joint_names)
        return np.broadcast_to(values, np.shape(stiffness)).copy()

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON-ready values (a function as ``"module:name"``)."""
        values = dataclasses.asdict(self)
        if not isinstance(self.driver, str):
            name = getattr(self.driver, "__qualname__", type(self.driver).__qualname__)
            values["driver"] = f"{getattr(self.driver, '__module__', '?')}:{name}"
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CurriculumConfig:
        """Build a config from :meth:`to_dict`'s output; an unknown key raises."""
        known = {field.name for field in dataclasses.fields(cls)}
        for key in values if isinstance(values, dict) else ():
            if key not in known:
                raise CurriculumError(f"unknown curriculum setting {key!r}. {did_you_mean(key, known)}")
        check_fields(cls, values, "curriculum")
        return cls(**values)


def check_direction(config: CurriculumConfig, start: Any, target: Any) -> None:
    """Raise if a joint would start softer than its target without the config saying so."""
    if config.allow_softer_start or not np.any(np.asarray(start) < np.asarray(target)):
        return
    raise CurriculumError(
        f"start_stiffness {start} is below target_stiffness {target}: the curriculum anneals from stiff to soft. "
        "Swap them, or pass allow_softer_start=True if the reverse is what you want."
    )


def _numbers(values: Any) -> list[float]:
    if isinstance(values, dict):
        return list(values.values())
    return list(values) if isinstance(values, tuple) else [values]
