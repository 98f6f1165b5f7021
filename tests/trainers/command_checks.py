"""Checks of what the commands leave behind after a short training of Spot in a simulator of tensors, each alike."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.cli import main
from adc_wrappers.policy import load
from adc_wrappers.runs import RunFolder


def train_and_resume(words: list[str], folder: Path, iteration: int) -> Path:
    """Two iterations, and a third by another call, which evaluates."""
    arguments = [*words, "--out", str(folder)]
    assert main([*arguments, "--steps", str(2 * iteration), "--eval-episodes", "0"]) == 0
    assert main([*arguments, "--steps", str(3 * iteration), "--eval-episodes", "4", "--resume"]) == 0
    return folder


def check_run(run: Path, simulator: str) -> None:
    """Three iterations are there, and the last is in the newest checkpoint."""
    folder = RunFolder.open(run)
    config = folder.config()
    assert (config["recipe"], config["backend"], config["settings"]["device"]) == ("paper", simulator, "cpu")
    rows = (run / "metrics.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in rows[1:]] == ["1", "2", "3"]
    assert folder.checkpoints.load_latest().json("state.json")["curriculum"]["iteration"] == 3


def check_evaluation(run: Path, *, num_envs: int, limit: int) -> None:
    """It is at exactly the target and says how episodes ended."""
    assert main(["eval", str(run), "--episodes", "5", "--num-envs", str(num_envs)]) == 0
    summary = json.loads((run / "eval.json").read_text())
    assert summary["episodes"] == 5 and summary["at_target"]
    assert summary["stiffness"] == pytest.approx([40.0] * 12, rel=1e-6)
    assert summary["length_mean"] <= limit and sum(summary["modes"].values()) == 5
    assert {"fell forward", "never lifted"} <= set(summary["modes"])
    assert "orientation" in summary["reward_terms"]


def check_policy_file(run: Path) -> None:
    """It has the table's joints by name, whatever the engine's order, and the live gains."""
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, to compare the file with the policy")
    assert main(["export", str(run), "--out", str(run / "policy.onnx"), "--device", "cpu"]) == 0
    metadata = load(run / "policy.onnx").metadata
    assert metadata.joint_names == tuple(JOINT_NAMES)
    assert metadata.simulated_stiffness == pytest.approx((40.0,) * 12, rel=1e-5)
    assert metadata.action_scale == (0.9,) * 12
    keep = os.environ.get("ADC_KEEP_POLICY")  # for the second half, in an environment with MuJoCo 4
    if keep:
        shutil.copy(run / "policy.onnx", keep)


def check_study(words: list[str], out: Path, episodes: int) -> None:
    """A study of one run without early termination."""
    small = {
        "--conditions": "no_termination",
        "--seeds": 1,
        "--episodes": episodes,
        "--eval-envs": episodes,
        "--jobs": 1,
    }
    more = [str(word) for option in small.items() for word in option] + ["--no-report", "--out", str(out)]
    assert main(["study", "run", *words, *more]) == 0
    summary = json.loads((out / "no_termination" / "seed0" / "eval.json").read_text())
    assert summary["episodes"] == episodes


def check_search(words: list[str], out: Path, episodes: int) -> None:
    """A search for K0 of one stiffness, which finds none."""
    small = {"--max": 40, "--episodes": episodes, "--eval-envs": episodes, "--out": out}
    main(["select-k0", *words, *(str(word) for option in small.items() for word in option)])
    (trial,) = json.loads((out / "select_k0.json").read_text())["trials"]
    assert trial["stiffness"] == 40.0 and trial["target"]["episodes"] == episodes


def check_no_film(run: Path, capsys: Any) -> None:
    """It is asked of another simulator."""
    assert main(["play", str(run), "--out", str(run / "film.gif")]) != 0
    assert "--backend mujoco" in capsys.readouterr().err
