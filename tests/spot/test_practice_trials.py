"""The trials on hidden practice robots: what is drawn, what is counted, and that a broken-off run goes on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("bosdyn.client")

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import practice_trials

from adc_wrappers.deploy import TrialOutcome


def row(number, *, success=False, clock="lockstep", ended="time", motors_off=True, **outcome):
    hidden, push = practice_trials.draw(0, number)
    values = TrialOutcome(
        success=success, steps=1000, seconds=20.0, terminated=False, mode="success" if success else "guard: speed",
        ended=ended, time_to_stance=1.0, stance_seconds=18.0, longest_hold=17.0, attempts=1, return_=0.0,
    )  # fmt: skip
    return {
        "clock": clock, "limits": "robot", "number": number, "seed": 0, "hidden": hidden, "push": push,
        "source": "practice robot", "outcome": {**values.to_dict(), **outcome}, "motors_off": motors_off,
        "events": [{"event": "push recovered", "recovered": success}], "policy": "abc", "commit": "def", "took": 6.0,
    }  # fmt: skip


def test_a_robot_is_drawn_from_its_number_and_lies_in_its_ranges():
    assert practice_trials.draw(0, 7) == practice_trials.draw(0, 7)
    drawn = [practice_trials.draw(0, number)[0] for number in range(200)]
    for name, (low, high) in practice_trials.RANGES.items():
        values = [hidden[name] for hidden in drawn]
        assert low <= min(values) < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < max(values) <= high
    assert {hidden["command_delay"] for hidden in drawn} == set(range(5))


def test_every_attempt_counts_and_stops_are_told_one_by_one():
    rows = [row(number, success=number < 3) for number in range(4)]
    rows[3] = row(3, ended="guard", reason="joint speed: fl_kn 13, at most 12 rad/s", motors_off=False)
    rows.append(row(0, clock="realtime", success=True))
    page = practice_trials.page(rows)
    assert "| success, of all | 3/4  75.0% (30.1% to 95.4%) | 1/1  100.0% (20.7% to 100.0%) |" in page
    assert "| pushes recovered | 3/4  75.0% (30.1% to 95.4%) | 1/1" in page
    assert "| motors not confirmed off | 1 | 0 |" in page
    assert "| lockstep | 3 | 20.00 | joint speed: fl_kn 13, at most 12 rad/s |" in page


def test_a_run_that_was_broken_off_goes_on(tmp_path, monkeypatch):
    policy = Path(__file__).parents[2] / "examples/policies/spot_handstand.onnx"
    ran = []
    monkeypatch.setattr(practice_trials, "run_trial", lambda *arguments: ran.append(arguments[-1]) or row(ran[-1]))
    monkeypatch.setattr(sys, "argv", ["practice_trials.py", str(policy), "--trials", "3", "--out", str(tmp_path)])
    (tmp_path / "trials.jsonl").write_text(json.dumps(row(1)) + "\n")
    practice_trials.main()
    assert ran == [0, 2]
    assert "success, of all | 0/3" in (tmp_path / "README.md").read_text()
