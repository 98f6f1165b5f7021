"""The table of docs/hardware.md that says how a robot ends: what is in it, and what counts as unsafe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("bosdyn.client")

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import safety

from adc_wrappers.spot_sim import FAULTS


def trial(title="`low_battery`", phase="transition", **changes):
    """A robot that stood 1.9 s after its fault and was off after 3.8 s."""
    number, case = next((i, case) for i, case in enumerate(safety.CASES) if case.title == title)
    history = [
        {"time": 5.0, "mode": "joint", "motors": "on", "settled": False},
        {"time": 10.1, "mode": "stand", "motors": "on", "settled": False},
        {"time": 11.9, "mode": "stand", "motors": "on", "settled": True},
        {"time": 12.0, "mode": "sit", "motors": "on", "settled": False},
        {"time": 13.8, "mode": "off", "motors": "off", "settled": False},
    ]
    return {
        "case": number, "title": title, "kind": case.kind, "phase": phase, "clock": "lockstep", "repetition": 0,
        "moments": {"struck": {"time": 10.0}, "closing": {"time": 10.05}}, "history": history, "motors": "off",
        "mode": "off", "lease": None, "told": {"check": "battery", "fallback": "standing", "error": None}, **changes,
    }  # fmt: skip


def test_every_fault_and_signal_is_in_every_phase():
    planned = safety.plan(5, "", safety.CLOCKS)
    names = {case["name"] for case in planned if case["kind"] == "fault"}
    assert names == set(FAULTS) - {"estop_release"}  # which is the end of one
    for victim in ("driver", "keeper"):
        assert {c["name"] for c in planned if c["victim"] == victim} == {"INT", "TERM", "HUP", "KILL", "STOP"}
    for case in safety.CASES:
        of_case = [trial for trial in planned if trial["title"] == case.title]
        assert len(of_case) == 20 and {trial["phase"] for trial in of_case} == set(safety.PHASES)
        assert case.kind == "fault" or all(trial["clock"] == "realtime" for trial in of_case)
    assert len({safety.key(trial) for trial in planned}) == len(planned)


def test_times_count_from_the_fault_and_a_robot_that_is_off_and_free_is_safe():
    found = safety.judge(trial())
    assert found["verdict"] == "safe" and found["how"] == "stands"
    assert (found["driven"], found["calm"], found["off"]) == pytest.approx((0.1, 1.9, 3.8))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"moments": {"struck": {"time": 9.0}}}, "driven for 1.1 s"),
        ({"mode": "joint"}, "driven"),
        ({"motors": "on"}, "motors on"),
        ({"moments": {"struck": {"time": -20.0}}}, "motors on"),
        ({"lease": "adc-wrappers-1"}, "lease held by adc-wrappers-1"),
        ({"lease": "tablet"}, "lease held by tablet"),
        ({"failed": "no result"}, "no result"),
    ],
)
def test_what_is_driven_powered_or_held_for_too_long_is_unsafe(changes, why):
    found = safety.judge(trial(**changes))
    assert found["verdict"] == "unsafe" and why in found["why"]


def test_motors_are_the_new_owners_matter_when_the_lease_was_taken():
    assert safety.judge(trial("`lease_theft`", lease="tablet", motors="on", mode="stand"))["verdict"] == "safe"
    assert safety.judge(trial("`lease_theft`", lease="tablet", motors="on", mode="joint"))["verdict"] == "unsafe"


def test_what_need_not_stop_anything_is_timed_from_the_end():
    went_on = {"check": None, "fallback": None, "error": None}
    found = safety.judge(trial("`warning`", told=went_on, moments={"struck": {"time": 6.0}, "closing": {"time": 10.0}}))
    assert found["verdict"] == "safe" and found["driven"] == pytest.approx(0.1)
    later = trial(
        "`push`", moments={"struck": {"time": 6.0}, "closing": {"time": 12.0}}
    )  # the guard stopped it at 10.1
    found = safety.judge(later)
    assert found["verdict"] == "safe" and (found["driven"], found["off"]) == pytest.approx((0.0, 3.7))
    assert safety.judge({**later, "mode": "joint"})["verdict"] == "unsafe"
    must_stop = safety.judge(trial(told=went_on, moments={"struck": {"time": 6.0}, "closing": {"time": 10.0}}))
    assert must_stop["verdict"] == "unsafe"


def test_a_phase_that_never_came_is_no_verdict():
    missed = trial(moments={}, told={"check": "stream", "fallback": "standing", "error": None})
    assert safety.judge(missed)["verdict"] is None
    rows = safety.table([{**missed, "verdict": safety.judge(missed)}, {**trial(), "verdict": safety.judge(trial())}])
    assert "0.10 / 1.90 / 3.80ᴸ stands" in rows and "0 of 1" in rows


def test_trials_of_another_product_are_not_put_beside_todays(tmp_path, monkeypatch):
    """A change in any of the product's folders counts, wherever the benchmark is started from."""
    for folder in ("benchmarks", "backends"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(safety, "HERE", tmp_path / "benchmarks")

    def commit(text):
        (tmp_path / "backends" / "driving.py").write_text(text)
        name = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        for words in (("init", "-q"), ("add", "-A"), (*name, "commit", "-qm", "one")):
            subprocess.run(["git", *words], cwd=tmp_path, check=True)
        answer = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True)
        return answer.stdout.strip()

    before, now = commit("slow"), commit("quick")
    assert safety.same_product(now) and not safety.same_product(before)


def test_the_page_has_a_place_for_the_table():
    page = safety.PAGE.read_text()
    assert page.count(safety.BEGIN) == page.count(safety.END) == 1 and page.index(safety.BEGIN) < page.index(safety.END)
