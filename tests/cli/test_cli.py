"""The adc command, as a user types it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adc_wrappers.cli import main
from adc_wrappers.cli.options import parse_settings
from adc_wrappers.cli.train import Train
from adc_wrappers.core.errors import install_command
from adc_wrappers.runs import RunFolder

QUICK = ["--backend", "analytic", "--workers", "batch", "--num-envs", "4", "--ppo.n-steps", "32", "--ppo.hidden", "8"]


def adc(*words):
    return main([str(word) for word in words])


def train(path, steps=512, *more):
    return adc("train", "cartpole", *QUICK, "--steps", steps, "--out", path, "--eval-episodes", 4, *more)


def test_train_leaves_a_complete_run_folder(tmp_path, capsys):
    run = tmp_path / "run"
    assert train(run) == 0
    names = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    assert {
        "config.json", "command.txt", "versions.json", "metrics.csv", "model.zip", "eval.json", "eval.csv",
        "plots/curriculum.png", "plots/curriculum.csv",
    } <= names  # fmt: skip
    assert any(name.startswith("tensorboard/events") for name in names)
    columns = RunFolder.open(run).metrics.read()
    assert columns["iteration"] == [1, 2, 3, 4] and columns["steps"][-1] == 512
    evaluation = json.loads((run / "eval.json").read_text())
    assert evaluation["stiffness"] == [6.25] and evaluation["episodes"] == 4
    out = capsys.readouterr().out
    assert "K 36.0 → 6.25" in out and "steps/s" in out and str(run) in out


def test_eval_plot_and_play_work_on_a_run(tmp_path, capsys):
    run, other = tmp_path / "run", tmp_path / "other"
    train(run)
    train(other, 256, "--seed", 1)
    assert adc("eval", run, "--episodes", 7) == 0
    assert json.loads((run / "eval.json").read_text())["episodes"] == 7
    assert adc("plot", run, other, "--out", tmp_path / "both.png") == 0
    assert (tmp_path / "both.png").stat().st_size > 10_000
    assert {line.split(",")[0] for line in (tmp_path / "both.csv").read_text().splitlines()} == {"run", "other"}
    assert adc("play", run, "--out", tmp_path / "film.gif", "--seconds", 0.5) == 0
    assert (tmp_path / "film.gif").read_bytes()[:3] == b"GIF"
    assert adc("play", run, "--episodes", 1) == 0  # a window, on the dummy driver
    assert "episode of" in capsys.readouterr().out


def test_eval_elsewhere_has_files_of_its_own_and_says_what_differs(tmp_path, capsys):
    run = tmp_path / "run"
    train(run)
    kept = (run / "eval.json").read_text()
    words = ["--backend", "pybullet", "--stiffness", 20, "--set", "time_limit=60", "--episodes", 4, "--num-envs", 2]
    assert adc("eval", run, *words) == 0
    out = capsys.readouterr().out
    assert "in pybullet (trained in analytic), 2 at a time, at K = 20, which is NOT the target (6.25)" in out
    assert "how episodes ended" in out and "reward term" in out
    name = "eval-pybullet-time_limit=60-K20"
    summary = json.loads((run / f"{name}.json").read_text())
    assert summary["stiffness"] == [20.0] and summary["length_mean"] <= 60 and summary["num_envs"] == 2
    assert len((run / f"{name}.csv").read_text().splitlines()) == 5
    assert (run / "plots" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    assert (run / "eval.json").read_text() == kept
    assert adc("eval", run, "--episodes", 4, "--no-picture") == 0
    assert json.loads((run / "eval.json").read_text())["trained"]["steps"] == 512
    assert not (run / "plots" / "eval.png").exists()
    assert adc("eval", run, "--randomize", "--no-randomize") == 1
    assert "contradict" in capsys.readouterr().err
    assert adc("eval", run, "--no-randomize") == 1
    assert "the task 'cartpole' has no setting 'randomize'" in capsys.readouterr().err


def test_a_policy_file_is_evaluated_into_a_folder_beside_it(tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    run = tmp_path / "run"
    train(run)
    assert adc("export", run, "--out", tmp_path / "pole.onnx") == 0
    assert adc("eval", tmp_path / "pole.onnx", "--episodes", 4, "--no-picture") == 0
    assert adc("eval", run, "--episodes", 4, "--no-picture") == 0
    theirs, ours = (json.loads((path / "eval.json").read_text()) for path in (tmp_path / "pole-eval", run))
    assert theirs["modes"] == ours["modes"] and theirs["length_mean"] == ours["length_mean"]


def test_plots_show_success_where_there_is_any(tmp_path):
    import imageio.v2 as imageio

    shapes = []
    for name, success in (("never", [0.0, 0.0]), ("some", [0.0, 0.3]), ("old", None)):
        folder = RunFolder.create(tmp_path / name, {"curriculum": {"start_stiffness": 60.0, "target_stiffness": 40.0}})
        for i in (1, 2):
            row = {"iteration": i, "steps": 100 * i, "stiffness": 60.0 - i, "progress": 0.1}
            row |= {"episode_length_ema": 5.0 * i, "episode_length_mean": 9.0 * i}
            folder.metrics.append(row | ({} if success is None else {"success_ema": success[i - 1]}))
        assert adc("plot", folder.path) == 0
        shapes.append(imageio.imread(folder.plots / "curriculum.png").shape)
    assert shapes[0] == shapes[2] and shapes[1][0] > shapes[0][0]
    assert adc("plot", *(tmp_path / name for name in ("some", "old")), "--out", tmp_path / "both.png") == 0
    assert "nan" in (tmp_path / "both.csv").read_text().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["dummy", "subproc"])
def test_workers_train_under_one_curriculum(tmp_path, workers):
    run = tmp_path / "run"
    words = ["--backend", "pybullet", "--workers", workers, "--num-envs", 2, "--ppo.n-steps", 64, "--ppo.hidden", 8]
    assert adc("train", "cartpole", *words, "--steps", 512, "--out", run, "--eval-episodes", 2) == 0
    columns = RunFolder.open(run).metrics.read()
    assert columns["steps"][-1] == 512 and columns["stiffness"][-1] < 36.0


def test_resume_goes_on_and_may_be_given_more_steps(tmp_path):
    run = tmp_path / "run"
    train(run, 256)
    before = RunFolder.open(run).checkpoints.load_latest().json("state.json")["curriculum"]
    assert adc("train", "cartpole", "--out", run, "--resume", "--steps", 512, "--eval-episodes", 0) == 0
    columns = RunFolder.open(run).metrics.read()
    assert columns["iteration"] == [1, 2, 3, 4]
    assert columns["episode_length_ema"][1] == before["length_ema"]
    assert (run / "command.txt").read_text().count("\n") == 2


def test_a_resumed_run_keeps_its_settings(tmp_path, capsys):
    run = tmp_path / "run"
    train(run, 128)
    assert adc("train", "cartpole", "--out", run, "--resume", "--curriculum.ema", 0.5) == 1
    assert "a resumed run keeps its settings" in capsys.readouterr().err
    assert adc("train", "cartpole", "--out", run, "--resume", "--seed", 5) == 1
    assert "seed: was 0, asked 5" in capsys.readouterr().err
    assert adc("train", "cartpole", "--out", run, "--resume", "--recipe", "paper") == 1
    assert "recipe: was None, asked 'paper'" in capsys.readouterr().err


def test_a_run_that_exists_is_not_replaced_unless_told(tmp_path, capsys):
    run = tmp_path / "run"
    train(run, 128)
    assert train(run, 128) == 1
    assert "--resume" in capsys.readouterr().err
    assert train(run, 128, "--overwrite") == 0
    assert train(run, 128, "--overwrite", "--resume") == 1


def test_options_reach_the_run(tmp_path):
    run = tmp_path / "run"
    options = ["--curriculum.driver", "time", "--curriculum.hold-share", "0.5", "--set", "start_angle=0.05"]
    assert train(run, 512, *options) == 0
    config = RunFolder.open(run).config()
    assert config["curriculum"]["total_iterations"] == 4 and config["settings"] == {"start_angle": 0.05}
    assert RunFolder.open(run).metrics.read()["progress"] == [0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["trian", "cartpole"], 2, "Did you mean 'train'"),
        (["train", "cartpol"], 1, "Did you mean 'cartpole'"),
        (["train", "cartpole", "--backend", "bullet"], 1, "Did you mean 'pybullet'"),
        (["train", "cartpole", "--set", "start_angel=1"], 1, "Did you mean 'start_angle'"),
        (["train", "cartpole", "--set", "start_angle"], 1, "name=value"),
        (["train", "cartpole", "--curriculum.driver", "succes"], 1, "Did you mean 'success'"),
        (["train", "cartpole", "--curriculum.start-stiffness", "-5"], 1, "expected positive"),
        (["train", "cartpole", "--curriculum.start-stiffness", "2"], 1, "allow_softer_start"),
        (["train", "cartpole", "--steps", "-5"], 1, "ppo.total_steps: expected a positive count, got -5."),
        (["train", "cartpole", "--set", "start_angle=abc"], 1, "start_angle: expected a number, got 'abc'"),
        (["eval", "nowhere"], 1, "not a run folder"),
        (["plot", "nowhere"], 1, "not a run folder"),
        (["play", "nowhere", "--out", "film.avi"], 1, ".gif or .mp4"),
    ],
)
def test_misuse_gets_one_message_and_leaves_nothing(tmp_path, monkeypatch, capsys, words, code, message):
    monkeypatch.chdir(tmp_path)
    assert main(words) == code
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not list(tmp_path.iterdir())


def test_a_mistyped_option_gets_the_nearest(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "cartpole", "--seeed", "3"])
    assert stop.value.code == 2
    assert "--seed" in capsys.readouterr().err


def test_envs_and_doctor_say_what_there_is(capsys):
    assert main(["envs"]) == 0
    out = capsys.readouterr().out
    assert "cartpole" in out and "pybullet, analytic" in out and "start_angle" in out
    assert main(["doctor"]) == 0
    assert "stable-baselines3" in capsys.readouterr().out


def test_doctor_names_the_extra_of_a_missing_package(monkeypatch, capsys):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pybullet" else find(name))
    assert main(["doctor"]) == 0
    assert f"pybullet, for the PyBullet backend: {install_command('pybullet')}" in capsys.readouterr().out


def test_settings_are_parsed():
    assert parse_settings(("a=1", "b-c=0.5", "d=text")) == {"a": 1, "b_c": 0.5, "d": "text"}


# --- a run that is killed --------------------------------------------------------------------------------------------


def start(run: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "adc_wrappers.cli", "train", "cartpole", *QUICK, "--steps", "200000"]
    return subprocess.Popen(
        [*command, "--out", str(run), "--eval-episodes", "0", *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )


def wait_for(condition, seconds=300.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_run_killed_at_a_random_moment_resumes_with_the_same_curriculum(tmp_path, seed):
    run = tmp_path / "run"
    process = start(run)
    folder = RunFolder(run)
    wait_for(lambda: len(folder.checkpoints.paths()) >= 2)
    time.sleep(random.Random(seed).uniform(0.0, 1.0))  # any moment will do: in a rollout, an update, a write
    process.send_signal(signal.SIGKILL)
    process.wait()

    saved = folder.checkpoints.load_latest()
    curriculum = saved.json("state.json")["curriculum"]
    assert curriculum["iteration"] >= 1
    if seed == 0:  # the kill may also have hit the disk: the newest file is cut in half, the one before it counts
        newest = folder.checkpoints.paths()[-1]
        newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
        with pytest.warns(UserWarning, match="Using the one before"):
            saved = folder.checkpoints.load_latest()
        curriculum = saved.json("state.json")["curriculum"]
    rows_before = folder.metrics.read()

    steps = saved.step + 3 * 4 * 32
    assert train_until(run, steps) == 0
    rows = folder.metrics.read()
    done = curriculum["iteration"]
    assert rows["iteration"] == list(range(1, done + 4))
    for name in ("stiffness", "progress", "episode_length_ema"):
        assert rows[name][:done] == rows_before[name][:done]
    assert rows["episode_length_ema"][done - 1] == curriculum["length_ema"]
    totals_mean, eta = rows["episode_length_mean"][done], 0.05
    if totals_mean == totals_mean:  # an episode was completed in the first iteration after the resume
        expected = (1 - eta) * curriculum["length_ema"] + eta * totals_mean
        assert rows["episode_length_ema"][done] == pytest.approx(expected)


def train_until(run: Path, steps: int) -> int:
    return adc("train", "cartpole", "--out", run, "--resume", "--steps", steps, "--eval-episodes", 0)


@pytest.mark.slow
def test_a_run_killed_before_its_first_checkpoint_starts_anew(tmp_path):
    run = tmp_path / "run"
    process = start(run, "--checkpoint-every", "1000")
    folder = RunFolder(run)
    wait_for(lambda: len(folder.metrics.read().get("iteration", [])) >= 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not folder.checkpoints.paths()
    assert train_until(run, 256) == 0
    assert folder.metrics.read()["iteration"] == [1, 2]


def test_resume_without_a_run_fits_the_schedule_to_the_steps(tmp_path):
    """A script may always say --resume: the first time it is a new run, whose hold at the target belongs to its end."""
    words = ["train", "cartpole", "--recipe", "quick", "--steps", "2048", "--eval-episodes", "0", "--resume"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["backend"] == "analytic" and config["curriculum"]["hold_share"] == 0.4
    assert config["curriculum"]["total_iterations"] == 2


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "spot-handstand-mujoco-episode_length-seed0"),
        ({"recipe": "success"}, "spot-handstand-mujoco-success-seed0"),
        ({"recipe": "success", "curriculum": {"driver": "time"}}, "spot-handstand-mujoco-time-seed0"),
    ],
)
def test_a_run_is_named_after_what_drives_it(options, name):
    assert Train(task="spot-handstand", **options)._default_out().name == name
