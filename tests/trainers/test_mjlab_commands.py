"""The paper's pipeline by the same commands in mjlab itself, on a CPU, and mjlab's own train on our task."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

pytest.importorskip("mjlab", reason="needs mjlab: make test-mjlab")
pytestmark = [pytest.mark.mjlab, pytest.mark.slow]

import torch  # noqa: E402
from command_checks import (  # noqa: E402
    check_evaluation,
    check_no_film,
    check_policy_file,
    check_run,
    check_search,
    check_study,
    train_and_resume,
)
from mjlab.envs import ManagerBasedRlEnv  # noqa: E402
from mjlab.rl import RslRlVecEnvWrapper  # noqa: E402
from mjlab.scripts.train import TrainConfig, run_train  # noqa: E402
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg, load_runner_cls  # noqa: E402
from rank_helpers import answers_of  # noqa: E402

from adc_wrappers.core.actuators import to_numpy  # noqa: E402
from adc_wrappers.core.errors import CurriculumError  # noqa: E402
from adc_wrappers.envs.spot_mjlab.cfg import HANDSTAND_ID  # noqa: E402

SET = ("--set", "time_limit=6", "--device", "cpu")
SMALL = ("--num-envs", "2", "--ppo.hidden", "16", "--ppo.n-steps", "12", *SET)
WORDS = ["spot-handstand", "--backend", "mjlab", "--recipe", "paper", *SMALL]
ITERATION = 12 * 2


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train_and_resume(["train", *WORDS], tmp_path_factory.mktemp("mjlab") / "run", ITERATION)


def test_a_run_keeps_its_folder_and_resumes(run):
    check_run(run, "mjlab")


def test_an_evaluation_is_at_exactly_the_target_and_says_how_episodes_ended(run):
    check_evaluation(run, num_envs=2, limit=6)


def test_a_policy_file_has_our_joints_and_the_live_gains(run):
    check_policy_file(run)


def test_a_study_trains_without_early_termination_too(tmp_path):
    check_study([*WORDS, "--steps", str(ITERATION)], tmp_path / "study", episodes=2)


def test_k0_is_searched_for(tmp_path):
    check_search([*WORDS, "--steps", str(ITERATION)], tmp_path / "k0", episodes=2)


def test_a_film_is_asked_of_another_simulator(run, capsys):
    check_no_film(run, capsys)


def test_mjlab_finds_the_task_by_itself():
    """Whoever is imported first: the entry point is read while the other is half made."""
    code = "import {}\nfrom mjlab.tasks.registry import list_tasks\nprint(list_tasks())"
    firsts = ("mjlab", "adc_wrappers.envs.spot_mjlab", "adc_wrappers.backends.mjlab")
    commands = [[sys.executable, "-W", "ignore", "-c", code.format(first)] for first in firsts]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for command in commands]
    for found, errors in answers_of(processes, 300.0):
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
