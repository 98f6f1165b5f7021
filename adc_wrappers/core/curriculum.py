"""The Actuator Dynamics Curriculum (the paper's Algorithm 1) as a plain object without an environment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .config import LATER_SETTINGS, CurriculumConfig, check_direction
from .drivers import DRIVERS, IterationReport
from .episode_totals import EpisodeTotals
from .errors import CurriculumError
from .joints import joint_count, resolve_joint_values
from .reading import check_fields

__all__ = ["ActuatorCurriculum"]

STATE_VERSION = 1


class ActuatorCurriculum:
    """The curriculum: from completed episode lengths to joint stiffness, once per iteration.

    Args:
        config: The settings; the paper's by default.
        joint_names: Names of the joints. Without them there is one joint, or as many as the config's sequences have.

    Example:
        >>> curriculum = ActuatorCurriculum(CurriculumConfig(length_max=100, ema=0.5))
        >>> curriculum.stiffness
        array([60.])
        >>> curriculum.update([100, 100])
        array([50.])
        >>> curriculum.update([])
        array([50.])
    """

    def __init__(self, config: CurriculumConfig | None = None, joint_names: Sequence[str] | None = None) -> None:
        self.config = config if config is not None else CurriculumConfig()
        self.joint_names = tuple(joint_names) if joint_names is not None else _anonymous_joints(self.config)
        self.start_stiffness = self._per_joint("start_stiffness")
        self.target_stiffness = self._per_joint("target_stiffness")
        check_direction(self.config, self.start_stiffness, self.target_stiffness)
        if self.config.fixed_damping is not None:
            self._per_joint("fixed_damping")
        self._exponent = self._per_joint("exponent")
        self._begin = self._per_joint("progress_begin")
        self._end = self._per_joint("progress_end")
        if (self._begin >= self._end).any():
            raise CurriculumError(
                f"expected progress_begin < progress_end for every joint, got {self._begin} and {self._end}."
            )
        self._driver = DRIVERS[self.config.driver] if isinstance(self.config.driver, str) else self.config.driver
        self._rng = np.random.default_rng(self.config.seed)
        self.pinned = False
        """Whether the joints stand at the target whatever the progress is, as in evaluation."""
        self._last_stiffness = math.nan, self.target_stiffness
        """A progress, and K there."""
        self.iteration = 0
        self.length_ema = 0.0
        self.success_ema = 0.0
        self.task_progress_ema = 0.0
        self._settled = 0
        self._since = EpisodeTotals()
        self.progress = self.config.fixed_progress if self.config.driver == "fixed" else 0.0

    def _per_joint(self, field: str) -> NDArray[np.float64]:
        return resolve_joint_values(field, getattr(self.config, field), self.joint_names)

    @property
    def per_episode(self) -> bool:
        """Whether stiffness is drawn anew for every episode (``driver="uniform"``)."""
        return self.config.driver == "uniform" and not self._holding

    @property
    def _holding(self) -> bool:
        total = self.config.total_iterations
        share = self.config.hold_share
        return total is not None and share > 0.0 and self.iteration >= total * (1.0 - share)

    @property
    def alike(self) -> bool:
        """Whether ``K_*/K`` is the same number for all joints at every progress."""
        ratio = self.start_stiffness / self.target_stiffness
        return all(np.allclose(values, values[0]) for values in (ratio, self._exponent, self._begin, self._end))

    @property
    def stiffness(self) -> NDArray[np.float64]:
        """K per joint at the present progress; the target's while the curriculum is :attr:`pinned`."""
        if self.pinned:
            return self.target_stiffness.copy()
        progress, stiffness = self._last_stiffness
        if progress != self.progress:  # it stands still in most iterations
            stiffness = self.stiffness_at(self.progress)
            self._last_stiffness = self.progress, stiffness
        return stiffness.copy()

    def stiffness_at(self, progress: float) -> NDArray[np.float64]:
        """Return K per joint at a given progress."""
        share = np.minimum(np.maximum((progress - self._begin) / (self._end - self._begin), 0.0), 1.0)
        return self.start_stiffness + share**self._exponent * (self.target_stiffness - self.start_stiffness)

    def draw(self, count: int) -> NDArray[np.float64]:
        """Draw ``count`` stiffness rows uniformly between start and target, one number shared by a row's joints."""
        share = self._rng.random((count, 1))
        return self.start_stiffness + share * (self.target_stiffness - self.start_stiffness)

    def update(self, lengths: Iterable[float] | EpisodeTotals) -> NDArray[np.float64]:
        """Close an iteration and return the new stiffness per joint.

        Args:
            lengths: Lengths of the episodes completed in it, or their totals. Without a completed episode the
                moving averages stay.
        """
        totals = lengths if isinstance(lengths, EpisodeTotals) else EpisodeTotals.from_lengths(lengths)
        self._refuse_what_cannot_move(totals)
        means, eta = self._mean_lengths(totals), self.config.ema
        self.iteration += 1
        for mean in means:
            self.length_ema = (1.0 - eta) * self.length_ema + eta * mean
        if totals.judged:
            self.success_ema = (1.0 - eta) * self.success_ema + eta * totals.success_rate
        if totals.measured:
            self.task_progress_ema = (1.0 - eta) * self.task_progress_ema + eta * totals.mean_progress
        self._settled += 1
        self._since += replace(totals, batches=()) if totals.batches else totals
        before, self.progress = self.progress, self._next_progress(totals)
        if self.progress != before or self._settled >= self.config.adaptive_iterations:
            self._settled, self._since = 0, EpisodeTotals()  # a new window: what is long past says nothing
        return self.stiffness

    def _refuse_what_cannot_move(self, totals: EpisodeTotals) -> None:
        """Raise if the driver waits for something that the env never says."""
        driver = self.config.driver
        looks_at = self.config.adaptive_measure if driver == "adaptive" else driver
        if looks_at == "success" and totals.episodes and not totals.judged:
            raise CurriculumError(
                f"driver={driver!r} needs to know which episodes succeeded, and none of the "
                f"{totals.episodes} completed ones said so. Let the env put a bool under info['is_success'] "
                "when an episode ends."
            )
        if looks_at == "task_progress" and totals.episodes and not totals.measured:
            raise CurriculumError(
                f"driver={driver!r} needs the task's own progress, and the env did not report any. Let it put a "
                "number in [0, 1] under info['progress'] at every step, or at the end of every episode."
            )

    def _mean_lengths(self, totals: EpisodeTotals) -> Sequence[float]:
        """Return what the moving average of lengths moves by, one after another."""
        if not totals.episodes:
            return ()
        if self.config.average == "iteration":
            return (totals.mean_length,)
        if not totals.batches:
            raise CurriculumError(
                "average='resets' needs to know which episodes ended together, and these were only added up, as over "
                "the ranks or runners of a distributed training. Use average='iteration' there."
            )
        return totals.batches

    def _next_progress(self, totals: EpisodeTotals) -> float:
        if self._holding:
            return 1.0
        report = IterationReport(
            self.iteration, totals, self.length_ema, self.success_ema, self.progress, self.config,
            self.task_progress_ema, self._settled, self._since,
        )  # fmt: skip
        progress = float(self._driver(report))
        if not 0.0 <= progress <= 1.0:
            raise CurriculumError(
                f"the driver {self.config.to_dict()['driver']} returned {progress}; expected a progress in [0, 1]."
            )
        return max(progress, self.progress) if self.config.monotone else progress

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON-ready values."""
        return {
            "version": STATE_VERSION,
            "iteration": self.iteration,
            "length_ema": self.length_ema,
            "success_ema": self.success_ema,
            "task_progress_ema": self.task_progress_ema,
            "progress": self.progress,
            "settled": self._settled,
            "since": self._since.to_list(),
            "rng": self._rng.bit_generator.state,
            "config": self.config.to_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore a state; nothing is changed unless all of it is good.

        Args:
            state: What :meth:`state_dict` returned, possibly through JSON.
            strict: Refuse a state that was saved under other settings. With False the settings of this object
                stay in force and only iteration, moving averages and progress are taken over.
        """
        values = _checked_state(state)
        if strict:
            self._refuse_other_config(dict(state["config"]))
        rng, measured = _read_rng(state["rng"]), _checked_measures(state)
        self.iteration = int(state["iteration"])
        self.length_ema, self.success_ema, self.progress = values
        self.task_progress_ema, self._settled, self._since = measured
        self._rng = rng

    def load_random_state(self, state: Any) -> None:
        """Restore the ``"rng"`` of a state alone, which :meth:`draw` has moved since."""
        self._rng = _read_rng(state)

    def _refuse_other_config(self, saved: dict[str, Any]) -> None:
        own, saved = self.config.to_dict(), {**LATER_SETTINGS, **saved}
        differing = sorted(key for key in own.keys() | saved.keys() if own.get(key) != saved.get(key))
        if differing:
            details = "; ".join(f"{key}: saved {saved.get(key)!r}, now {own.get(key)!r}" for key in differing)
            raise CurriculumError(
                f"the state was saved under other settings ({details}). Use the saved settings, or load with "
                "strict=False to go on under the present ones."
            )


def _read_rng(state: Any) -> np.random.Generator:
    rng = np.random.default_rng()
    try:
        rng.bit_generator.state = dict(state)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CurriculumError(f"curriculum state: the random state cannot be read ({error}).") from error
    return rng


@dataclass
class _StateKinds:
    """Kinds of what a state holds."""

    iteration: int
    length_ema: float
    success_ema: float
    progress: float
    rng: Mapping[str, Any]
    config: Mapping[str, Any]
    task_progress_ema: float = 0.0
    settled: int = 0
    since: Sequence[float] = ()


def _anonymous_joints(config: CurriculumConfig) -> tuple[str, ...]:
    damping = () if config.fixed_damping is None else (config.fixed_damping,)
    fields = (config.start_stiffness, config.target_stiffness, config.exponent, *damping)
    if any(isinstance(value, dict) for value in fields):
        raise CurriculumError("the config names joints: pass joint_names so that the names can be resolved.")
    counts = {count for value in fields if (count := joint_count(value)) is not None}
    return tuple(f"joint_{i}" for i in range(max(counts, default=1)))


def _checked_measures(state: Mapping[str, Any]) -> tuple[float, int, EpisodeTotals]:
    """Return what the newer drivers keep; a state of an older version has none of it."""
    average, settled = float(state.get("task_progress_ema", 0.0)), int(state.get("settled", 0))
    since = list(state.get("since", ()))
    if not 0.0 <= average <= 1.0 or settled < 0:
        raise CurriculumError(f"curriculum state: out of range (task_progress_ema {average}, settled {settled}).")
    return average, settled, EpisodeTotals.from_list(since) if since else EpisodeTotals()


def _checked_state(state: Mapping[str, Any]) -> tuple[float, float, float]:
    if not isinstance(state, Mapping):
        raise CurriculumError(f"curriculum state: expected names and values, got {type(state).__name__}.")
    required = ("version", "iteration", "length_ema", "success_ema", "progress", "rng", "config")
    missing = [key for key in required if key not in state]
    if missing:
        raise CurriculumError(f"curriculum state: missing {', '.join(missing)}; is this a curriculum's state?")
    if state["version"] != STATE_VERSION:
        raise CurriculumError(
            f"curriculum state: expected version {STATE_VERSION}, got {state['version']!r}. "
            "Load it with the library version that wrote it."
        )
    check_fields(_StateKinds, state, "curriculum state", more=True)
    length_ema, success_ema, progress = (float(state[key]) for key in ("length_ema", "success_ema", "progress"))
    good = np.isfinite(length_ema) and length_ema >= 0 and 0 <= success_ema <= 1 and 0 <= progress <= 1
    if not good or int(state["iteration"]) < 0:
        raise CurriculumError(
            f"curriculum state: out of range (iteration {state['iteration']}, length_ema {length_ema}, "
            f"success_ema {success_ema}, progress {progress})."
        )
    return length_ema, success_ema, progress
