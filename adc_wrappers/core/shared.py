"""What the curriculum's wrappers have in common."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from gymnasium.error import ResetNeeded

from .controller import CurriculumController
from .curriculum import ActuatorCurriculum
from .errors import CurriculumError
from .totals import EpisodeTotals

__all__ = ["CurriculumMethods", "check_iteration_steps"]

_PATIENCE = 100_000


class _Counter(Protocol):
    def collect(self) -> EpisodeTotals:
        """Return the totals since the last call."""


def check_iteration_steps(iteration_steps: int | None) -> None:
    """Refuse a length of iteration that is not a positive whole number."""
    if iteration_steps is not None and (int(iteration_steps) != iteration_steps or iteration_steps < 1):
        raise CurriculumError(f"iteration_steps: expected a whole number of at least 1, got {iteration_steps!r}.")


class CurriculumMethods:
    """Iterations, evaluation and state, the same on every wrapper of this library."""

    adc: CurriculumController
    """Applies the curriculum to the backend."""

    _counter: Any
    _iteration_steps: int | None
    _steps_in_iteration: int = 0
    _must_reset: bool = True

    @property
    def curriculum(self) -> ActuatorCurriculum:
        """The curriculum itself."""
        return self.adc.curriculum

    def end_iteration(self) -> dict[str, float]:
        """Close the iteration: move the curriculum by the episodes completed in it and write the new gains.

        Returns:
            The metrics that are also under ``info["adc"]``.
        """
        self._steps_in_iteration = 0
        totals = self._counter.collect() if self._counter is not None else EpisodeTotals()
        return self.adc.end_iteration(totals)

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Pin the target gains, count nothing, and restore the curriculum's gains afterwards.

        Episodes must not mix gains: reset after entering and after leaving, or the next ``step`` raises.
        """
        self._must_reset = True
        try:
            with self.adc.evaluation():
                yield
        finally:
            self._must_reset = True

    def state_dict(self) -> dict[str, Any]:
        """Return the curriculum's state as JSON-ready values."""
        return self.curriculum.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore the curriculum's state and write its gains."""
        self.adc.load_state_dict(dict(state), strict=strict)

    def _advance_iteration(self) -> None:
        """Count one step of the wrapper; close the iteration when it is full."""
        self._steps_in_iteration += 1
        if self._steps_in_iteration == self._iteration_steps:
            self.end_iteration()
        elif self._steps_in_iteration == _PATIENCE:
            warnings.warn(
                f"{_PATIENCE} steps and no iteration was closed: the stiffness has not moved. Pass iteration_steps= "
                "(policy steps per env and iteration), or call end_iteration() after every policy update.",
                stacklevel=3,
            )

    def _refuse_step(self) -> None:
        raise ResetNeeded(
            "call reset() before step(): at the start, and after entering or leaving evaluation(), because an episode "
            "must not mix gains."
        )
