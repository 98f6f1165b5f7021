"""Methods that the curriculum's wrappers have in common."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from gymnasium.error import ResetNeeded

from .backend_access import find_task
from .controller import CurriculumController
from .curriculum import ActuatorCurriculum
from .env_states import EnvState, EnvStateError, part_of
from .episode_totals import EpisodeTotals
from .errors import CurriculumError
from .report import CurriculumReport

__all__ = ["CurriculumMethods", "check_iteration_steps", "find_curriculum", "layers"]

_PATIENCE = 20_000
_LOG = logging.getLogger(__name__)


def check_iteration_steps(iteration_steps: int | None) -> None:
    """Refuse a length of iteration that is not a positive whole number."""
    if iteration_steps is not None and (int(iteration_steps) != iteration_steps or iteration_steps < 1):
        raise CurriculumError(f"iteration_steps: expected a whole number of at least 1, got {iteration_steps!r}.")


class CurriculumMethods:
    """Iterations, evaluation and state, the same on every wrapper of this library.

    A wrapper's ``step`` adds one to ``_clock`` and calls :meth:`_close_iteration` when it has reached ``_due``.

    The members with the prefix ``adc_`` are for an adapter that keeps the run's one curriculum in another process:
    every iteration it collects the completed episodes and assigns the state that they led to. They are plain and
    picklable, because ``VectorEnv.call`` and ``VectorEnv.set_attr`` reach them in workers, past other wrappers.
    """

    adc: CurriculumController
    """Applies the curriculum to the backend."""

    _counter: Any
    _iteration_steps: int | None
    _clock: int
    _alert: float
    """Clock from which on a step may not be an ordinary one: one that is refused, measured, or closes an iteration."""
    _measures: bool
    _unannounced: bool
    _led: bool
    _closings: ClassVar[int] = 0
    """Iterations that any curriculum of this process has closed."""

    def _init_curriculum(self, controller: CurriculumController, iteration_steps: int | None) -> None:
        self.adc = controller
        self._iteration_steps = iteration_steps
        self._clock = 0
        self._measures = controller.counts_progress
        self._waits, self._closing = True, math.inf
        self._unannounced = False
        self._led = False
        self._warned = False
        self._closings_at_start = CurriculumMethods._closings
        self._schedule_closing()
        task = self.inner_task
        if task is not None:
            task.training = controller.training

    @property
    def _must_reset(self) -> bool:
        """Whether a step is refused until there is a reset."""
        return self._waits

    @_must_reset.setter
    def _must_reset(self, must: bool) -> None:
        self._waits = must
        self._set_alert()

    @property
    def _due(self) -> float:
        """The clock at which the iteration is closed."""
        return self._closing

    @_due.setter
    def _due(self, clock: float) -> None:
        self._closing = clock
        self._set_alert()

    def _set_alert(self) -> None:
        self._alert = -math.inf if self._waits or self._measures else self._closing

    def _schedule_closing(self) -> None:
        self._due = self._clock + (self._iteration_steps or _PATIENCE) if self.adc.training else math.inf

    def _iteration_closed(self) -> None:
        self._led = True
        CurriculumMethods._closings += 1
        self._schedule_closing()

    @property
    def curriculum(self) -> ActuatorCurriculum:
        """The curriculum itself; where the target gains are pinned, its ``stiffness`` is the target's."""
        return self.adc.curriculum

    def end_iteration(self) -> CurriculumReport:
        """Close the iteration: move the curriculum by the episodes completed in it and write the new gains.

        Returns:
            What is also under ``info["adc"]``.
        """
        self.adc.refuse_pinned()
        report = self.adc.end_iteration(self.adc_collect())
        self._iteration_closed()
        return report

    def watch_clocks(self) -> None:
        """Leave out episodes whose clock in the env is set from outside; only batches of tensors let that happen."""

    def refuse_own_iterations(self, other: str) -> None:
        """Refuse to be closed by somebody else where ``iteration_steps`` closes iterations already.

        Raises:
            CurriculumError: It does.
        """
        if self._iteration_steps is not None:
            raise CurriculumError(
                f"the curriculum closes its own iterations every {self._iteration_steps} steps, and {other} would "
                "close them too. Create the wrapper without iteration_steps."
            )

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Pin the target gains, count nothing, and restore the curriculum's gains afterwards.

        Episodes must not mix gains: reset after entering and after leaving, or the next ``step`` raises.
        """
        remaining, self._due = self._due - self._clock, math.inf
        self._must_reset = True
        task = self.inner_task
        learning = task is not None and task.training
        try:
            self._rest_task()
            with self.adc.evaluation():
                yield
        finally:
            if task is not None:
                task.training = learning
            self._due = self._clock + remaining
            self._must_reset = True

    @property
    def inner_task(self) -> Any:
        """The task of an env of this library, which may keep a state beside the curriculum's; None in other envs.

        Of envs in workers, all their tasks as one.
        """
        return find_task(self, self.adc.backend)

    def _rest_task(self) -> None:
        """Let what eases in the task stand still, in every worker, and judge by what it eases to."""
        task = self.inner_task
        if task is not None:
            task.training = False

    def state_dict(self) -> dict[str, Any]:
        """Return the curriculum's state as JSON-ready values."""
        return self.curriculum.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore the curriculum's state and write its gains.

        The envs begin anew, so from now on an iteration counts the latest episode of each env, and nothing before
        every env has completed one: short episodes end first, and the averages would dip. :meth:`load_env_state` makes
        that needless.
        """
        self.adc.load_state_dict(dict(state), strict=strict)
        if self.adc.training and self.curriculum.iteration > 0:
            self._protect()
            self._unannounced = True

    def _protect(self) -> None:
        self._counter.protect(self.curriculum.config.length_max)

    def _announce_protection(self) -> None:
        """Say once that the averages are protected."""
        if self._unannounced and self._counter is not None and self._counter.protected:
            _LOG.warning(
                "resumed without the states of the envs, which begin anew: the curriculum's averages stand still until "
                "every env has completed an episode, and are then taken over the latest episode of each env."
            )
        self._unannounced = False

    def env_state(self) -> EnvState | None:
        """Return the states of the envs, their gains and the counters of their episodes, for a checkpoint.

        None if the envs cannot be saved: they are not of this library, or there are other wrappers around them, whose
        state nobody knows. Numbers, texts and numpy arrays: see :mod:`adc_wrappers.core.env_states`.
        """
        self.adc.refuse_evaluation("taken")
        inner = self._inner_state()
        if inner is None:
            return None
        return {
            "env": inner,
            "gains": self.adc.env_state(),
            "counter": self._counter.state_dict(),
            "steps_to_closing": None if math.isinf(self._due) else self._due - self._clock,
            "clock": self._clock,
            "must_reset": self._must_reset,
        }

    def load_env_state(self, state: EnvState) -> None:
        """Restore what :meth:`env_state` returned; call it after :meth:`load_state_dict`. No reset is needed then."""
        self.adc.refuse_evaluation("loaded")
        self._load_inner_state(part_of(state, "env", (dict, list)))
        self.adc.load_env_state(part_of(state, "gains"))
        self._counter.load_state_dict(part_of(state, "counter"))
        self._clock = part_of(state, "clock", int)
        remaining = state.get("steps_to_closing")
        self._due = math.inf if remaining is None else self._clock + part_of(state, "steps_to_closing", int)
        self._must_reset = part_of(state, "must_reset", bool)
        self._unannounced = False

    def _inner_state(self) -> Any:
        """State of the envs; an env inside another wrapper is not asked."""
        save: Any = getattr(getattr(self, "env", None), "env_state", None)
        return None if save is None else save()

    def _load_inner_state(self, state: Any) -> None:
        load: Any = getattr(getattr(self, "env", None), "load_env_state", None)
        if load is None:
            raise EnvStateError(f"{self} cannot be put into a saved state: its env has no load_env_state().")
        load(state)

    def adc_settings(self) -> dict[str, Any]:
        """Return what a curriculum elsewhere must know: settings, joints, and whether this wrapper moves by itself."""
        return {
            "config": self.curriculum.config,
            "joint_names": self.curriculum.joint_names,
            "inertia": self.adc.inertia,
            "iteration_steps": self._iteration_steps,
        }

    def adc_collect(self) -> EpisodeTotals:
        """Return the episodes completed since the last call."""
        self._announce_protection()
        totals: EpisodeTotals = self._counter.collect() if self._counter is not None else EpisodeTotals()
        return totals

    @property
    def adc_state(self) -> dict[str, Any]:
        """State of the curriculum; assigning one closes the iteration with it: gains are verified, then written."""
        return self.state_dict()

    @adc_state.setter
    def adc_state(self, state: Mapping[str, Any]) -> None:
        self.adc.follow(dict(state))
        self._iteration_closed()

    def adc_pin(self) -> None:
        """Write the target gains for good and count nothing: an env for evaluation."""
        self.adc.pin()
        self._rest_task()
        self._must_reset = True
        self._schedule_closing()

    def adc_verify(self) -> None:
        """Raise if the live gains are no longer what was written."""
        self.adc.verify()

    def _close_iteration(self) -> None:
        if self._iteration_steps is not None:
            self.end_iteration()
            return
        self._due = math.inf
        self._warn_of_wrong_gains(f"{_PATIENCE} steps")

    def _note_reset(self) -> None:
        """All envs begin anew. Where others closed iterations since this env was made and this one never did, warn."""
        self._must_reset = False
        if self._clock and not self._led and CurriculumMethods._closings > self._closings_at_start:
            self._warn_of_wrong_gains(f"{self._clock} steps, while another curriculum moves,")

    def close(self, **arguments: Any) -> None:
        """Close the env; one that was only evaluated, and not at the target gains, says so."""
        if self._clock and not self._led and self.adc.training and self._counter is not None:
            episodes = self._counter.collect().episodes
            if episodes:
                self._warn_of_wrong_gains(f"{episodes} episodes")
        super().close(**arguments)  # type: ignore[misc]

    def _warn_of_wrong_gains(self, since: str) -> None:
        """Warn once that no iteration is ever closed, so that a policy is trained or evaluated beside the target."""
        target = self.curriculum.target_stiffness
        if self._warned or not self.adc.training or np.array_equal(self.adc.stiffness[0], target):
            return
        self._warned = True
        warnings.warn(
            f"{since} and no iteration was closed: the joints are still at K = {self.adc.stiffness.mean():g}, not at "
            f"the target K_* = {target.mean():g}. To evaluate a policy, use `with env.evaluation():`, or make the "
            "env for evaluation with training=False (Stable-Baselines3: TargetGainsEvalCallback). To train, pass "
            "iteration_steps= (policy steps per env and iteration), or call end_iteration() after every policy update.",
            stacklevel=4,
        )

    def _refuse_step(self) -> None:
        raise ResetNeeded(
            "call reset() before step(): at the start, and after entering or leaving evaluation(), because an episode "
            "must not mix gains."
        )


def layers(env: Any) -> Iterator[Any]:
    """Yield an env and everything that it is wrapped around, outermost first, whichever library's wrappers they are."""
    layer = env
    while layer is not None:
        yield layer
        inner = vars(layer) if hasattr(layer, "__dict__") else {}  # not by getattr: wrappers pass that on
        layer = inner.get("venv", inner.get("env"))


def find_curriculum(env: Any, otherwise: Exception) -> CurriculumMethods:
    """Return the curriculum's wrapper inside an env.

    Args:
        env: An env of Gymnasium, Stable-Baselines3, RSL-RL or Isaac Lab.
        otherwise: What is raised if there is none; it says what to do in the caller's words.
    """
    for layer in layers(env):
        if isinstance(layer, CurriculumMethods):
            return layer
    raise otherwise
