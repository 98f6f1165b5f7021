"""A training that was stopped and resumed is the one that was not stopped, bit for bit."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from resume_helpers import ENVS, ITERATIONS, STEPS, Reporter, assert_same_run, run, tiny_config

from adc_wrappers import CurriculumConfig
from adc_wrappers.cli import main
from adc_wrappers.core.env_states import unpack_state
from adc_wrappers.envs.spot import SpotStandTask
from adc_wrappers.envs.spot.settings import FallCost
from adc_wrappers.envs.task_env import TaskEnv
from adc_wrappers.runs import CheckpointError, RunFolder
from adc_wrappers.training import ActionConfig, find_trainer, load_trained
from adc_wrappers.training.evaluating import EvaluationSetup, evaluate_policy

CASES = [
    ("cartpole", "analytic", "sb3", "batch"),
    ("cartpole", "analytic", "sb3", "dummy"),
    ("cartpole", "pybullet", "sb3", "dummy"),
    ("spot-handstand", "mujoco", "sb3", "batch"),
    ("spot-handstand", "mujoco", "sb3", "dummy"),
    ("spot-handstand", "pybullet", "sb3", "batch"),
    ("cartpole", "analytic", "rsl_rl", "batch"),
    ("cartpole", "pybullet", "rsl_rl", "batch"),
    ("spot-handstand", "mujoco", "rsl_rl", "batch"),
    ("spot-handstand", "pybullet", "rsl_rl", "batch"),
    pytest.param("cartpole", "analytic", "sb3", "subproc", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("task", "backend", "trainer", "workers"), CASES)
def test_a_stopped_run_resumes_to_the_same_end(tmp_path, task, backend, trainer, workers):
    """Stopped in the fifth iteration, it goes on from the checkpoint of the fourth."""
    config = tiny_config(task, backend, trainer, workers)
    if workers == "subproc":  # each env is a process that starts three times here: two are as good as three
        config = replace(config, ppo=replace(config.ppo, total_steps=ITERATIONS * 2 * STEPS, num_envs=2, batch_size=8))
    whole = run(config, tmp_path / "whole")
    run(config, tmp_path / "stopped", stop_at=5)
    resumed = run(config, tmp_path / "stopped", resume=True)
    assert_same_run(whole, resumed)


@pytest.mark.parametrize("backend", ["mujoco", "pybullet"])
def test_limiter_noise_latency_and_gain_factors_go_on_too(tmp_path, backend):
    """As the recipe for a robot trains, with all of its noise from the start."""
    config = tiny_config("spot-handstand", backend, "rsl_rl")
    config = replace(config, settings={**config.settings, "preset": "robot", "eases_in": False})
    whole = run(config, tmp_path / "whole")
    run(config, tmp_path / "stopped", stop_at=5)
    saved = RunFolder.open(tmp_path / "stopped").checkpoints.load_latest()
    task = unpack_state(saved.files["envs.json"], saved.files["envs.bin"])["envs"]["env"]["episodes"]["task"]
    assert task["limiter"]["change"].any() and task["sensing"]["age"].any()
    assert task["randomization"]["stiffness_factor"].std() > 0.0
    assert_same_run(whole, run(config, tmp_path / "stopped", resume=True))


@pytest.mark.parametrize("trainer", ["sb3", "rsl_rl"])
def test_a_finished_run_that_is_given_more_steps_is_the_longer_run(tmp_path, trainer):
    """The last checkpoint is between two that are due, and its learning rate has seen the last update."""
    config = tiny_config("spot-handstand", "pybullet", trainer)
    short = replace(config, ppo=replace(config.ppo, total_steps=config.ppo.total_steps * 3 // ITERATIONS))
    whole = run(config, tmp_path / "whole")
    run(short, tmp_path / "short")
    assert_same_run(whole, run(config, tmp_path / "short", resume=True))


@pytest.mark.parametrize(("trainer", "workers"), [("sb3", "batch"), ("sb3", "dummy"), ("rsl_rl", "batch")])
def test_stiffness_drawn_per_episode_and_action_noise_go_on_too(tmp_path, trainer, workers):
    config = tiny_config("cartpole", "analytic", trainer, workers)
    drawn = CurriculumConfig(start_stiffness=36.0, target_stiffness=6.25, driver="uniform", seed=5, length_max=30.0)
    config = replace(config, curriculum=drawn, actions=ActionConfig(noise_std=0.3, constant_torque=True))
    whole = run(config, tmp_path / "whole")
    run(config, tmp_path / "stopped", stop_at=5)
    assert_same_run(whole, run(config, tmp_path / "stopped", resume=True))


def test_a_fall_that_was_paid_is_not_paid_again(tmp_path):
    """Without early termination, robots that have fallen lie there when the checkpoint is taken."""
    config = replace(tiny_config("spot-handstand", "mujoco", "rsl_rl"), early_termination=False)
    config = replace(config, settings={**config.settings, "time_limit": 45})
    whole = run(config, tmp_path / "whole")
    run(config, tmp_path / "stopped", stop_at=5)
    saved = RunFolder.open(tmp_path / "stopped").checkpoints.load_latest()
    state = unpack_state(saved.files["envs.json"], saved.files["envs.bin"])
    assert state["envs"]["env"]["episodes"]["task"]["fell"].any()
    assert_same_run(whole, run(config, tmp_path / "stopped", resume=True))


def test_what_tasks_in_workers_have_learned_is_in_the_checkpoint(tmp_path, monkeypatch):
    """Also where the states of the envs cannot be saved and their episodes begin anew."""
    monkeypatch.setattr(TaskEnv, "env_state", lambda self: None)
    config = tiny_config("spot-handstand", "mujoco", "sb3", "dummy")
    config = replace(config, settings={**config.settings, "preset": "cpu"})
    loaded = []
    plain = SpotStandTask.load_state_dict
    monkeypatch.setattr(
        SpotStandTask, "load_state_dict", lambda task, state: (loaded.append(state), plain(task, state))
    )
    monkeypatch.setattr(FallCost, "note", lambda cost, holds: setattr(cost, "share", cost.share + 0.001))
    run(config, tmp_path / "stopped", stop_at=5)
    saved = RunFolder.open(tmp_path / "stopped").checkpoints.load_latest()
    assert "envs.json" not in saved.files and not loaded
    learned = saved.json("state.json")["task"]["envs"]
    assert learned == [{"stance_share": pytest.approx(4 * STEPS * 0.001)}] * ENVS
    run(config, tmp_path / "stopped", resume=True)
    assert loaded == learned


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from resume_helpers import ENVS, STEPS, run, tiny_config
from adc_wrappers.envs.episodes import EpisodeRunner

plain, steps = EpisodeRunner.step, 0

def step(self, actions):
    global steps
    steps += 1
    if steps == 5 * STEPS + 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(self, actions)

EpisodeRunner.step = step
run(tiny_config(*{words!r}, "batch"), {path!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("cartpole", "pybullet", "sb3"), ("spot-handstand", "mujoco", "rsl_rl")], ids=["sb3", "rsl_rl"]
)
def test_a_run_killed_in_the_midst_of_an_iteration_resumes_to_the_same_end(tmp_path, words):
    """Killed by itself at the third step of the sixth iteration; starting a process takes the time."""
    script = KILLED.format(tests=str(Path(__file__).parent), words=words, path=str(tmp_path / "killed"))
    process = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=300)
    assert process.returncode == -signal.SIGKILL, process.stderr
    config = tiny_config(*words, "batch")
    killed = RunFolder.open(tmp_path / "killed")
    assert killed.metrics.read()["iteration"] == [1, 2, 3, 4, 5]
    assert killed.checkpoints.load_latest().json("state.json")["curriculum"]["iteration"] == 4
    assert_same_run(run(config, tmp_path / "whole"), run(config, killed.path, resume=True))


@pytest.mark.parametrize("trainer", ["sb3", "rsl_rl"])
def test_an_evaluation_in_the_midst_of_a_training_changes_nothing(tmp_path, trainer):
    config = tiny_config("cartpole", "analytic", trainer)

    class Evaluating(Reporter):
        def update(self, steps, row):
            if row["iteration"] == 4:
                policy = load_trained(folder)
                evaluate_policy(policy, EvaluationSetup.of(config), episodes=3, seed=8)

    folder = RunFolder.create(tmp_path / "evaluated", config.to_dict())
    find_trainer(trainer).train(config, folder, resume=False, reporter=Evaluating())
    assert_same_run(run(config, tmp_path / "whole"), folder)


@pytest.mark.parametrize("trainer", ["sb3", "rsl_rl"])
def test_a_checkpoint_from_before_envs_were_saved_still_loads(tmp_path, trainer, caplog):
    config = tiny_config("cartpole", "analytic", trainer)
    config = replace(config, ppo=replace(config.ppo, hidden=(4,)))
    folder = RunFolder.create(tmp_path / "run", config.to_dict())
    folder.checkpoints.folder.mkdir()
    name = f"checkpoint_without_envs_{trainer}.ckpt"
    shutil.copy(Path(__file__).parents[1] / "data" / name, folder.checkpoints.folder / "step_000000000096.ckpt")
    before = folder.checkpoints.load_latest()
    assert "envs.json" not in before.files
    run(config, folder.path, resume=True)
    assert folder.metrics.read()["iteration"] == [5, 6, 7]
    assert "begin anew" in caplog.text
    assert "envs.json" in folder.checkpoints.load_latest().files
    averages = folder.metrics.read()["episode_length_ema"]
    assert averages[:2] == [before.json("state.json")["curriculum"]["length_ema"]] * 2  # no env is through in 16 steps


@pytest.mark.parametrize("trainer", ["sb3", "rsl_rl"])
def test_a_checkpoint_of_other_envs_is_refused(tmp_path, trainer):
    config = tiny_config("cartpole", "analytic", trainer)
    folder = run(config, tmp_path / "run", stop_at=5)
    checkpoint = folder.checkpoints.load_latest()
    changed = checkpoint.files["envs.json"].replace(b'"elapsed"', b'"elapsad"')
    folder.checkpoints.save(checkpoint.step, {**checkpoint.files, "envs.json": changed})
    with pytest.raises(CheckpointError, match="expected 'elapsed' as ndarray"):
        run(config, folder.path, resume=True)


def test_the_command_line_goes_on_after_its_evaluation_as_if_there_had_been_none(tmp_path):
    words = [
        "train",
        "cartpole",
        "--backend",
        "analytic",
        "--workers",
        "dummy",
        "--num-envs",
        "3",
        "--set",
        "time_limit=19",
    ]
    words += ["--ppo.n-steps", "8", "--ppo.batch-size", "12", "--ppo.hidden", "8", "--seed", "2"]

    def adc(name: str, steps: int, *more: str) -> RunFolder:
        assert main([*words, "--steps", str(steps), "--out", str(tmp_path / name), *more]) == 0
        return RunFolder.open(tmp_path / name)

    whole = adc("whole", 168, "--eval-episodes", "0")
    adc("resumed", 72, "--eval-episodes", "5")
    assert_same_run(whole, adc("resumed", 168, "--eval-episodes", "5", "--resume"))
