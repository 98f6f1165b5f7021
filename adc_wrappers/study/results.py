"""Results in a study's folder, finished or not; runs that were moved there by hand included."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.reading import read_object
from adc_wrappers.runs import RunFolder, RunFolderError
from adc_wrappers.training import TrainConfig
from adc_wrappers.training.trained import check_settings
from adc_wrappers.training.trainer import stored_config

from .conditions import BY_NAME, CONDITIONS, Condition, find_condition
from .job import EVALUATION_SEED, JOB_FILE, is_complete, read_evaluation, read_job
from .plan import condition_from, read_study

__all__ = ["METRICS", "Metric", "RunRecord", "StudyResults", "read_results"]


@dataclass(frozen=True)
class Metric:
    """A number of a run that is compared."""

    name: str
    """Its name in files."""

    label: str
    """Its name in tables and plots."""

    key: str
    """Where it is in ``eval.json``."""

    digits: int
    """Decimals that are printed."""

    percent: bool = False
    """Print it as a percentage."""

    def format(self, value: float) -> str:
        """Return the number as it is printed.

        >>> METRICS[0].format(0.909)
        '90.9 %'
        """
        return f"{100 * value:.1f} %" if self.percent else f"{value:.{self.digits}f}"


METRICS = (
    Metric("success", "success", "success_rate", 3, percent=True),
    Metric("length", "episode length", "length_mean", 0),
    Metric("return", "return", "return_mean", 1),
)
"""What is compared; higher is better for each. Add one here to see it everywhere."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One run."""

    condition: str
    """Name of its condition."""

    seed: int
    """Its seed."""

    path: Path
    """Its folder."""

    state: str
    """``"finished"``, ``"failed"`` or ``"unfinished"``."""

    config: dict[str, Any] | None
    """Settings of the training."""

    summary: dict[str, Any] | None
    """The evaluation."""

    error: str | None
    """Why it failed."""

    seconds: float | None
    """How long it took."""

    def score(self, metric: Metric) -> float:
        """Return a number of the evaluation."""
        if self.summary is None:
            raise RunFolderError(f"{self.path} has no evaluation yet.")
        return float(self.summary[metric.key])

    def curves(self) -> dict[str, NDArray[np.float64]]:
        """Return the columns of ``metrics.csv``."""
        columns = RunFolder(self.path).metrics.read()
        return {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}

    def command(self) -> list[str]:
        """Return the commands that made it."""
        path = self.path / "command.txt"
        return path.read_text().splitlines() if path.exists() else []

    def commit(self) -> str | None:
        """Return the library's commit that trained it."""
        path = self.path / "versions.json"
        commit = read_object(path, RunFolderError).get("commit") if path.exists() else None
        return None if commit is None else str(commit)


@dataclass(frozen=True, kw_only=True)
class StudyResults:
    """All runs of a study."""

    folder: Path
    """Where it is."""

    study: dict[str, Any] | None
    """What ``study.json`` says; None where runs were put together by hand."""

    conditions: tuple[Condition, ...]
    """What is compared, in the order of the paper."""

    runs: tuple[RunRecord, ...]
    """Every run, by condition and seed."""

    notes: str = field(default="")
    """What somebody wrote about it into ``notes.md``."""

    def of(self, condition: str, state: str = "finished") -> list[RunRecord]:
        """Return a condition's runs in a state."""
        return [run for run in self.runs if run.condition == condition and run.state == state]

    def scores(self, metric: Metric) -> dict[str, NDArray[np.float64]]:
        """Return a metric in the usual format: condition → array ``(runs, tasks)``, here with one task."""
        named = {condition.name: self.of(condition.name) for condition in self.conditions}
        return {name: np.array([[run.score(metric)] for run in runs]) for name, runs in named.items() if runs}

    def config(self) -> dict[str, Any]:
        """Return the base settings: the study's, or those of the first run."""
        if self.study is not None:
            base: dict[str, Any] = self.study["config"]
            return base
        return next(run.config for run in self.runs if run.config is not None)

    def sizes(self) -> dict[str, list[int]]:
        """Return the distinct numbers of seeds, steps and episodes of the finished runs."""
        finished = [run.summary for run in self.runs if run.summary is not None]
        return {
            "seeds": sorted({run.seed for run in self.runs}),
            "steps": sorted({int(summary["trained"]["steps"]) for summary in finished}),
            "episodes": sorted({int(summary["episodes"]) for summary in finished}),
        }


def read_results(folder: Path) -> StudyResults:
    """Read ``FOLDER/CONDITION/seedN/``; with or without a ``study.json``.

    Raises:
        RunFolderError: There is no finished run.
    """
    if not folder.is_dir():
        raise RunFolderError(f"there is no folder {folder}.")
    study = read_study(folder)
    known = {} if study is None else {values["name"]: condition_from(values) for values in study["conditions"]}
    marks = (path for name in ("config.json", JOB_FILE) for path in folder.glob(f"*/seed*/{name}"))
    paths = sorted({path.parent for path in marks if _seed(path.parent) is not None})
    runs = [_record(path, None if study is None else study["episodes"]) for path in paths]
    if not any(run.state == "finished" for run in runs):
        raise RunFolderError(
            f"{folder} has no finished run. Expected folders CONDITION/seedN/ with config.json and the eval.json of "
            f"`adc eval --seed {EVALUATION_SEED}`; `adc study run` makes them."
        )
    names = sorted({run.condition for run in runs} | known.keys(), key=_order)
    notes = folder / "notes.md"
    return StudyResults(
        folder=folder,
        study=study,
        conditions=tuple(known.get(name) or _guess(name) for name in names),
        runs=tuple(sorted(runs, key=lambda run: (_order(run.condition), run.seed))),
        notes=notes.read_text(encoding="utf-8") if notes.exists() else "",
    )


def _order(name: str) -> tuple[int, str]:
    return (CONDITIONS.index(name) if name in CONDITIONS else len(CONDITIONS), name)


def _guess(name: str) -> Condition:
    if name in (*CONDITIONS, *BY_NAME):
        return find_condition(name)
    return Condition(name=name, title=name, differs="Not said: there is no study.json.", open="Not said.")


def _seed(path: Path) -> int | None:
    match = re.fullmatch(r"seed(\d+)", path.name)
    return int(match[1]) if match else None


def _refuse_other_settings(path: Path, config: dict[str, Any], summary: dict[str, Any]) -> None:
    """Raise if a run's settings are not those of its checkpoint or of its evaluation."""
    folder = RunFolder(path)
    if config and folder.checkpoints.paths():
        check_settings(folder, TrainConfig.from_dict(config), folder.checkpoints.load_latest())
    target = config.get("curriculum", {}).get("target_stiffness")
    if "target_stiffness" in summary and summary["target_stiffness"] != target:
        raise RunFolderError(
            f"{path}: eval.json is of a target stiffness of {summary['target_stiffness']}, config.json of {target}. "
            "Put the old value back, or evaluate the run again."
        )


def _record(path: Path, episodes: int | None) -> RunRecord:
    files = {name: path / name for name in ("config.json", "eval.json")}
    config = stored_config(path) if files["config.json"].exists() else {}
    summary = read_evaluation(files["eval.json"]) if config and files["eval.json"].exists() else {}
    job = read_job(path / JOB_FILE)
    _refuse_other_settings(path, config, summary)
    trained = bool(summary) and is_complete(summary, config) and episodes in (None, summary["episodes"])
    state = "finished" if trained else "failed" if job.get("state") == "failed" else "unfinished"
    seconds = job.get("seconds", read_job(path / "done.json").get("seconds"))
    return RunRecord(
        condition=path.parent.name,
        seed=_seed(path) or 0,
        path=path,
        state=state,
        config=config or None,
        summary=summary if trained else None,
        error=job.get("error") if state == "failed" else None,
        seconds=seconds,
    )
