"""The paper's pipeline by the same commands in Isaac Lab itself, on a CPU: train, resume, eval, export, study."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil

import pytest

pytest.importorskip("isaaclab", reason="needs Isaac Lab 3: make test-isaac")
pytestmark = [pytest.mark.isaac, pytest.mark.slow]

import isaac_helpers  # noqa: E402, F401 (one thread for PhysX)

from adc_wrappers.backends.spot_model import JOINT_NAMES  # noqa: E402
from adc_wrappers.cli import main  # noqa: E402
from adc_wrappers.policy import load  # noqa: E402
from adc_wrappers.runs import RunFolder  # noqa: E402

ENGINE = "physx" if importlib.util.find_spec("ovphysx") else "newton"
SET = ("--set", f"engine={ENGINE}", "source=generated", "time_limit=12", "--device", "cpu")
SMALL = ("--recipe", "paper", "--num-envs", "4", "--ppo.hidden", "16", *SET)


def steps(iterations):
    return ("--steps", str(iterations * 24 * 4))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two iterations of the paper's recipe on four robots, and a third by another call."""
    folder = tmp_path_factory.mktemp("isaac") / "run"
    arguments = ["train", "spot-handstand", "--backend", "isaaclab", *SMALL, "--out", str(folder)]
    assert main([*arguments, *steps(2), "--eval-episodes", "0"]) == 0
    assert main([*arguments, *steps(3), "--eval-episodes", "6", "--resume"]) == 0
    return folder


def test_a_run_keeps_its_folder_and_resumes(run):
    folder = RunFolder.open(run)
    config = folder.config()
    assert (config["recipe"], config["backend"], config["ppo"]["n_steps"]) == ("paper", "isaaclab", 24)
    rows = (run / "metrics.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in rows[1:]] == ["1", "2", "3"]
    assert folder.checkpoints.load_latest().json("state.json")["curriculum"]["iteration"] == 3


def test_an_evaluation_is_at_exactly_the_target_and_says_how_episodes_ended(run):
    assert main(["eval", str(run), "--episodes", "5", "--num-envs", "4"]) == 0
    summary = json.loads((run / "eval.json").read_text())
    assert summary["episodes"] == 5 and summary["at_target"]
    assert summary["stiffness"] == pytest.approx([40.0] * 12, rel=1e-6)
    assert summary["length_mean"] <= 12 and sum(summary["modes"].values()) == 5
    assert {"fell forward", "never lifted"} <= set(summary["modes"])
    assert "orientation" in summary["reward_terms"]


def test_a_policy_file_has_our_joints_and_the_live_gains(run):
    """Isaac Lab's engines order joints each their own way; the file has the table's order, by name."""
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, to compare the file with the policy")
    assert main(["export", str(run), "--out", str(run / "policy.onnx"), "--device", "cpu"]) == 0
    metadata = load(run / "policy.onnx").metadata
    assert metadata.joint_names == tuple(JOINT_NAMES)
    assert metadata.simulated_stiffness == pytest.approx((40.0,) * 12, rel=1e-5)
    assert metadata.action_scale == (0.9,) * 12
    keep = os.environ.get("ADC_KEEP_POLICY")  # for the second half, in an environment with MuJoCo 4
    if keep:
        shutil.copy(run / "policy.onnx", keep)


def test_a_study_trains_without_early_termination_too(tmp_path):
    out = tmp_path / "study"
    arguments = ["study", "run", "spot-handstand", "--backend", "isaaclab", *SMALL, *steps(1), "--out", str(out)]
    more = [
        "--conditions",
        "no_termination",
        "--seeds",
        "1",
        "--episodes",
        "4",
        "--eval-envs",
        "4",
        "--jobs",
        "1",
    ]
    assert main([*arguments, *more, "--no-report"]) == 0
    summary = json.loads((out / "no_termination" / "seed0" / "eval.json").read_text())
    assert summary["episodes"] == 4


def test_a_film_is_asked_of_another_simulator(run, capsys):
    assert main(["play", str(run), "--out", str(run / "film.gif")]) != 0
    assert "--backend mujoco" in capsys.readouterr().err
