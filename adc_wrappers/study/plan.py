"""The plan of a study: conditions, seeds, one base config; kept in ``study.json``."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adc_wrappers.core import CurriculumError
from adc_wrappers.core.files import write_json
from adc_wrappers.core.reading import check_fields, read_object
from adc_wrappers.runs import RunFolderError
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.training import TrainConfig
from adc_wrappers.training.config import completed
from adc_wrappers.training.trainer import stored_config

from .conditions import Condition, PaperRow, RobotFacts
from .job import Job

__all__ = ["STUDY_FILE", "Plan", "read_study", "run_path"]

STUDY_FILE = "study.json"
_FORMAT, _VERSION = "adc-study", 1


def run_path(out: Path, condition: str, seed: int) -> Path:
    """Return where a run is."""
    return out / condition / f"seed{seed}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A study: every condition with every seed."""

    conditions: tuple[Condition, ...]
    """What is compared."""

    seeds: tuple[int, ...]
    """Seeds of the trainings."""

    config: TrainConfig
    """ADC on the task: what conditions differ from."""

    episodes: int = 1000
    """Episodes of every evaluation."""

    eval_envs: int | None = None
    """Envs that are stepped together in it; by default 100."""

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds) or min(self.seeds) < 0:
            raise CurriculumError(f"seeds: expected at least one, none negative, each once; got {list(self.seeds)}.")
        if not self.conditions:
            raise CurriculumError("conditions: expected at least one.")
        if self.episodes < 1:
            raise CurriculumError(f"episodes: expected at least 1, got {self.episodes}.")
        if self.eval_envs is not None and not 1 <= self.eval_envs <= self.episodes:
            raise CurriculumError(f"eval_envs: expected 1 to {self.episodes}, got {self.eval_envs}.")

    def jobs(self, out: Path, facts: RobotFacts) -> list[Job]:
        """Return the runs, seed by seed, so that a study that is stopped early has some of everything."""
        return [
            Job(
                condition=condition.name,
                seed=seed,
                folder=str(run_path(out, condition.name, seed)),
                config=json.loads(json.dumps(condition.applied_to(self.config, facts, seed).to_dict())),
                episodes=self.episodes,
                eval_envs=self.eval_envs,
            )
            for seed in self.seeds
            for condition in self.conditions
        ]

    def begin(self, out: Path, jobs: Sequence[Job], command: str) -> None:
        """Write ``study.json``; a study that exists goes on, may grow, and keeps its settings.

        Raises:
            CurriculumError: The study or one of its runs was begun with other settings.
        """
        before = read_study(out)
        values = self._values(command)
        if before is not None:
            before = {**before, "config": completed(before["config"])}
            for key in ("config", "episodes", "eval_envs"):
                if before[key] != values[key]:
                    raise CurriculumError(
                        f"{out} is a study with other settings ({_differing(key, before[key], values[key])}). Give the "
                        "options it began with, or choose another folder with --out."
                    )
            values = _grown(before, values)
        for job in jobs:
            path = Path(job.folder)
            if (path / "config.json").exists() and stored_config(path) != job.config:
                raise CurriculumError(
                    f"{path} was trained with other settings than the condition {job.condition!r} has now. Remove the "
                    "folder, or choose another study with --out."
                )
        write_json(out / STUDY_FILE, values)

    def _values(self, command: str) -> dict[str, Any]:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        values = {
            "format": _FORMAT,
            "version": _VERSION,
            "config": self.config.to_dict(),
            "episodes": self.episodes,
            "eval_envs": self.eval_envs,
            "seeds": list(self.seeds),
            "conditions": [_condition_values(condition) for condition in self.conditions],
            "commands": [{"command": command, "started": moment, "commit": source_commit()}],
        }
        plain: dict[str, Any] = json.loads(json.dumps(values))
        return plain


def read_study(out: Path) -> dict[str, Any] | None:
    """Return what ``study.json`` says; None if there is none."""
    path = out / STUDY_FILE
    if not path.exists():
        return None
    values = read_object(path, RunFolderError)
    if values.get("format") != _FORMAT or values.get("version") != _VERSION:
        raise RunFolderError(f"{path}: expected {_FORMAT} version {_VERSION}, got {values.get('format')!r}.")
    check_fields(_StudyKinds, values, str(path), RunFolderError, more=True)
    if not all(isinstance(condition.get("name"), str) for condition in values["conditions"]):
        raise RunFolderError(f"{path}: expected a name of every condition; the file is damaged.")
    return values


@dataclass
class _StudyKinds:
    """Kinds of what ``study.json`` holds."""

    config: dict[str, Any]
    episodes: int
    eval_envs: int | None
    seeds: list[int]
    conditions: list[dict[str, Any]]
    commands: list[dict[str, Any]]


def condition_from(values: dict[str, Any]) -> Condition:
    """Return a condition as ``study.json`` keeps it."""
    where = f"condition {values.get('name')!r}"
    check_fields(Condition, values, where, skip=("paper",))
    return Condition(**{**values, "paper": PaperRow.of(values.get("paper"), where)})


def _condition_values(condition: Condition) -> dict[str, Any]:
    return {field.name: _plain(getattr(condition, field.name)) for field in dataclasses.fields(condition)}


def _plain(value: Any) -> Any:
    return dataclasses.asdict(value) if isinstance(value, PaperRow) else value


def _grown(before: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the new values with the old conditions, seeds and commands kept."""
    known = {condition["name"] for condition in values["conditions"]}
    kept = [condition for condition in before["conditions"] if condition["name"] not in known]
    return {
        **values,
        "seeds": sorted({*before["seeds"], *values["seeds"]}),
        "conditions": [*kept, *values["conditions"]],
        "commands": [*before["commands"], *values["commands"]],
    }


def _differing(key: str, before: Any, after: Any) -> str:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return f"{key}: was {before!r}, asked {after!r}"
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return "; ".join(_differing(f"{key}.{name}", before.get(name), after.get(name)) for name in names)
