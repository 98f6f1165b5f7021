"""Identification from logs: CMA-ES over a batch of robots, Gauss-Newton to finish, and what the data say."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.files import write_json
from adc_wrappers.trajectories import TrajectoryError, TrajectoryLog
from adc_wrappers.trajectories.columns import log_to_columns

from .findings import Valley, make_identification
from .information import Information, gather_information, polish
from .losses import LossName, Measured, Scales, mmd, residuals, soften, squared_error, wasserstein
from .parameters import FreeParameter, ParameterSpace
from .result import Identification
from .search import CmaSearch, resume_search
from .simulation import Prediction, WindowSimulator, model_digest
from .windows import Windows, WindowSettings, in_joint_order

__all__ = ["DEFAULT_FREE", "IdentifySettings", "Problem", "identify"]

_Array = NDArray[np.float64]

DEFAULT_FREE = (
    FreeParameter("stiffness"),
    FreeParameter("damping", "type"),
    FreeParameter("coulomb", "type"),
    FreeParameter("delay"),
)
"""What is free unless told otherwise: eight numbers on Spot. Viscous friction is part of the damping."""

_NO_PHYSICS = ("model", "nthread")  # a model has a digest of its own
_APART, _SAME = 0.1, 1e-3
_EQUAL = 6.0  # about the 95 % quantile of chi-squared per parameter, doubled for errors that are not independent


@dataclass(frozen=True, kw_only=True)
class IdentifySettings:
    """Settings of a search."""

    free: tuple[FreeParameter, ...] = DEFAULT_FREE
    """Free parameters."""

    fixed: Mapping[str, float] = field(default_factory=dict)
    """Values of parameters that are not free, where they are not the default."""

    loss: LossName = "trajectory"
    """Row by row, or between distributions of positions and velocities."""

    windows: WindowSettings = field(default_factory=WindowSettings)
    scales: Scales = field(default_factory=Scales)

    robust: bool | None = None
    """Let large errors count less; by default where the base is free, for contacts make some windows unforeseeable."""

    use_torques: bool = False
    """Compare torques too. They tell viscous friction from damping, so let ``viscous`` be free then."""

    population: int | None = None
    """Candidates per generation; by default ``4 + 3 ln n``, at least 8."""

    sigma: float = 0.25
    """First spread of the search, as a share of the bounds' range."""

    generations: int = 60
    """Most generations of CMA-ES; 0 leaves it out, and Gauss-Newton begins in the middle of the bounds."""

    tolerance: float = 0.1
    """CMA-ES ends when its spread is below this share of the bounds' range; Gauss-Newton goes on from there."""

    valleys: int = 3
    """Points of the search from which Gauss-Newton goes on; intervals reach over all valleys that fit equally well."""

    confidence: float = 0.95
    """Of all intervals together."""

    seed: int = 0
    """Of the search."""

    robot: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the MuJoCo backend: ``model``, ``joint_names``, ``physics_step``, ``nthread``, …"""

    def __post_init__(self) -> None:
        if (
            self.generations < (self.loss != "trajectory")
            or not 0.0 < self.tolerance < 1.0
            or not 0.0 < self.confidence < 1.0
        ):
            raise ValueError(
                "expected generations (at least 1 with a loss between distributions), and tolerance and confidence "
                "between 0 and 1; got "
                f"{self.generations}, {self.tolerance} and {self.confidence}."
            )


class Problem:
    """Logs and a simulator that answers how far candidates are from them.

    Args:
        logs: Logs of one robot, at the same or at different commanded gains.
        settings: How to search.

    Raises:
        TrajectoryError: A log has other joints than the robot, or is too short.
    """

    def __init__(self, logs: Sequence[TrajectoryLog], settings: IdentifySettings) -> None:
        joints = _joint_names(settings.robot)
        self.settings = settings
        self.logs = tuple(in_joint_order(log, joints) for log in logs)
        self.space = ParameterSpace(settings.free, joints, settings.fixed)
        without = [log.source for log in self.logs if log.torques is None]
        if settings.use_torques and without:
            raise TrajectoryError(
                f"log {without[0]!r}: column 'torque.{joints[0]}' is missing: it has no torques to use."
            )
        self.windows = Windows(self.logs, settings.windows)
        self.search_size = CmaSearch(len(self.space), population=settings.population).population
        self.simulator = WindowSimulator(
            self.windows, self.space, candidates=self.search_size, robot=settings.robot
        )  # fmt: skip
        self.measured = Measured(
            self.windows.measured("positions"),
            self.windows.measured("velocities"),
            self.windows.measured("torques") if settings.use_torques else None,
        )
        on_feet = self.logs[0].base is not None
        self.softened = on_feet if settings.robust is None else settings.robust
        self.evaluations = 0
        """Candidates simulated so far."""

    def predict(self, points: _Array) -> Prediction:
        """Simulate points of the unit cube."""
        self.evaluations += len(points)
        return self.simulator.predict(self.space.from_unit(points))

    def residuals(self, points: _Array) -> _Array:
        """Return scaled errors of points of the unit cube, softened where the settings say so."""
        errors = residuals(self.predict(points), self.measured, self.settings.scales)
        return soften(errors) if self.softened else errors

    def losses(self, points: _Array) -> _Array:
        """Return the loss of points of the unit cube."""
        if self.settings.loss == "trajectory":
            return squared_error(self.residuals(points))
        measure = wasserstein if self.settings.loss == "wasserstein" else mmd
        return measure(self.predict(points), self.measured)

    def information(self, point: _Array) -> Information:
        """Return what the data say at a point."""
        return gather_information(self.residuals, point, self.windows.row_window, self.settings.confidence)

    def fingerprint(self) -> str:
        """Return a digest of what decides a candidate's loss: settings, model and logs."""
        names = ("free", "fixed", "loss", "windows", "scales", "robust", "use_torques")
        robot = sorted((name, repr(value)) for name, value in self.settings.robot.items() if name not in _NO_PHYSICS)
        values = [*(getattr(self.settings, name) for name in names), robot, model_digest(self.settings.robot)]
        digest = hashlib.sha256(repr(values).encode())
        for log in self.logs:
            for column in log_to_columns(log).values():
                digest.update(np.ascontiguousarray(column).tobytes())
            digest.update(log.commanded_stiffness.tobytes() + log.commanded_damping.tobytes())
        return digest.hexdigest()

    def close(self) -> None:
        """Release the engine."""
        self.simulator.close()


def identify(
    logs: Sequence[TrajectoryLog],
    settings: IdentifySettings | None = None,
    *,
    state_file: Path | None = None,
    on_generation: Callable[[int, float, float], None] | None = None,
) -> Identification:
    """Identify parameters from logs.

    Args:
        logs: Logs of one robot.
        settings: How to search.
        state_file: Where the search is kept after every generation; if it is there, the search goes on from it.
        on_generation: Called with generation, best loss and spread.

    Returns:
        Parameters with intervals, and how measured and simulated traces compare.
    """
    settings = IdentifySettings() if settings is None else settings
    problem = Problem(logs, settings)
    try:
        search = _start(problem, settings, state_file)
        while len(search.told) < settings.generations and search.spread > settings.tolerance:
            search.tell(problem.losses(search.ask()))
            if state_file is not None:
                write_json(state_file, {**search.state_dict(), "problem": problem.fingerprint()})
            if on_generation is not None:
                on_generation(len(search.told), search.best[0], search.spread)
        return make_identification(problem, search, find_valleys(problem, search))
    finally:
        problem.close()


def find_valleys(problem: Problem, search: CmaSearch) -> list[Valley]:
    """Go downhill from the best points of a search, and return the valleys that explain the data equally well.

    The best comes first. Two valleys are equal if the data cannot choose between them: if their squared errors differ
    by less than noise does.
    """
    settings = problem.settings
    if settings.loss != "trajectory":
        return [Valley(search.best[1], search.best[0], None)]
    starts = search.best_apart(settings.valleys, _APART)
    ends = sorted((polish(problem.residuals, start) for start in starts), key=lambda end: end[1])
    limit = ends[0][1] * (1.0 + _EQUAL * len(problem.space) / problem.measured.positions.size)
    kept: list[Valley] = []
    for point, loss in ends:
        new = all(np.abs(point - other.point).max() > _SAME for other in kept)
        if not kept or (loss <= limit and new):
            kept.append(Valley(point, loss, problem.information(point)))
    return kept


def _start(problem: Problem, settings: IdentifySettings, state_file: Path | None) -> CmaSearch:
    """Begin a search, or go on with one that was left."""
    fresh = CmaSearch(
        len(problem.space), seed=settings.seed, population=settings.population, sigma=settings.sigma
    )  # fmt: skip
    if state_file is None or not state_file.exists():
        return fresh
    return resume_search(state_file, fresh, problem.fingerprint())


def _joint_names(robot: Mapping[str, Any]) -> tuple[str, ...]:
    from adc_wrappers.backends.spot_model import JOINT_NAMES

    return tuple(robot.get("joint_names") or JOINT_NAMES)
