"""A short film of every condition: its first finished seed, one start state for all."""

from __future__ import annotations

from pathlib import Path

from adc_wrappers.envs.registry import make_env
from adc_wrappers.runs import RunFolder
from adc_wrappers.runs.recording import record_episode
from adc_wrappers.training import load_trained
from adc_wrappers.training.evaluating import pin_and_check

from .results import RunRecord, StudyResults

__all__ = ["FILM", "film_of", "record_films"]

FILM = "film.gif"
FILM_SEED = 20_000
"""Seed of the start state."""


def record_films(results: StudyResults, *, seconds: float = 4.0, width: int = 180, fps: float = 10.0) -> list[Path]:
    """Film the first finished run of every condition; a film that is newer than its evaluation is kept."""
    films = []
    for condition in results.conditions:
        run = _first(results, condition.name)
        if run is None:
            continue
        path = run.path / FILM
        if not path.exists() or path.stat().st_mtime < (run.path / "eval.json").stat().st_mtime:
            _record(run, path, seconds, width, fps)
        films.append(path)
    return films


def film_of(results: StudyResults, condition: str) -> tuple[RunRecord, Path] | None:
    """Return the run that was filmed and its film, if there is one."""
    run = _first(results, condition)
    return None if run is None or not (run.path / FILM).exists() else (run, run.path / FILM)


def _first(results: StudyResults, condition: str) -> RunRecord | None:
    return next(iter(results.of(condition)), None)


def _record(run: RunRecord, path: Path, seconds: float, width: int, fps: float) -> None:
    policy = load_trained(RunFolder.open(run.path))
    config = policy.config
    env = make_env(config.task, backend=config.backend, render_mode="rgb_array", **config.settings)
    try:
        pin_and_check(policy, env)
        record_episode(policy, env, config.curriculum, path, seed=FILM_SEED, max_seconds=seconds, width=width, fps=fps)
    finally:
        env.close()
