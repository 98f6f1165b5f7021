"""CMA-ES by ask and tell, seeded, and resumable from a JSON file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.reading import read_object

from .result import IdentificationError

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about plotting packages, which are not used
        import cma
except ImportError as error:
    raise MissingExtraError("cma", "sysid", "System identification") from error

__all__ = ["CmaSearch", "resume_search"]

_Array = NDArray[np.float64]


class CmaSearch:
    """A search in the unit cube.

    The random numbers are its own, so the same seed and the same losses give the same questions. That makes it
    resumable without a pickle: :meth:`state_dict` holds the losses it was told, :meth:`from_state` tells them again.

    Args:
        dimension: Numbers that are searched for.
        seed: Of its random numbers.
        population: Candidates per generation; by default cma's ``4 + 3 ln n``, but at least 8.
        sigma: First standard deviation, as a share of each bound's range.
    """

    def __init__(self, dimension: int, *, seed: int = 0, population: int | None = None, sigma: float = 0.25) -> None:
        self.dimension, self.seed, self.sigma = dimension, seed, sigma
        self.population = max(8, 4 + int(3 * np.log(dimension))) if population is None else population
        if self.population < 4 or not (np.isfinite(sigma) and sigma > 0.0):
            raise ValueError(f"expected a population of at least 4 and a sigma above 0, got {population} and {sigma}.")
        self.told: list[list[float]] = []
        """Losses of every generation so far."""
        self._points: list[_Array] = []
        self.best: tuple[float, _Array] = (np.inf, np.full(dimension, 0.5))
        """Smallest loss so far and where."""
        draw = np.random.RandomState(seed)  # cma wants a function like its randn
        options = {
            "bounds": [0.0, 1.0],
            "popsize": self.population,
            "randn": draw.randn,
            "seed": np.nan,  # leaves numpy's global generator alone
            "verbose": -9,
            "verb_log": 0,
            "tolfun": 0.0,
            "tolfunhist": 0.0,
            "tolx": 0.0,
            "tolflatfitness": 10**6,
        }
        padded = dimension if dimension > 1 else 2  # cma does not search a line: a second number is there and unused
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._strategy = cma.CMAEvolutionStrategy([0.5] * padded, sigma, options)
        self._asked: list[Any] | None = None

    @property
    def spread(self) -> float:
        """Largest standard deviation of the present distribution, as a share of its bound's range."""
        return float(np.max(self._strategy.sigma * np.sqrt(np.diag(self._strategy.C))))

    def ask(self) -> _Array:
        """Return the next generation, ``(population, dimension)``, in the unit cube."""
        self._asked = self._strategy.ask()
        return np.array(self._asked)[:, : self.dimension]

    def tell(self, losses: _Array) -> None:
        """Take in the losses of the generation just asked for."""
        if self._asked is None or len(losses) != self.population:
            raise ValueError(f"tell: expected {self.population} losses, for the generation just asked for.")
        values = [float(loss) for loss in losses]
        best = int(np.argmin(values))
        if values[best] < self.best[0]:
            self.best = values[best], np.array(self._asked[best])[: self.dimension]
        self._strategy.tell(self._asked, values)
        self._points.append(np.array(self._asked)[:, : self.dimension])
        self._asked = None
        self.told.append(values)

    def best_apart(self, count: int, distance: float) -> list[_Array]:
        """Return the best points so far that are at least this far apart in some number; the middle if there are none.

        They are where to look for valleys that the search has passed by.
        """
        if not self._points:
            return [np.full(self.dimension, 0.5)]
        points, losses = np.concatenate(self._points), np.concatenate(self.told)
        chosen: list[_Array] = []
        for index in np.argsort(losses, kind="stable"):
            if all(np.abs(points[index] - other).max() >= distance for other in chosen):
                chosen.append(points[index])
            if len(chosen) == count:
                break
        return chosen

    def state_dict(self) -> dict[str, Any]:
        """Return the search as JSON-ready values."""
        settings = {name: getattr(self, name) for name in ("dimension", "seed", "population", "sigma")}
        return {**settings, "told": [list(losses) for losses in self.told]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> CmaSearch:
        """Return a search that stands where the saved one stood."""
        search = cls(
            int(state["dimension"]),
            seed=int(state["seed"]),
            population=int(state["population"]),
            sigma=float(state["sigma"]),
        )
        for losses in state["told"]:
            search.ask()
            search.tell(np.asarray(losses, dtype=np.float64))
        return search


def resume_search(path: Path, fresh: CmaSearch, problem: str) -> CmaSearch:
    """Return the search that a file holds, if it is of the same settings and problem as a fresh one.

    Args:
        path: What was written of :meth:`CmaSearch.state_dict`, with the problem's fingerprint.
        fresh: The search as it would begin.
        problem: Fingerprint of the problem.

    Raises:
        IdentificationError: The file is damaged, or of another search.
    """
    state = read_object(path, IdentificationError)
    kept = {**fresh.state_dict(), "problem": problem, "told": None}
    if {**{name: state.get(name) for name in kept}, "told": None} != kept:
        raise IdentificationError(
            f"{path} is of a search with other settings or logs. Remove it, or use those it was begun with."
        )
    told = state.get("told")
    if not isinstance(told, list) or not all(_are_losses(losses, fresh.population) for losses in told):
        raise IdentificationError(
            f"{path}: expected {fresh.population} finite losses of every generation; the file is damaged: remove it."
        )
    return CmaSearch.from_state(state)


def _are_losses(losses: Any, count: int) -> bool:
    numbers = isinstance(losses, list) and len(losses) == count and all(type(loss) in (int, float) for loss in losses)
    return numbers and bool(np.isfinite(np.array(losses, dtype=np.float64)).all())
