"""The Actuator Dynamics Curriculum (the paper's Algorithm 1) as a plain object without an environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .config import CurriculumConfig, check_direction
from .drivers import DRIVERS, IterationReport
from .errors import CurriculumError
from .joints import joint_count, resolve_joint_values
from .totals import EpisodeTotals

__all__ = ["ActuatorCurriculum"]

STATE_VERSION = 1


class ActuatorCurriculum:
    """Turns completed episode lengths into joint stiffness, once per iteration.

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
        self._exponent = self._per_joint("exponent")
        self._begin = self._per_joint("progress_begin")
        self._end = self._per_joint("progress_end")
        if (self._begin >= self._end).any():
            raise CurriculumError(
                f"expected progress_begin < progress_end for every joint, got {self._begin} and {self._end}."
            )
        self._driver = DRIVERS[self.config.driver] if isinstance(self.config.driver, str) else self.config.driver
        self._rng = np.random.default_rng(self.config.seed)
        self.iteration = 0
        self.length_ema = 0.0
        self.success_ema = 0.0
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
    def stiffness(self) -> NDArray[np.float64]:
        """K per joint at the present progress."""
        return self.stiffness_at(self.progress)

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
        if self.config.driver == "success" and totals.episodes and not totals.judged:
            raise CurriculumError(
                "driver='success' needs to know which episodes succeeded, and none of the "
                f"{totals.episodes} completed ones said so. Let the env put a bool under info['is_success'] "
                "when an episode ends."
            )
        eta = self.config.ema
        self.iteration += 1
        if totals.episodes:
            self.length_ema = (1.0 - eta) * self.length_ema + eta * totals.mean_length
        if totals.judged:
            self.success_ema = (1.0 - eta) * self.success_ema + eta * totals.success_rate
        self.progress = self._next_progress(totals)
        return self.stiffness

    def _next_progress(self, totals: EpisodeTotals) -> float:
        if self._holding:
            return 1.0
        report = IterationReport(self.iteration, totals, self.length_ema, self.success_ema, self.progress, self.config)
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
            "progress": self.progress,
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
        rng = np.random.default_rng()
        try:
            rng.bit_generator.state = dict(state["rng"])
        except (KeyError, TypeError, ValueError) as error:
            raise CurriculumError(f"curriculum state: the random state cannot be read ({error}).") from error
        self.iteration = int(state["iteration"])
        self.length_ema, self.success_ema, self.progress = values
        self._rng = rng

    def _refuse_other_config(self, saved: dict[str, Any]) -> None:
        own = self.config.to_dict()
        differing = sorted(key for key in own.keys() | saved.keys() if own.get(key) != saved.get(key))
        if differing:
            details = "; ".join(f"{key}: saved {saved.get(key)!r}, now {own.get(key)!r}" for key in differing)
            raise CurriculumError(
                f"the state was saved under other settings ({details}). Use the saved settings, or load with "
                "strict=False to go on under the present ones."
            )


def _anonymous_joints(config: CurriculumConfig) -> tuple[str, ...]:
    fields = (config.start_stiffness, config.target_stiffness, config.exponent)
    if any(isinstance(value, dict) for value in fields):
        raise CurriculumError("the config names joints: pass joint_names so that the names can be resolved.")
    counts = {count for value in fields if (count := joint_count(value)) is not None}  # type: ignore[arg-type]
    return tuple(f"joint_{i}" for i in range(max(counts, default=1)))


def _checked_state(state: Mapping[str, Any]) -> tuple[float, float, float]:
    required = ("version", "iteration", "length_ema", "success_ema", "progress", "rng", "config")
    missing = [key for key in required if key not in state]
    if missing:
        raise CurriculumError(f"curriculum state: missing {', '.join(missing)}; is this a curriculum's state?")
    if state["version"] != STATE_VERSION:
        raise CurriculumError(
            f"curriculum state: expected version {STATE_VERSION}, got {state['version']!r}. "
            "Load it with the library version that wrote it."
        )
    length_ema, success_ema, progress = (float(state[key]) for key in ("length_ema", "success_ema", "progress"))
    good = np.isfinite(length_ema) and length_ema >= 0 and 0 <= success_ema <= 1 and 0 <= progress <= 1
    if not good or int(state["iteration"]) < 0:
        raise CurriculumError(
            f"curriculum state: out of range (iteration {state['iteration']}, length_ema {length_ema}, "
            f"success_ema {success_ema}, progress {progress})."
        )
    return length_ema, success_ema, progress
