"""The paper's pipeline by the same commands in Isaac Lab itself, on a CPU: train, eval, export, select-k0, study."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("isaaclab", reason="needs Isaac Lab 3: make test-isaac")
pytestmark = [pytest.mark.isaac, pytest.mark.slow]

import isaac_helpers  # noqa: E402, F401 (one thread for PhysX)
from command_checks import (  # noqa: E402
    check_evaluation,
    check_no_film,
    check_policy_file,
    check_run,
    check_search,
    check_study,
    train_and_resume,
)

ENGINE = "physx" if importlib.util.find_spec("ovphysx") else "newton"
SET = ("--set", f"engine={ENGINE}", "source=generated", "time_limit=12", "--device", "cpu")
WORDS = ["spot-handstand", "--backend", "isaaclab", "--recipe", "paper", "--num-envs", "4", "--ppo.hidden", "16", *SET]
ITERATION = 24 * 4


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train_and_resume(["train", *WORDS], tmp_path_factory.mktemp("isaac") / "run", ITERATION)


def test_a_run_keeps_its_folder_and_resumes(run):
    check_run(run, "isaaclab")


def test_an_evaluation_is_at_exactly_the_target_and_says_how_episodes_ended(run):
    check_evaluation(run, num_envs=4, limit=12)


def test_a_policy_file_has_our_joints_and_the_live_gains(run):
    check_policy_file(run)


def test_a_study_trains_without_early_termination_too(tmp_path):
    check_study([*WORDS, "--steps", str(ITERATION)], tmp_path / "study", episodes=4)


def test_k0_is_searched_for(tmp_path):
    check_search([*WORDS, "--steps", str(ITERATION)], tmp_path / "k0", episodes=4)


def test_a_film_is_asked_of_another_simulator(run, capsys):
    check_no_film(run, capsys)


def test_the_script_for_isaac_labs_own_runner_trains_and_resumes(tmp_path):
    script = Path(__file__).parents[2] / "examples" / "isaaclab" / "train.py"
    words = ["--device", "cpu", "--num-envs", "4", "--engine", ENGINE, "--source", "generated", "--out", str(tmp_path)]
    for iterations in (1, 2):
        command = [sys.executable, "-W", "ignore", str(script), *words, "--iterations", str(iterations), "--resume"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert answer.returncode == 0, answer.stderr
        assert f"after {iterations} iterations" in answer.stdout
        assert "mean reward at the target gains" in answer.stdout
    assert f"resumed {tmp_path / 'model_1.pt'}" in answer.stdout
