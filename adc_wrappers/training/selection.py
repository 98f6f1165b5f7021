"""The choice of K_0 by the paper's rule: the smallest stiffness at which a policy trained there passes a threshold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adc_wrappers.core import ActuatorCurriculumVectorWrapper, CurriculumError
from adc_wrappers.core.files import write_json
from adc_wrappers.core.reading import check_fields, read_object
from adc_wrappers.envs.registry import make_vector_env
from adc_wrappers.runs import RunFolderError, wilson_interval
from adc_wrappers.runs.folder import has_begun

from .config import TrainConfig, as_stored, completed

__all__ = ["Candidate", "Selection", "SelectionRule", "check_stiffness", "fixed_config", "pool"]

FILE = "select_k0.json"
_FORMAT, _VERSION = "adc-select-k0", 1


@dataclass(frozen=True, kw_only=True)
class SelectionRule:
    """The stiffnesses that are tried, and when one passes; the defaults are the paper's."""

    target: float
    """K_*, where the search begins."""

    step: float = 5.0
    """From one stiffness to the next."""

    threshold: float = 0.98
    """Success rate that must be exceeded."""

    episodes: int = 1000
    """Episodes per policy."""

    maximum: float
    """Largest stiffness that is tried."""

    seeds: tuple[int, ...] = (0,)
    """One policy is trained with each; their episodes are pooled."""

    def __post_init__(self) -> None:
        for name in ("target", "step"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise CurriculumError(f"{name}: expected a positive number, got {value}.")
        if not (math.isfinite(self.maximum) and self.maximum >= self.target):
            raise CurriculumError(
                f"maximum: expected at least the target stiffness {self.target:g}, got {self.maximum}."
            )
        if not 0.0 <= self.threshold < 1.0:
            raise CurriculumError(
                f"threshold: expected a rate in [0, 1), got {self.threshold}; it must be exceeded, which 1 cannot be."
            )
        if self.episodes < 1:
            raise CurriculumError(f"episodes: expected at least 1, got {self.episodes}.")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise CurriculumError(f"seeds: expected at least one, each once, got {list(self.seeds)}.")

    def stiffnesses(self) -> list[float]:
        """Return the stiffnesses that are tried, softest first.

        >>> SelectionRule(target=40.0, maximum=55.0).stiffnesses()
        [40.0, 45.0, 50.0, 55.0]
        """
        count = math.floor((self.maximum - self.target) / self.step + 1e-9) + 1
        return [self.target + i * self.step for i in range(count)]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One policy, trained at one stiffness; what has not been evaluated yet is None."""

    stiffness: float
    """K at which it was trained."""

    seed: int
    """Seed of its training."""

    steps: int
    """Env steps of its training."""

    own: dict[str, Any] | None = None
    """Its episodes at the stiffness it was trained with; these decide."""

    target: dict[str, Any] | None = None
    """Its episodes at the target stiffness."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""
        return self.own is not None and self.target is not None


def fixed_config(base: TrainConfig, stiffness: float, seed: int) -> TrainConfig:
    """Return ``base`` with the stiffness fixed from beginning to end."""
    curriculum = dataclasses.replace(
        base.curriculum,
        start_stiffness=stiffness,
        target_stiffness=stiffness,
        driver="fixed",
        fixed_progress=1.0,
        monotone=False,
        hold_share=0.0,
        total_iterations=None,
        seed=seed,
    )
    return dataclasses.replace(base, seed=seed, curriculum=curriculum)


def check_stiffness(config: TrainConfig) -> None:
    """Raise if the engine cannot simulate the stiffness of a config, before anything is trained."""
    envs = make_vector_env(config.task, backend=config.backend, num_envs=1, settings=config.settings)
    try:
        ActuatorCurriculumVectorWrapper(envs, config.curriculum, training=False)
    finally:
        envs.close()


@dataclass
class Selection:
    """The state of a search in its folder: ``select_k0.json``, written whole after every evaluation."""

    folder: Path
    """Where it is, with one run folder per policy."""

    rule: SelectionRule
    """What is tried."""

    config: TrainConfig
    """How policies are trained, but for stiffness and seed."""

    candidates: list[Candidate] = field(default_factory=list)
    """What has been evaluated, in the order of the search."""

    @classmethod
    def create(cls, folder: Path, rule: SelectionRule, config: TrainConfig) -> Selection:
        """Begin a search in a folder that is not there yet, or empty."""
        if has_begun(folder):
            raise RunFolderError(f"{folder} exists. Go on with it (--resume), or choose another (--out).")
        selection = cls(folder, rule, config)
        selection.save()
        return selection

    @classmethod
    def resume(cls, folder: Path, rule: SelectionRule, config: TrainConfig) -> Selection:
        """Go on with a search; it keeps its settings, only the maximum may change."""
        path = folder / FILE
        if not path.exists():
            return cls.create(folder, rule, config)
        stored = read_object(path, RunFolderError)
        if stored.get("format") != _FORMAT or stored.get("version") != _VERSION:
            raise RunFolderError(f"{path}: expected {_FORMAT} version {_VERSION}, got {stored.get('format')!r}.")
        candidates = _read_candidates(path, stored)
        before = {**stored["rule"], **completed(stored["config"]), "maximum": rule.maximum}
        after = as_stored({**dataclasses.asdict(rule), **config.to_dict()})
        differing = [
            f"{key}: was {before.get(key)!r}, asked {after[key]!r}" for key in after if before.get(key) != after[key]
        ]
        if differing:
            raise CurriculumError(
                "a search that goes on keeps its settings (only --max may change). "
                + "; ".join(differing)
                + ". Give the options it began with, or begin a new one with --out."
            )
        return cls(folder, rule, config, candidates)

    def save(self) -> None:
        """Write the state, whole or not at all."""
        values = {
            "format": _FORMAT,
            "version": _VERSION,
            "rule": dataclasses.asdict(self.rule),
            "config": self.config.to_dict(),
            "trials": [dataclasses.asdict(candidate) for candidate in self.candidates],  # their name in the file
            "chosen": self.chosen,
        }
        write_json(self.folder / FILE, values)

    def record(self, candidate: Candidate) -> None:
        """Take note of what is known about a policy, and save."""
        key = (candidate.stiffness, candidate.seed)
        self.candidates = [old for old in self.candidates if (old.stiffness, old.seed) != key]
        self.candidates.append(candidate)
        self.save()

    def find(self, stiffness: float, seed: int) -> Candidate | None:
        """Return what is known about a policy."""
        return next((known for known in self.candidates if (known.stiffness, known.seed) == (stiffness, seed)), None)

    def run_path(self, stiffness: float, seed: int) -> Path:
        """Return the run folder of a policy."""
        return self.folder / f"K{stiffness:g}-seed{seed}"

    def passed(self, stiffness: float) -> bool:
        """Whether the policies of a stiffness, each evaluated there, exceed the threshold together."""
        pooled = self.pooled(stiffness)
        return pooled is not None and pooled["success_rate"] > self.rule.threshold

    @property
    def chosen(self) -> float | None:
        """K_0: the smallest stiffness that passed, if any has."""
        return next((value for value in self.rule.stiffnesses() if self.passed(value)), None)

    def pooled(self, stiffness: float, which: str = "own") -> dict[str, Any] | None:
        """Return success over the policies of all seeds, at their own stiffness or at the target; None if not known."""
        found = [self.find(stiffness, seed) for seed in self.rule.seeds]
        parts = [None if candidate is None else getattr(candidate, which) for candidate in found]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return pool(known)


@dataclass
class _SelectionKinds:
    """Kinds of what ``select_k0.json`` holds."""

    rule: dict[str, Any]
    config: dict[str, Any]
    trials: list[dict[str, Any]]


@dataclass
class _EpisodeKinds:
    """Kinds of what :func:`pool` reads."""

    episodes: int
    successes: int
    length_mean: float


def _read_candidates(path: Path, stored: dict[str, Any]) -> list[Candidate]:
    check_fields(_SelectionKinds, stored, str(path), RunFolderError, more=True)
    for candidate in stored["trials"]:
        check_fields(Candidate, candidate, f"{path}, trials", RunFolderError)
        for name in ("own", "target"):
            part = candidate.get(name)
            if part is None:
                continue
            check_fields(_EpisodeKinds, part, f"{path}, trials, {name}", RunFolderError, more=True)
            if not (0 <= part["successes"] <= part["episodes"] and part["episodes"] > 0):
                raise RunFolderError(
                    f"{path}: expected successes of at least one episode, got {part['successes']}/{part['episodes']}."
                )
    return [Candidate(**candidate) for candidate in stored["trials"]]


def pool(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return several results as one."""
    episodes, successes = (sum(part[key] for part in parts) for key in ("episodes", "successes"))
    return {
        "episodes": episodes,
        "successes": successes,
        "success_rate": successes / episodes,
        "success_95": list(wilson_interval(successes, episodes)),
        "length_mean": sum(part["length_mean"] * part["episodes"] for part in parts) / episodes,
    }
