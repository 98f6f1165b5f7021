"""Documents: settings, states and results that the library keeps as JSON or TOML."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from study_helpers import small_plan, write_run

from adc_wrappers.cli.trials import _table
from adc_wrappers.core import ActuatorCurriculum, CurriculumError
from adc_wrappers.deploy import TrialError, find_trials, read_trial, summarize
from adc_wrappers.envs.registry import find_task, make_env
from adc_wrappers.runs import RunFolder, RunFolderError
from adc_wrappers.study import CONDITIONS, RobotFacts
from adc_wrappers.study.conditions import load_condition
from adc_wrappers.study.job import Job, is_finished, write_down
from adc_wrappers.study.plan import condition_from, read_study
from adc_wrappers.study.results import METRICS, read_results
from adc_wrappers.sysid.result import IdentificationError
from adc_wrappers.training import TrainConfig
from adc_wrappers.training.selection import FILE as SELECTION_FILE
from adc_wrappers.training.selection import Candidate, Selection, SelectionRule
from adc_wrappers.training.trainer import stored_config

from .mutations import mutate_json, mutate_toml
from .targets import Mutant, Target, expect

__all__ = [
    "ConditionTarget",
    "ConfigTarget",
    "CurriculumTarget",
    "IdentificationTarget",
    "SearchTarget",
    "SelectionTarget",
    "StudyRunTarget",
    "StudyTarget",
    "TrialTarget",
]

_ROOT = Path(__file__).parents[2]


class _JsonTarget(Target):
    """A JSON document of which some whole examples are known."""

    file = "file.json"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / self.file
        self.examples: list[Any] = self.make()

    def make(self) -> list[Any]:
        raise NotImplementedError

    def mutate(self, rng: Random) -> Mutant:
        return Mutant(*mutate_json(rng, rng.choice(self.examples)))

    def read(self, mutant: Mutant) -> None:
        self.path.write_bytes(mutant.content)
        self.use()

    def use(self) -> None:
        raise NotImplementedError


class ConfigTarget(_JsonTarget):
    """``config.json`` of a run: read, its curriculum resolved, its task's settings built, a small env made."""

    name = "run-config"
    errors = (RunFolderError, CurriculumError)
    file = "config.json"

    def make(self) -> list[Any]:
        shipped = _ROOT / "examples" / "policies" / "spot_handstand-config.json"
        small = small_plan().config
        per_joint = dataclasses.replace(small.curriculum, start_stiffness={"cart": 40.0}, target_stiffness=(6.25,))
        found = [small.to_dict(), dataclasses.replace(small, curriculum=per_joint).to_dict()]
        return [json.loads(shipped.read_text()), *json.loads(json.dumps(found))]

    def use(self) -> None:
        config = TrainConfig.from_dict(RunFolder.open(self.folder).config())
        stored_config(self.folder)
        expect(config.iterations >= 1, f"accepted with {config.iterations} iterations")
        joints = ("cart",) if "cartpole" in config.task else ("fl_hx", "fl_kn")
        curriculum = ActuatorCurriculum(config.curriculum, joints)
        gains = np.concatenate((curriculum.start_stiffness, curriculum.target_stiffness))
        expect(bool(np.isfinite(gains).all() and (gains > 0.0).all()), f"accepted with the gains {gains}")
        find_task(config.task).build_settings(config.settings)
        if config.backend == "analytic":
            make_env(config.task, backend=config.backend, num_envs=1, **config.settings).close()


class CurriculumTarget(_JsonTarget):
    """A curriculum's state as the SB3 wrapper saves it."""

    name = "curriculum-state"
    errors = (CurriculumError,)

    def make(self) -> list[Any]:
        from stable_baselines3.common.vec_env import DummyVecEnv

        from adc_wrappers.sb3 import ActuatorCurriculumVecEnv

        self.venv = DummyVecEnv([lambda: make_env("cartpole", backend="analytic")])
        self.wrapper = ActuatorCurriculumVecEnv
        wrapped = ActuatorCurriculumVecEnv(self.venv)
        wrapped.save(self.path)
        plain = json.loads(self.path.read_text())
        uniform = {**plain, "config": {**plain["config"], "driver": "uniform"}, "progress": 0.5, "iteration": 3}
        return [plain, uniform]

    def use(self) -> None:
        wrapped = self.wrapper.load(self.path, self.venv)
        state = wrapped.state_dict()
        stiffness = wrapped.curriculum.stiffness
        expect(bool(np.isfinite(stiffness).all() and (stiffness > 0.0).all()), f"accepted with stiffness {stiffness}")
        expect(0.0 <= state["progress"] <= 1.0 and state["iteration"] >= 0, f"accepted with {state['progress']}")


class ConditionTarget(Target):
    """A condition of a study, applied to a training."""

    name = "condition-toml"
    errors = (CurriculumError,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        files = _ROOT / "adc_wrappers" / "study" / "conditions"
        self.examples = [(files / f"{name}.toml").read_bytes() for name in CONDITIONS]
        self.config = small_plan().config
        self.facts = RobotFacts(joint_names=("a", "b"), inertia=np.array([1.0, 2.0]), action_scale=1.0)

    def mutate(self, rng: Random) -> Mutant:
        return Mutant(*mutate_toml(rng, rng.choice(self.examples)))

    def read(self, mutant: Mutant) -> None:
        path = self.folder / "mine.toml"
        path.write_bytes(mutant.content)
        condition = load_condition(path)
        config = condition.applied_to(self.config, self.facts, 0)
        ActuatorCurriculum(config.curriculum, self.facts.joint_names)
        json.dumps(config.to_dict(), allow_nan=False)


class TrialTarget(_JsonTarget):
    """``trial.json`` of a recorded trial, summed up as ``adc trials`` does."""

    name = "trial"
    errors = (TrialError,)
    file = "trial.json"

    def make(self) -> list[Any]:
        outcome = {
            "success": True, "steps": 500, "seconds": 10.0, "terminated": False, "mode": "success",
            "time_to_stance": 1.2, "stance_seconds": 8.0, "longest_hold": 7.0, "attempts": 2, "return_": 10.0,
            "guard": None, "ended": "time", "reason": "", "motors": None,
            "timing": {"period_p50_ms": 20.0, "period_p100_ms": 22.0},
        }  # fmt: skip
        trial = {
            "format": "adc-trial", "version": 1, "created": "2026-01-01T00:00:00+00:00", "source": "simulation",
            "joints": ["a"], "commanded": {"stiffness": {"a": 60.0}, "damping": {"a": 5.0}}, "outcome": outcome,
            "events": [{"time": 0.1, "event": "policy"}, {"time": 3.0, "event": "push recovered", "recovered": True}],
        }  # fmt: skip
        more = {"clock": "real time", "limits": "practice", "outcome": None}
        return [
            trial,
            {**trial, **more},
            {**trial, "outcome": {**outcome, "time_to_stance": None, "mode": "guard: tilt"}},
        ]

    def use(self) -> None:
        trial = read_trial(self.folder)
        found, _ = find_trials([self.folder])
        summary = summarize([trial, *found])
        _table({trial.group: summary})
        json.dumps(summary)


class IdentificationTarget(_JsonTarget):
    """``identification.json``, as ``adc sysid validate`` reads it."""

    name = "identification"
    errors = (IdentificationError,)
    file = "identification.json"

    def make(self) -> list[Any]:
        from adc_wrappers.sysid import FreeParameter, Scales, WindowSettings
        from adc_wrappers.sysid.validation import load_identification

        self.load: Callable[[Path], Any] = load_identification
        free = [FreeParameter("stiffness"), FreeParameter("coulomb", "type", 0.0, 2.0)]
        parameter = {
            "name": "stiffness", "kind": "stiffness", "unit": "", "value": 0.67, "lower": 0.66, "upper": 0.68,
            "bounds": [0.3, 1.7], "sensitivity": 3.0, "verdict": "identified", "at_bound": None,
        }  # fmt: skip
        settings = {
            "free": [dataclasses.asdict(item) for item in free], "fixed": {"delay": 0.004},
            "windows": dataclasses.asdict(WindowSettings()), "scales": dataclasses.asdict(Scales()),
            "physics_step": 0.002, "model": None,
        }  # fmt: skip
        coulomb = {**parameter, "name": "coulomb[hx]", "kind": "coulomb", "lower": None, "upper": None}
        return [{"parameters": [parameter, coulomb], "confidence": 0.95, "settings": settings}]

    def use(self) -> None:
        from adc_wrappers.sysid.parameters import ParameterSpace

        saved = self.load(self.path)
        expect(all(math.isfinite(value) for value in saved.values), f"accepted with the values {saved.values}")
        ParameterSpace(saved.settings.free, ("fl_hx", "fl_kn"), saved.settings.fixed)


class SearchTarget(_JsonTarget):
    """The state of a search that ``adc sysid fit`` goes on with."""

    name = "search-state"
    errors = (IdentificationError,)

    def make(self) -> list[Any]:
        from adc_wrappers.sysid import search

        self.module = search
        begun = search.CmaSearch(2, seed=0)
        for _ in range(2):
            begun.tell(np.square(begun.ask()).sum(axis=1))
        return [{**begun.state_dict(), "problem": "abc"}]

    def use(self) -> None:
        fresh = self.module.CmaSearch(2, seed=0)
        found = self.module.resume_search(self.path, fresh, "abc")
        expect(math.isfinite(found.best[0]) or not found.told, f"accepted with the loss {found.best[0]}")
        found.ask()


class SelectionTarget(_JsonTarget):
    """``select_k0.json``: the state of a search for K_0 that goes on."""

    name = "select-k0"
    errors = (RunFolderError, CurriculumError)
    file = SELECTION_FILE

    def make(self) -> list[Any]:
        self.config = small_plan().config
        self.rule = SelectionRule(target=40.0, maximum=50.0, seeds=(0, 1))
        selection = Selection(self.folder, self.rule, self.config)
        part = {"episodes": 10, "successes": 9, "success_rate": 0.9, "length_mean": 100.0}
        for seed in (0, 1):
            selection.record(Candidate(stiffness=40.0, seed=seed, steps=100, own=part, target=part))
        selection.record(Candidate(stiffness=45.0, seed=0, steps=100, own=part))
        return [json.loads(self.path.read_text())]

    def use(self) -> None:
        selection = Selection.resume(self.folder, self.rule, self.config)
        for stiffness in self.rule.stiffnesses():
            selection.passed(stiffness)
            selection.pooled(stiffness, "target")
        _ = selection.chosen, [candidate.complete for candidate in selection.candidates]
        selection.save()


class StudyTarget(_JsonTarget):
    """``study.json``: read for its conditions, and by a study that goes on."""

    name = "study"
    errors = (RunFolderError, CurriculumError)
    file = "study.json"

    def make(self) -> list[Any]:
        self.plan = small_plan()
        self.plan.begin(self.folder, [], "adc study run")
        begun = {"command": "adc study run", "started": "2026-01-01 00:00:00", "commit": "abc"}
        return [{**json.loads(self.path.read_text()), "commands": [begun]}]

    def use(self) -> None:
        values = read_study(self.folder)
        if values is None:
            return
        for condition in values["conditions"]:
            condition_from(condition)
        self.plan.begin(self.folder, [], "adc study run")


class StudyRunTarget(_JsonTarget):
    """The files of one run in a study: settings, evaluation, job, versions."""

    name = "study-run"
    errors = (RunFolderError, CurriculumError)

    def make(self) -> list[Any]:
        path = write_run(self.folder, "adc", 0)
        (path / "versions.json").write_text(json.dumps({"python": "3.11", "commit": "abc"}))
        (path / "done.json").write_text(json.dumps({"seconds": 12.0}))
        self.run = path
        names = ("config.json", "eval.json", "eval.json", "job.json", "versions.json", "done.json")
        self.contents = {name: (path / name).read_bytes() for name in names}
        return list(names)

    def mutate(self, rng: Random) -> Mutant:
        name = rng.choice(self.examples)
        content, what = mutate_json(rng, json.loads(self.contents[name]))
        return Mutant(content, f"{name} {what}", {"file": name})

    def read(self, mutant: Mutant) -> None:
        for name, content in self.contents.items():
            (self.run / name).write_bytes(mutant.content if name == mutant.notes["file"] else content)
        self.use()

    def use(self) -> None:
        config = json.loads(self.contents["config.json"])
        job = Job(condition="adc", seed=0, folder=str(self.run), config=config, episodes=1000)
        is_finished(job)
        write_down(self.run, "finished", None, 1.0)
        results = read_results(self.folder)
        results.sizes()
        results.config()
        for run in results.runs:
            run.commit()
            run.curves()
        for metric in METRICS:
            results.scores(metric)
