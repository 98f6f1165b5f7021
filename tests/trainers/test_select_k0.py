"""adc select-k0: the paper's rule, what it refuses, and what a kill leaves behind."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import adc_wrappers.training.evaluating as evaluating
from adc_wrappers import CurriculumError
from adc_wrappers.cli import main
from adc_wrappers.cli.select_k0 import SelectK0
from adc_wrappers.runs import RunFolder, RunFolderError
from adc_wrappers.training import default_config
from adc_wrappers.training.selection import Candidate, Selection, SelectionRule, fixed_config

QUICK = (
    "cartpole", "--backend", "analytic", "--workers", "batch", "--num-envs", "4", "--ppo.n-steps", "32",
    "--ppo.hidden", "8", "--steps", "256", "--set", "time_limit=60",
)  # fmt: skip


def select(path, *more):
    return main(["select-k0", *QUICK, "--episodes", "5", "--out", str(path), *map(str, more)])


def state(path):
    return json.loads((path / "select_k0.json").read_text())


def result(successes, episodes=10):
    return {"episodes": episodes, "successes": successes, "length_mean": 20.0}


def search(tmp_path, own, **rule):
    """A search whose policies had so many successes of 10, by stiffness and seed."""
    rule = SelectionRule(**{"target": 40.0, "maximum": 60.0, "threshold": 0.5, **rule})
    selection = Selection(tmp_path, rule, default_config("cartpole", "analytic"))
    for (stiffness, seed), successes in own.items():
        selection.candidates.append(Candidate(stiffness=stiffness, seed=seed, steps=1, own=result(successes)))
    return selection


# --- the rule ---------------------------------------------------------------------------------------------------------


def test_the_smallest_stiffness_that_exceeds_the_threshold_is_chosen(tmp_path):
    assert search(tmp_path, {(40.0, 0): 2, (45.0, 0): 5, (50.0, 0): 6}).chosen == 50.0  # 5 of 10 is not above 50 %
    assert search(tmp_path, {(40.0, 0): 6, (45.0, 0): 9}).chosen == 40.0
    assert search(tmp_path, {(40.0, 0): 5}).chosen is None


def test_seeds_are_pooled_and_all_of_them_are_needed(tmp_path):
    two = {"seeds": (3, 4)}
    assert search(tmp_path, {(40.0, 3): 10}, **two).chosen is None
    pooled = search(tmp_path, {(40.0, 3): 10, (40.0, 4): 0}, **two)
    assert pooled.pooled(40.0)["success_rate"] == 0.5 and pooled.chosen is None
    assert search(tmp_path, {(40.0, 3): 10, (40.0, 4): 1}, **two).chosen == 40.0


@given(target=st.floats(1.0, 100.0), step=st.floats(0.5, 20.0), more=st.floats(0.0, 200.0))
def test_candidates_begin_at_the_target_and_end_within_the_maximum(target, step, more):
    values = SelectionRule(target=target, step=step, maximum=target + more).stiffnesses()
    assert values[0] == target and values[-1] <= (target + more) * (1 + 1e-9)
    assert values[-1] + step > target + more - 1e-6 * step


def test_the_papers_numbers_are_the_defaults():
    options = SelectK0(task="spot-handstand")
    rule, config = options._rule_and_config(print)
    assert (rule.target, rule.step, rule.threshold, rule.episodes) == (40.0, 5.0, 0.98, 1000)
    assert 60.0 in rule.stiffnesses()
    fixed = fixed_config(config, 45.0, 2).curriculum
    assert (fixed.start_stiffness, fixed.target_stiffness, fixed.driver) == (45.0, 45.0, "fixed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": 0.0}, "step: expected a positive"),
        ({"threshold": 1.0}, "which 1 cannot be"),
        ({"threshold": -0.1}, "threshold"),
        ({"episodes": 0}, "episodes"),
        ({"maximum": 39.0}, "at least the target"),
        ({"maximum": float("inf")}, "at least the target"),
        ({"seeds": ()}, "seeds"),
        ({"seeds": (1, 1)}, "each once"),
        ({"target": float("nan")}, "target"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(CurriculumError, match=message):
        SelectionRule(**{"target": 40.0, "maximum": 60.0, **change})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cartpol"], "Did you mean 'cartpole'"),
        (["cartpole", "--backend", "analytic", "--step", "-5"], "step"),
        (["cartpole", "--backend", "analytic", "--max", "5"], "at least the target stiffness 6.25"),
        (["cartpole", "--backend", "pybullet", "--max", "1e9", "--step", "1e8"], "physics step"),
        (["cartpole", "--backend", "analytic", "--eval-envs", "0"], "eval_envs"),
        (["cartpole", "--backend", "analytic", "--steps", "0"], "ppo.total_steps: expected a positive count, got 0"),
    ],
)
def test_misuse_gets_one_message_and_leaves_nothing(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["select-k0", *words]) == 1
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not list(tmp_path.iterdir())


# --- the command ------------------------------------------------------------------------------------------------------


def test_a_search_in_which_none_passes_says_so(tmp_path, capsys):
    out = tmp_path / "search"
    assert select(out, "--max", 12, "--seeds", 0, 1) == 0
    text = capsys.readouterr().out
    assert "None of K = 6.25, 11.25 exceeded 98.0% success: no K_0 is chosen" in text
    stored = state(out)
    assert stored["chosen"] is None
    assert [(t["stiffness"], t["seed"]) for t in stored["trials"]] == [(6.25, 0), (6.25, 1), (11.25, 0), (11.25, 1)]
    run = RunFolder.open(out / "K11.25-seed1")
    assert set(run.metrics.read()["stiffness"]) == {11.25}
    assert json.loads((run.path / "eval.json").read_text())["stiffness"] == [11.25]
    at_target = json.loads((run.path / "eval-K6.25.json").read_text())
    assert at_target["stiffness"] == [6.25] and not at_target["at_target"]
    assert (out / "select_k0.png").stat().st_size > 10_000
    with (out / "select_k0.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["seed"] for row in rows] == ["0", "1", "all"] * 2
    assert rows[2]["episodes"] == "10" and rows[2]["target_episodes"] == "10"


def test_a_search_stops_at_the_first_that_passes(tmp_path, monkeypatch, capsys):
    """With a task in which nothing can fail every policy passes: the first stiffness is chosen."""
    monkeypatch.setattr("adc_wrappers.envs.cartpole.CartTask.holds", lambda task: abs(task._state.x) < 1e9)
    monkeypatch.setattr("adc_wrappers.envs.cartpole.CartTask.terminated", lambda task: task._state.x != task._state.x)
    assert select(tmp_path / "search", "--threshold", "0.9") == 0
    assert "K_0 = 6.25" in (text := capsys.readouterr().out) and "needs no curriculum" in text
    stored = state(tmp_path / "search")
    assert stored["chosen"] == 6.25 and len(stored["trials"]) == 1
    assert stored["trials"][0]["own"] == stored["trials"][0]["target"]


def test_going_on_needs_to_be_asked_for_keeps_settings_and_may_raise_the_maximum(tmp_path, capsys):
    out = tmp_path / "search"
    assert select(out, "--max", 7) == 0
    assert select(out, "--max", 7) == 1
    assert "--resume" in capsys.readouterr().err
    assert select(out, "--max", 7, "--threshold", "0.5", "--resume") == 1
    assert "threshold: was 0.98, asked 0.5" in capsys.readouterr().err
    before = state(out)["trials"]
    assert select(out, "--max", 12, "--resume") == 0
    assert state(out)["trials"][0] == before[0] and len(state(out)["trials"]) == 2
    assert "K = 6.25, seed 0" not in capsys.readouterr().out


def test_a_search_of_an_older_version_goes_on(tmp_path):
    """It did not know a setting that was added since; what it does not say is today's default."""
    rule = SelectionRule(target=40.0, maximum=60.0)
    Selection.create(tmp_path, rule, default_config("cartpole", "analytic"))
    stored = state(tmp_path)
    del stored["config"]["ppo"]["privileged_value"]
    (tmp_path / "select_k0.json").write_text(json.dumps(stored))
    assert Selection.resume(tmp_path, rule, default_config("cartpole", "analytic")).candidates == []


def test_a_folder_that_is_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    rule = SelectionRule(target=40.0, maximum=60.0)
    for begin in (Selection.create, Selection.resume):
        with pytest.raises(RunFolderError, match="exists"):
            begin(tmp_path, rule, default_config("cartpole", "analytic"))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_was_finished_is_not_repeated(tmp_path, monkeypatch):
    """The second evaluation of a policy fails; the first, and the training, are not done again."""
    out, calls = tmp_path / "search", []
    real = evaluating.evaluate_policy

    def watched(policy, setup, **options):
        calls.append((policy.config.curriculum.target_stiffness, setup.name))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(policy, setup, **options)

    monkeypatch.setattr(evaluating, "evaluate_policy", watched)
    assert select(out, "--max", 12) == 130
    trials = state(out)["trials"]
    assert [trial["target"] is None for trial in trials] == [False, True]
    trained = (out / "K11.25-seed0" / "metrics.csv").stat().st_mtime_ns
    assert select(out, "--max", 12, "--resume") == 0
    assert calls == [(6.25, "eval"), (11.25, "eval"), (11.25, "eval-K6.25"), (11.25, "eval-K6.25")]
    assert (out / "K11.25-seed0" / "metrics.csv").stat().st_mtime_ns == trained
    assert state(out)["trials"][1]["own"] == trials[1]["own"]


@pytest.mark.slow
def test_a_search_that_is_killed_goes_on_where_it_was(tmp_path):
    out = tmp_path / "search"
    words = [*QUICK, "--episodes", "5", "--max", "12", "--checkpoint-every", "1", "--out", str(out)]
    words[words.index("--steps") + 1] = "2560"
    command = [sys.executable, "-m", "adc_wrappers.cli", "select-k0", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    second = RunFolder(out / "K11.25-seed0")
    deadline = time.monotonic() + 300.0
    while len(second.checkpoints.paths()) < 2:
        assert process.poll() is None and time.monotonic() < deadline, "the search ended or hangs"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = state(out)
    saved = second.checkpoints.load_latest()
    done = saved.json("state.json")["curriculum"]["iteration"]
    rows = second.metrics.read()
    assert [trial["stiffness"] for trial in before["trials"]] == [6.25]
    first = (out / "K6.25-seed0" / "metrics.csv").stat().st_mtime_ns

    assert main(["select-k0", *words, "--resume"]) == 0
    after = state(out)
    assert after["trials"][0] == before["trials"][0] and len(after["trials"]) == 2
    assert (out / "K6.25-seed0" / "metrics.csv").stat().st_mtime_ns == first
    resumed = second.metrics.read()
    assert resumed["iteration"] == list(range(1, 21))
    assert resumed["episode_length_ema"][:done] == rows["episode_length_ema"][:done]
    assert all(trial["target"] is not None for trial in after["trials"])
