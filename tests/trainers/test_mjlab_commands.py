"""The paper's pipeline by the same commands in mjlab itself, on a CPU, and mjlab's own train on our task."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("mjlab", reason="needs mjlab: make test-mjlab")
pytestmark = [pytest.mark.mjlab, pytest.mark.slow]

import torch  # noqa: E402
from mjlab.envs import ManagerBasedRlEnv  # noqa: E402
from mjlab.rl import RslRlVecEnvWrapper  # noqa: E402
from mjlab.scripts.train import TrainConfig, run_train  # noqa: E402
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg, load_runner_cls  # noqa: E402

from adc_wrappers.backends.spot_model import JOINT_NAMES  # noqa: E402
from adc_wrappers.cli import main  # noqa: E402
from adc_wrappers.core.actuators import to_numpy  # noqa: E402
from adc_wrappers.core.errors import CurriculumError  # noqa: E402
from adc_wrappers.envs.spot_mjlab.cfg import HANDSTAND_ID  # noqa: E402
from adc_wrappers.policy import load  # noqa: E402
from adc_wrappers.runs import RunFolder  # noqa: E402

SET = ("--set", "time_limit=6", "--device", "cpu")
SMALL = ("--recipe", "paper", "--num-envs", "2", "--ppo.hidden", "16", "--ppo.n-steps", "12", *SET)


def steps(iterations):
    return ("--steps", str(iterations * 12 * 2))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two iterations of the paper's recipe on two robots, and a third by another call."""
    folder = tmp_path_factory.mktemp("mjlab") / "run"
    arguments = ["train", "spot-handstand", "--backend", "mjlab", *SMALL, "--out", str(folder)]
    assert main([*arguments, *steps(2), "--eval-episodes", "0"]) == 0
    assert main([*arguments, *steps(3), "--eval-episodes", "2", "--resume"]) == 0
    return folder


def test_a_run_keeps_its_folder_and_resumes(run):
    folder = RunFolder.open(run)
    config = folder.config()
    assert (config["recipe"], config["backend"], config["settings"]["device"]) == ("paper", "mjlab", "cpu")
    rows = (run / "metrics.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in rows[1:]] == ["1", "2", "3"]
    assert folder.checkpoints.load_latest().json("state.json")["curriculum"]["iteration"] == 3


def test_an_evaluation_is_at_exactly_the_target_and_says_how_episodes_ended(run):
    assert main(["eval", str(run), "--episodes", "3", "--num-envs", "2"]) == 0
    summary = json.loads((run / "eval.json").read_text())
    assert summary["episodes"] == 3 and summary["at_target"]
    assert summary["stiffness"] == pytest.approx([40.0] * 12, rel=1e-6)
    assert summary["length_mean"] <= 6 and sum(summary["modes"].values()) == 3
    assert "orientation" in summary["reward_terms"]


def test_a_policy_file_has_our_joints_and_the_live_gains(run):
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
    arguments = ["study", "run", "spot-handstand", "--backend", "mjlab", *SMALL, *steps(1), "--out", str(out)]
    small = {"--conditions": "no_termination", "--seeds": "1", "--episodes": "2", "--eval-envs": "2", "--jobs": "1"}
    more = [word for option in small.items() for word in option] + ["--no-report"]
    assert main([*arguments, *more]) == 0
    summary = json.loads((out / "no_termination" / "seed0" / "eval.json").read_text())
    assert summary["episodes"] == 2


def test_k0_is_searched_for(tmp_path):
    arguments = ["select-k0", "spot-handstand", "--backend", "mjlab", *SMALL, *steps(1), "--out", str(tmp_path / "k0")]
    main([*arguments, "--max", "40", "--episodes", "2", "--eval-envs", "2"])
    (trial,) = json.loads((tmp_path / "k0" / "select_k0.json").read_text())["trials"]
    assert trial["stiffness"] == 40.0 and trial["target"]["episodes"] == 2


def test_a_film_is_asked_of_another_simulator(run, capsys):
    assert main(["play", str(run), "--out", str(run / "film.gif")]) != 0
    assert "--backend mujoco" in capsys.readouterr().err


def test_mjlab_finds_the_task_by_itself():
    """Whoever is imported first: the entry point is read while the other is half made."""
    code = "import {}\nfrom mjlab.tasks.registry import list_tasks\nprint(list_tasks())"
    firsts = ("mjlab", "adc_wrappers.envs.spot_mjlab", "adc_wrappers.backends.mjlab")
    commands = [[sys.executable, "-W", "ignore", "-c", code.format(first)] for first in firsts]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for command in commands]
    for process in processes:
        found, errors = process.communicate(timeout=300)
        assert HANDSTAND_ID in found and "Failed to load" not in errors, errors


def test_mjlabs_own_train_has_the_curriculum_and_its_play_the_target_gains(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    config = TrainConfig.from_task(HANDSTAND_ID)
    config.env.scene.num_envs, config.env.episode_length_s = 2, 0.07  # four steps
    config.agent.num_steps_per_env, config.agent.max_iterations = 8, 1
    run_train(HANDSTAND_ID, config, tmp_path)
    (file,) = tmp_path.glob("model_*.pt")
    infos = torch.load(file, weights_only=False)["infos"]
    assert infos["adc_curriculum"]["iteration"] == 1 and "env_state" in infos
    played = load_env_cfg(HANDSTAND_ID, play=True)
    played.scene.num_envs = 2
    env = RslRlVecEnvWrapper(ManagerBasedRlEnv(played, device="cpu"))
    agent = load_rl_cfg(HANDSTAND_ID)
    runner = load_runner_cls(HANDSTAND_ID)(env, dataclasses.asdict(agent), device="cpu")
    runner.load(str(file), load_cfg={"actor": True}, strict=True, map_location="cpu")
    assert to_numpy(env.unwrapped.actuator_backend.gains().stiffness) == pytest.approx(40.0, rel=1e-6)
    with pytest.raises(CurriculumError, match="Leave --video out"):
        load_runner_cls(HANDSTAND_ID)(env, dataclasses.asdict(agent), device="cpu")  # something is in between
    env.close()
