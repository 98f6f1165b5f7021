"""``adc audit``: what it measures, its verdict, its files, and what ``adc deploy`` makes of it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from adc_wrappers.audit import AUDITS, Audit, file_digest, read_audit
from adc_wrappers.audit.measures import command_measures, spectrum, state_measures
from adc_wrappers.audit.playing import STEP_PARTS, EpisodeRecords
from adc_wrappers.audit.verdict import judge
from adc_wrappers.cli import main
from adc_wrappers.cli.audit import DESPITE
from adc_wrappers.core.errors import CurriculumError

POLICY = Path(__file__).parents[2] / "examples" / "policies" / "spot_handstand.onnx"
ROBOT = AUDITS["robot"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """The shipped policy, audited beside its file."""
    folder = tmp_path_factory.mktemp("audit")
    policy = folder / POLICY.name
    shutil.copy(POLICY, policy)
    options = ["--episodes", "3", "--latency-episodes", "1", "--seconds", "3", "--against", str(POLICY)]
    return policy, main(["audit", str(policy), *options])


def test_the_shipped_policy_fails_and_says_why(audited, capsys):
    policy, code = audited
    assert code == 1
    audit = read_audit(policy, ROBOT)
    assert audit is not None and not audit.passed
    why = " ".join(audit.reasons)
    for word in ("slew of kn", "target beyond the range", "predicted torque", "guard would stop"):
        assert word in why
    assert audit.commands["slew of kn, rad per step"]["worst"] > 1.0 and sum(audit.stops.values()) == 3
    assert set(audit.latency) == {"state_latency", "command_latency"} and audit.power["mean"] > 10.0
    assert any(name.startswith("transition: speed of kn") for name in audit.states)
    folder = policy.with_name("spot_handstand-audit")
    for name in ("audit.json", "spectra.csv", "audit.png", "comparison.png"):
        assert (folder / name).stat().st_size > 500


def test_a_stored_audit_is_of_one_file_and_one_set_of_limits(audited, tmp_path):
    policy, _ = audited
    stored = policy.with_name("spot_handstand-audit") / "audit.json"
    assert json.loads(stored.read_text())["sha256"] == file_digest(policy)
    assert read_audit(policy, AUDITS["practice"]) is None
    other = tmp_path / POLICY.name
    other.write_bytes(policy.read_bytes() + b"x")
    shutil.copytree(stored.parent, tmp_path / "spot_handstand-audit")
    assert read_audit(other, ROBOT) is None  # another file
    shutil.copy(policy, other)
    assert read_audit(other, ROBOT) is not None
    forged = json.loads(stored.read_text())
    (tmp_path / "spot_handstand-audit" / "audit.json").write_text(json.dumps({**forged, "passed": True, "items": []}))
    again = read_audit(other, ROBOT)
    assert again is not None and not again.passed  # judged by what was measured
    (tmp_path / "spot_handstand-audit" / "audit.json").write_text(json.dumps({**forged, "episodes": "many"}))
    with pytest.raises(CurriculumError, match="episodes"):
        read_audit(other, ROBOT)


def test_deploy_refuses_it_for_a_real_host_unless_told_in_words(audited, capsys):
    policy, _ = audited
    words = ["deploy", str(policy), "--hostname", "10.9.8.7", "--stiffness", "60", "--damping", "2"]
    assert main(words) == 1
    shown = capsys.readouterr().err
    assert "fails its audit" in shown and "slew of kn" in shown and DESPITE in shown
    assert main([*words, "--despite-audit", "yes"]) == 1
    assert "expected the words" in capsys.readouterr().err


def good() -> Audit:
    """An audit in which everything is accepted."""
    inside = {"worst": 0.1, "limit": 0.3, "share": 0.0}
    curve = [[0.0, 0.9], [0.01, 0.9], [0.02, 0.8], [0.04, 0.1]]
    return Audit(
        policy="p.onnx", sha256="0", limits="robot", guard_limits=ROBOT.guard.to_dict(), episodes=100, seed=0,
        commands={"slew of hx, rad per step": inside, "predicted torque / limit": {**inside, "share": 0.0005}},
        states={}, power={"mean": 1.0, "p99": 2.0, "largest": 3.0}, stops={"joint_speed": 6, "lean": 3},
        success_rate=0.9, latency={"state_latency": curve, "command_latency": curve},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, None),
        ({"stops": {"lean": 11}}, "guard would stop: 11.0% (lean 11)"),
        ({"success_rate": 0.79}, "success: 79.0%"),
        ({"latency": {"state_latency": [[0.0, 0.9], [0.02, 0.7]]}}, "state latency: survives 0 ms"),
        ({"latency": {}}, "not tried"),
        ({"latency": {"state_latency": [[0.0, 0.0], [0.02, 0.0]]}}, "no success at any"),
        ({"commands": {"slew of hx, rad per step": {"worst": 0.31, "limit": 0.3, "share": 1e-6}}}, "slew of hx"),
        ({"commands": {"predicted torque / limit": {"worst": 2.0, "limit": 1.0, "share": 0.01}}}, "torque"),
    ],
)
def test_each_line_of_the_verdict_can_fail(change, word):
    audit = judge(dataclasses.replace(good(), **change), ROBOT)
    assert audit.passed == (word is None)
    assert word is None or any(word in reason for reason in audit.reasons)


def test_measures_and_spectrum_of_known_episodes():
    steps, joints = 300, 12
    time = np.arange(steps) * 0.02
    wave = 0.2 * np.sin(2 * np.pi * 5.0 * time)
    pose = np.tile([0.0, 0.9, -1.5], 4)
    values = {name: np.zeros((steps, 2, joints), np.float32) for name in STEP_PARTS}
    values["targets"] = (pose + wave[:, None, None] + np.zeros((steps, 2, joints))).astype(np.float32)
    values["positions"] = values["targets"]
    values["slew"][10, 1, 2] = -0.5
    values["slew"][20, 0, 2] = 9.0  # after the end
    values["speeds"][5, 0, 1] = 13.0
    values["lean_and_side"] = np.zeros((steps, 2, 2), np.float32)
    values["base"] = np.ones((steps, 2, 4), np.float32)
    values["phase"] = np.ones((steps, 2), np.int8)
    alive = np.ones((steps, 2), bool)
    alive[15:, 0] = False
    records = EpisodeRecords(alive=alive, parts=values, success=np.array([False, True]), stops=(), policy_step=0.02)
    found = command_measures(records, ROBOT.guard)
    knee = found["slew of kn, rad per step"]
    assert knee["worst"] == pytest.approx(0.5) and knee["limit"] == 0.35 and knee["share"] == pytest.approx(1 / 315)
    assert found["target beyond the range, rad"]["share"] == 0.0
    states = state_measures(records, ROBOT.guard)
    assert states["transition: speed of hy, rad/s"]["worst"] == 13.0
    assert states["transition: speed of hy, rad/s"]["share"] == pytest.approx(1 / 315)
    assert not any(name.startswith("stance") for name in states)
    frequency, density = spectrum(records, "targets")
    assert frequency[np.argmax(density)] == pytest.approx(5.0, abs=0.4)
    # a sine of amplitude a has a mean square of a²/2: all of it is in the spectrum
    assert density.sum() * (frequency[1] - frequency[0]) == pytest.approx(0.2**2 / 2, rel=0.02)


def test_a_planar_robot_is_no_robot(capsys, tmp_path):
    from types import SimpleNamespace

    from adc_wrappers.audit.playing import play_episodes
    from adc_wrappers.training.recipes import default_config

    policy = SimpleNamespace(config=default_config("spot-planar-handstand", "mujoco", recipe="robot"))
    with pytest.raises(CurriculumError, match="in space"):
        play_episodes(policy, ROBOT.guard, episodes=1, seed=0)
