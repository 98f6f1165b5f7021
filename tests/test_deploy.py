"""``adc deploy`` and ``adc trials``: from a policy file to recorded trials and their statistics."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("bosdyn.client")
pytest.importorskip("pyarrow")

import pyarrow.parquet as parquet
from spot_robot_helpers import POLICY, nothing_left

from adc_wrappers.backends.guard import PRACTICE_LIMITS
from adc_wrappers.cli import main
from adc_wrappers.deploy import TrialError, TrialRecorder, find_trials, read_trial, run_trial, summarize
from adc_wrappers.deploy.tables import TableWriter
from adc_wrappers.policy import load
from adc_wrappers.spot_sim import PracticeRobot
from adc_wrappers.trajectories import read_log
from adc_wrappers.trajectories.parquet import read_parquet

ROOT = Path(__file__).parents[1]


def the_trial(folder: Path) -> Path:
    (path,) = folder.glob("*/trial.json")
    return path.parent


def table(path: Path) -> tuple[list[str], np.ndarray]:
    content = parquet.read_table(path)
    return content.column_names, np.array([content.column(name).to_pylist() for name in content.column_names]).T


def test_a_trial_in_simulation_is_recorded(tmp_path, capsys):
    assert main(["deploy", str(POLICY), "--simulation", "--seconds", "0.6", "--out", str(tmp_path)]) == 0
    folder = the_trial(tmp_path)
    trial = read_trial(folder)
    assert trial.source == "simulation" and trial.outcome["steps"] == 30 and trial.outcome["guard"] is None
    assert trial.metadata["policy"]["file"] == POLICY.name and len(trial.metadata["policy"]["sha256"]) == 64
    columns, rows = table(folder / "steps.parquet")
    assert len(rows) == 30 and len([name for name in columns if name.startswith("observation.")]) == 45
    assert not (folder / "states.parquet").exists()  # a simulator sends no messages
    assert str(folder) in capsys.readouterr().out


def test_where_to_run_must_be_said(capsys):
    assert main(["deploy", str(POLICY)]) == 1
    assert main(["deploy", str(POLICY), "--practice", "--simulation"]) == 1
    assert main(["deploy", str(POLICY), "--hostname", "10.9.8.7", "--yes"]) == 1
    assert "--yes is for practice robots" in capsys.readouterr().err
    assert main(["deploy", str(POLICY), "--hostname", "10.9.8.7"]) == 1
    assert "does not say which gains" in capsys.readouterr().err


@pytest.mark.slow
def test_a_trial_on_the_practice_robot_is_recorded_and_holds_no_secret(tmp_path, capsys, monkeypatch):
    """Preflight, armed, recorded, off; through --hostname, --port and --certificate, credentials in the environment."""
    with PracticeRobot(clock="lockstep", password="a-secret-of-the-test") as robot, nothing_left():
        monkeypatch.setenv("BOSDYN_CLIENT_USERNAME", robot.username)
        monkeypatch.setenv("BOSDYN_CLIENT_PASSWORD", robot.password)
        where = ["--hostname", robot.hostname, "--port", str(robot.port), "--certificate", str(robot.certificate)]
        options = ["--clock", "lockstep", "--seconds", "0.8", "--yes", "--out", str(tmp_path)]
        assert main(["deploy", str(POLICY), *where, *options]) == 0
        assert robot.status()["motors"] == "off" and robot.status()["leases"] == {}
    shown = capsys.readouterr()
    assert "motors confirmed off" in shown.out and "spot-PRACTICE" in shown.out
    folder = the_trial(tmp_path)
    for path in folder.iterdir():
        assert b"a-secret-of-the-test" not in path.read_bytes()
    assert "a-secret-of-the-test" not in shown.out + shown.err
    trial = read_trial(folder)
    assert trial.source == "practice robot" and trial.outcome["steps"] == 40
    assert [event["event"] for event in trial.events][:3] == ["armed", "joint control", "policy"]
    _check_trajectory_log(folder, trial)


def _check_trajectory_log(folder, trial):
    """What was recorded is a log that system identification reads."""
    log = read_log(folder / "states.parquet")
    assert log.torques is not None and log.base is not None
    assert log.source == trial.source
    assert trial.metadata["commanded"] == json.loads((folder / "states.json").read_text())["commanded"]
    steps, actions = table(folder / "steps.parquet")
    wanted = actions[:, [steps.index(f"target.{joint}") for joint in log.joint_names]].astype(float)
    assert len(log.targets) == len(wanted) == 40
    assert np.abs(log.targets - wanted).max() < 1e-6  # in lockstep, one state per step


@pytest.mark.slow
def test_shadow_mode_sends_nothing(tmp_path, capsys):
    with nothing_left():
        options = ["--practice", "--clock", "lockstep", "--shadow", "--seconds", "0.3", "--out", str(tmp_path)]
        assert main(["deploy", str(POLICY), *options]) == 0
    trial = read_trial(the_trial(tmp_path))
    assert trial.source == "shadow" and trial.outcome["steps"] == 15
    assert {event["event"] for event in trial.events} <= {"would stop"}


@pytest.mark.slow
def test_with_the_robots_limits_the_guard_stops_the_shipped_policy(tmp_path, capsys):
    options = ["--practice", "--clock", "lockstep", "--limits", "robot", "--yes", "--out", str(tmp_path)]
    assert main(["deploy", str(POLICY), *options]) == 1
    trial = read_trial(the_trial(tmp_path))
    assert trial.outcome["mode"].startswith("guard: ") and trial.outcome["guard"]["fallback"] == "standing"
    assert trial.metadata["guard_limits"]["slew"] < PRACTICE_LIMITS.slew
    assert trial.events[-1]["event"] in ("fallback", "closed")


def record(folder: Path, source: str, **outcome) -> None:
    values = {
        "success": True, "steps": 10, "seconds": 0.2, "terminated": False, "mode": "success", "time_to_stance": 1.0,
        "stance_seconds": 5.0, "longest_hold": 4.0, "attempts": 1, "return": 0.0, "guard": None,
        "timing": {"period_p50_ms": 20.0, "period_p100_ms": 30.0},
    }  # fmt: skip
    recorder = TrialRecorder(folder, joints=["a"], stiffness=[1.0], damping=[1.0], source=source, metadata={"seed": 0})
    recorder.event("push recovered", {"recovered": values["success"]})
    recorder.close({**values, **outcome})


def test_trials_are_summed_up_side_by_side(tmp_path, capsys):
    for i in range(9):
        record(tmp_path / f"p{i}", "practice robot", time_to_stance=1.0 + 0.1 * i, attempts=1 + i % 2)
    record(tmp_path / "p9", "practice robot", success=False, mode="guard: lean", time_to_stance=None, longest_hold=0.0)
    record(tmp_path / "s0", "simulation")
    TrialRecorder(tmp_path / "cut", joints=["a"], stiffness=[1.0], damping=[1.0], source="robot", metadata={}).close(
        None
    )
    found, problems = find_trials([tmp_path])
    assert len(found) == 11 and len(problems) == 1 and "not finished" in problems[0]
    summary = summarize([trial for trial in found if trial.source == "practice robot"])
    assert summary["success"]["count"] == 9 and summary["success"]["interval"][0] == pytest.approx(0.596, abs=1e-3)
    assert summary["time_to_stance"]["mean"] == pytest.approx(1.4) and summary["time_to_stance"]["of"] == 9
    low, high = summary["time_to_stance"]["interval"]
    assert low < 1.4 < high
    assert summary["retries"]["mean"] == pytest.approx(0.4) and summary["modes"]["guard: lean"] == 1
    assert summary["pushes_recovered"]["of"] == 10
    assert main(["trials", str(tmp_path), "--out", str(tmp_path / "numbers.json")]) == 0
    shown = capsys.readouterr().out
    assert "practice robot" in shown and "simulation" in shown and "left out" in shown
    assert json.loads((tmp_path / "numbers.json").read_text())["practice robot"]["trials"] == 10


def test_a_folder_without_trials_says_so(tmp_path, capsys):
    assert main(["trials", str(tmp_path)]) == 1
    with pytest.raises(TrialError, match="no trial"):
        read_trial(tmp_path)


def test_a_recording_is_never_overwritten(tmp_path):
    record(tmp_path, "simulation")
    with pytest.raises(FileExistsError, match="another folder"):
        record(tmp_path, "simulation")


def test_the_outcome_counts_holds_and_attempts():
    """On a task that says itself when it holds."""
    from adc_wrappers import make_env

    env = make_env("spot-handstand", backend="mujoco", preset="cpu", randomize=False)
    policy = load(POLICY)
    gains = policy.metadata
    env.actuator_backend.set_gains(np.atleast_2d(gains.simulated_stiffness), np.atleast_2d(gains.simulated_damping))
    held = []
    outcome = run_trial(env, policy, seed=0, steps=60, on_step=lambda _, info: held.append(info["holds"]))
    env.close()
    assert outcome.steps == 60 and outcome.stance_seconds == pytest.approx(0.02 * sum(held))
    assert outcome.time_to_stance is not None and outcome.attempts >= 1 and not outcome.success
    assert outcome.timing["period_p50_ms"] > 0


def test_tables_are_csv_until_the_trial_is_closed(tmp_path):
    recorder = TrialRecorder(tmp_path, joints=["a"], stiffness=[1.0], damping=[1.0], source="robot", metadata={})
    recorder.step({"step": 0, "phase": "stand"})
    recorder.step({"step": 1, "phase": "transition"})
    recorder.close(None)
    recorder.close(None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["steps.parquet", "trial.json"]
    assert parquet.read_table(tmp_path / "steps.parquet").to_pydict() == {
        "step": [0, 1],
        "phase": ["stand", "transition"],
    }


def test_a_full_disk_is_told_and_what_was_written_stays(tmp_path, monkeypatch):
    class Full:
        """A file on a disk that is full after some rows."""

        def __init__(self, file):
            self.file, self.left = file, 4

        def write(self, text):
            self.left -= 1
            if self.left < 0:
                raise OSError("no space left on device")
            return self.file.write(text)

        def close(self):
            self.file.close()

    tables = TableWriter()
    tables.declare("states", tmp_path / "states.csv", ["time"])
    tables.declare("steps", tmp_path / "steps.csv", ["step"])
    plain = Path.open

    def opened(path, *arguments, **options):
        file = plain(path, *arguments, **options)
        return Full(file) if path.name == "states.csv" else file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        for i in range(100):
            tables.write("states", [i])
            tables.write("steps", [i])
        with pytest.raises(OSError, match=r"not complete \(states.csv: no space left"):
            tables.close()
    assert (tmp_path / "states.csv").read_text().split() == ["time", "0", "1", "2"]
    assert not (tmp_path / "states.parquet").exists()
    assert len(read_parquet(tmp_path / "steps.parquet")["step"]) == 100
    tables.close()  # twice is once


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--simulation", "--stiffness", "60", "--damping", "2"], "--stiffness, --damping: there is no robot"),
        (["--simulation", "--shadow"], "--shadow: there is no robot"),
        (["--practice", "--seconds", "-1"], "seconds: expected a positive number"),
        (["--hostname", "localhost", "--yes"], "--yes is for practice robots"),
    ],
)
def test_options_that_would_do_nothing_or_harm_are_refused(options, message, capsys):
    assert main(["deploy", str(POLICY), *options]) == 1
    assert message in capsys.readouterr().err


def test_shadow_needs_no_commanded_gains():
    from adc_wrappers.cli.deploy import Deploy

    policy = load(POLICY)
    assert Deploy(policy=POLICY, hostname="10.9.8.7", shadow=True)._gains(policy) == {}
    with pytest.raises(ValueError, match="which gains are to be commanded"):
        Deploy(policy=POLICY, hostname="10.9.8.7")._gains(policy)
