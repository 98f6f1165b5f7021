"""``adc deploy`` and ``adc trials``: from a policy file to recorded trials and their statistics."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("bosdyn.client")
pytest.importorskip("pyarrow")

import pyarrow.parquet as parquet
from spot_robot_helpers import POLICY, connection, nothing_left

from adc_wrappers.backends.guard import PRACTICE_LIMITS, ROBOT_LIMITS
from adc_wrappers.backends.spot.driving import JointDriver
from adc_wrappers.backends.spot.fallback import Fallback
from adc_wrappers.cli import main
from adc_wrappers.cli.audit import DESPITE
from adc_wrappers.deploy import TrialError, TrialRecorder, find_trials, read_trial, run_trial, summarize
from adc_wrappers.deploy.deployer import Deployer, task_settings
from adc_wrappers.deploy.recorder import TableWriter
from adc_wrappers.policy import DIGEST_KEY, METADATA_KEY, PolicyFileError, load
from adc_wrappers.spot_sim import PracticeRobot
from adc_wrappers.trajectories import read_log
from adc_wrappers.trajectories.parquet import read_parquet

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("brief_preflight")


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
def test_states_of_a_robot_that_is_being_stopped_have_no_targets(tmp_path, monkeypatch):
    """The robot is told to stand first, and everybody else afterwards: what it sends meanwhile is not the policy's."""
    drivers, begin, act = [], JointDriver.begin, Fallback.act

    def known_begin(driver, setpoint):
        drivers.append(driver)
        begin(driver, setpoint)

    def slow_act(fallback, check, newest):
        told = act(fallback, check, newest)
        assert drivers[-1]._receiver.wait(lambda sample: sample.stamp > newest.stamp + 0.05, 30.0) is not None
        return told

    monkeypatch.setattr(JointDriver, "begin", known_begin)
    monkeypatch.setattr(Fallback, "act", slow_act)
    options = ["--practice", "--clock", "lockstep", "--seconds", "0.2", "--yes", "--out", str(tmp_path)]
    with nothing_left():
        assert main(["deploy", str(POLICY), *options]) == 0
    folder = the_trial(tmp_path)
    assert len(drivers) == 1 and len(read_log(folder / "states.parquet").targets) == 10
    assert len(table(folder / "other_states.parquet")[1]) > 10


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
    stiff = ["--stiffness", "60", "--damping", "2.5"]  # what a stand bears is nearer to its targets than at 40
    assert main(["deploy", str(POLICY), *options, *stiff]) == 1
    trial = read_trial(the_trial(tmp_path))
    # The longer it lay limp before it stood, the more its hips bear: the guard may stop the take-over already.
    assert trial.outcome["mode"].startswith(("guard: ", "take-over: "))
    assert trial.outcome["guard"]["fallback"] == "standing"
    assert trial.metadata["guard_limits"] == ROBOT_LIMITS.to_dict() and trial.metadata["limits"] == "robot"
    assert trial.events[-1]["event"] in ("fallback", "closed")


def record(folder: Path, source: str, where=None, **outcome) -> None:
    values = {
        "success": True, "steps": 10, "seconds": 0.2, "terminated": False, "mode": "success", "time_to_stance": 1.0,
        "stance_seconds": 5.0, "longest_hold": 4.0, "attempts": 1, "return": 0.0, "guard": None, "ended": "time",
        "timing": {"period_p50_ms": 20.0, "period_p100_ms": 30.0},
    }  # fmt: skip
    recorder = TrialRecorder(folder, joints=["a"], stiffness=[1.0], damping=[1.0], source=source, metadata=where or {})
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
    assert len(found) == 12 and not problems
    (died,) = [trial for trial in found if trial.source == "robot"]
    assert died.outcome["ended"] == "died" and not died.outcome["success"] and not died.driven
    summary = summarize([trial for trial in found if trial.source == "practice robot"])
    assert summary["success"]["count"] == 9 and summary["success"]["interval"][0] == pytest.approx(0.596, abs=1e-3)
    assert summary["time_to_stance"]["mean"] == pytest.approx(1.4) and summary["time_to_stance"]["of"] == 9
    low, high = summary["time_to_stance"]["interval"]
    assert low < 1.4 < high
    assert summary["retries"]["mean"] == pytest.approx(0.4) and summary["modes"]["guard: lean"] == 1
    assert summary["pushes_recovered"]["of"] == 10
    assert main(["trials", str(tmp_path), "--out", str(tmp_path / "numbers.json")]) == 0
    shown = capsys.readouterr().out
    assert "practice robot" in shown and "simulation" in shown and "left out" not in shown
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["practice robot"]["trials"] == 10
    assert numbers["robot"]["trials"] == 1 and numbers["robot"]["success"]["of"] == 1


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


def with_training_settings(path: Path, **settings) -> Path:
    """The shipped policy, its stored training settings changed and its digest made right again."""
    model = onnx.load(str(POLICY))
    told = {item.key: item for item in model.metadata_props}
    document = json.loads(told[METADATA_KEY].value)
    document["training"]["config"]["settings"].update(settings)
    told[METADATA_KEY].value = json.dumps(document)
    told[DIGEST_KEY].value = hashlib.sha256(told[METADATA_KEY].value.encode()).hexdigest()
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize(
    "settings",
    [
        {"takeover_seconds": 0.001, "settle_seconds": 0.0, "licence": None},
        {"limits": "practice"},
        {"stiffness": 500.0, "damping": 1.0},
        {"listeners": []},
        {"nobody_knows_this": 1},
    ],
)
def test_a_policy_file_cannot_say_how_a_robot_is_driven(tmp_path, capsys, settings):
    """Settings of the connection come from whoever drives; a file that names any is refused before a connection."""
    path = with_training_settings(tmp_path / "policy.onnx", **settings)
    target = {"hostname": "127.0.0.1", "port": 9, "certificate": tmp_path / "ca.pem", "credentials": pytest.fail}
    with pytest.raises(PolicyFileError, match="no settings of the task 'spot-handstand'") as caught:
        Deployer(load(path), path, target, out=tmp_path, command=[])
    assert all(name in str(caught.value) for name in settings)
    assert main(["deploy", str(path), "--simulation", "--seconds", "0.1", "--out", str(tmp_path)]) == 1
    assert "said by whoever drives it" in capsys.readouterr().err


def test_a_policy_file_may_say_what_its_task_was(tmp_path):
    path = with_training_settings(tmp_path / "policy.onnx", time_limit=7)
    settings = task_settings(load(path).config, path)
    assert settings["time_limit"] == 7 and "randomize" not in settings


def test_every_attempt_counts_and_clocks_and_limits_are_not_pooled(tmp_path, capsys):
    timed, still = ({"clock": clock, "limits": "practice"} for clock in ("realtime", "lockstep"))
    failed = {"success": False, "steps": 0, "time_to_stance": None, "longest_hold": 0.0, "attempts": 0}
    record(tmp_path / "a", "practice robot", timed)
    record(tmp_path / "b", "practice robot", timed, ended="take-over", mode="take-over: state_age", **failed)
    record(tmp_path / "c", "practice robot", timed, ended="refused", mode="refused: preflight", **failed)
    record(tmp_path / "d", "practice robot", still)
    record(tmp_path / "e", "practice robot", {**still, "limits": "robot"}, motors="confirmed off")
    assert main(["trials", str(tmp_path), "--out", str(tmp_path / "numbers.json")]) == 0
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert {name: group["trials"] for name, group in numbers.items()} == {
        "practice robot, realtime, practice limits": 3,
        "practice robot, lockstep, practice limits": 1,
        "practice robot, lockstep, robot limits": 1,
    }
    group = numbers["practice robot, realtime, practice limits"]
    assert (group["success"]["count"], group["success"]["of"]) == (1, 3)
    assert (group["driven"]["count"], group["success_driven"]["of"]) == (1, 1)
    assert group["modes"]["take-over: state_age"] == 1 and group["ended"]["refused"] == 1
    assert group["longest_hold"]["mean"] == 4.0  # of the one that was driven


class Failing:
    """The shipped policy, until it fails."""

    def __init__(self, error: BaseException, steps: int) -> None:
        self._policy, self._error, self._left = load(POLICY), error, steps

    def __getattr__(self, name):
        return getattr(self._policy, name)

    def __call__(self, observation):
        self._left -= 1
        if self._left < 0:
            raise self._error
        return self._policy(observation)


@pytest.mark.parametrize(
    ("error", "ended", "mode"),
    [
        (KeyboardInterrupt(), "interrupted", "interrupted"),
        (SystemExit(143), "interrupted", "interrupted"),  # as SIGTERM and SIGHUP end a program
        (RuntimeError("the policy broke"), "error", "error: RuntimeError"),
    ],
)
def test_a_trial_that_is_broken_off_is_a_trial_with_an_outcome(tmp_path, error, ended, mode):
    with (
        pytest.raises(type(error)),
        Deployer(Failing(error, 5), POLICY, {}, out=tmp_path, command=[]) as deployer,
    ):
        deployer.trial(seed=0, seconds=1.0)
    trial = read_trial(the_trial(tmp_path))
    assert (trial.outcome["ended"], trial.outcome["mode"]) == (ended, mode) and not trial.outcome["success"]
    assert trial.outcome["steps"] == 5 and trial.driven and trial.outcome["reason"]
    assert parquet.read_table(trial.folder / "steps.parquet").num_rows == 5


def test_a_robot_that_cannot_be_reached_is_a_trial_with_an_outcome(tmp_path, capsys):
    options = ["--hostname", "127.0.0.1", "--port", "9", "--stiffness", "60", "--damping", "2", "--out", str(tmp_path)]
    assert main(["deploy", str(POLICY), *options, "--despite-audit", DESPITE]) == 1
    trial = read_trial(the_trial(tmp_path))
    assert str(trial.folder) in capsys.readouterr().err.replace("\n", "")
    assert trial.outcome["mode"] == "refused: connection" and trial.outcome["motors"] == "never powered by us"
    assert trial.group == "robot, realtime, robot limits" and trial.metadata["commanded"] is None


@pytest.mark.slow
def test_a_take_over_that_fails_is_a_trial_with_an_outcome_and_motors_are_off(tmp_path):
    """The guard ends the take-over at once, by a limit that no take-over keeps."""
    envelopes = dict(PRACTICE_LIMITS.envelopes)
    envelopes["takeover"] = replace(envelopes["takeover"], reach=1e-6)
    with PracticeRobot(clock="lockstep") as robot, nothing_left():
        target = connection(robot, limits=replace(PRACTICE_LIMITS, envelopes=envelopes))
        with Deployer(load(POLICY), POLICY, target, out=tmp_path, command=[]) as deployer:
            folder, outcome = deployer.trial(seed=0)
            assert outcome.ended == "take-over" and outcome.guard["check"] == "reach"
        assert deployer.motors_off and robot.status()["motors"] == "off"
        trial = read_trial(folder)
        assert trial.outcome["mode"] == "take-over: reach" and trial.outcome["motors"] == "confirmed off"
        assert "reach" in trial.outcome["reason"] and "{" not in trial.outcome["reason"]
        names = [event["event"] for event in trial.events]
        assert names[0] == "armed" and "guard" in names and names[-1] == "closed"
        robot.inject("hot_motor")
        with Deployer(load(POLICY), POLICY, target, out=tmp_path, command=[]) as deployer:
            report = deployer.preflight()
            assert not report.ok and {item.name for item in report.items if item.ok is False} == {
                "hottest motor",
                "may be driven",
            }
            refused = read_trial(deployer.refuse(report, seed=1))
            assert refused.outcome["mode"] == "refused: preflight" and "fl_kn 95" in refused.outcome["reason"]
            _, outcome = deployer.trial(seed=1)  # in spite of it
            assert outcome.mode == "refused: before power" and "fl_kn at 95" in outcome.reason
        assert deployer.motors == "never powered by us" and robot.status()["motors"] == "off"
