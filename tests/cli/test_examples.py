"""Every example runs, in its short form, as a user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(name, *arguments, cwd):
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, arguments)]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.slow
def test_sb3_cartpole(tmp_path):
    out = run("sb3_cartpole.py", 4096, cwd=tmp_path)
    assert "adc/" in out
    stiffness = float(re.search(r"K came to ([\d.]+)", out).group(1))
    assert 6.25 <= stiffness < 36.0
    assert re.search(r"an episode lasts \d+ of 500 steps", out)


@pytest.mark.slow
def test_your_own_env(tmp_path):
    out = run("your_own_env.py", cwd=tmp_path)
    stiffness = float(re.search(r"'stiffness': ([\d.]+)", out).group(1))
    assert 40.0 <= stiffness < 60.0


@pytest.mark.slow
def test_resume(tmp_path):
    first = run("resume.py", tmp_path / "run", 4096, cwd=tmp_path)
    second = run("resume.py", tmp_path / "run", 2048, cwd=tmp_path)
    saved = re.search(r"saved at (\d+) steps and K = ([\d.]+)", first).groups()
    resumed = re.search(r"resumed at (\d+) steps and K = ([\d.]+)", second).groups()
    assert saved == resumed
    assert "saved at 6144 steps" in second


@pytest.mark.slow
def test_cleanrl_style(tmp_path):
    from adc_wrappers.policy import load

    words = ["--total-steps", 2048, "--num-envs", 8, "--num-steps", 64, "--eval-episodes", 8]
    out = run("cleanrl_style.py", *words, "--export", "policy.onnx", cwd=tmp_path)
    stiffness = [float(value) for value in re.findall(r"K\s+([\d.]+)  length", out)]
    assert len(stiffness) == 4 and stiffness == sorted(stiffness, reverse=True) and stiffness[-1] < 36.0
    assert "succeed" in out
    policy = load(tmp_path / "policy.onnx")
    assert policy.metadata.simulated_stiffness == (6.25,) and policy.steps == 2048
    assert policy.curriculum["iteration"] == 4


@pytest.mark.slow
def test_cleanrl_style_on_spot(tmp_path):
    words = ["--task", "spot-handstand", "--total-steps", 384, "--num-envs", 8, "--num-steps", 24]
    out = run("cleanrl_style.py", *words, "--epochs", 1, "--eval-episodes", 0, cwd=tmp_path)
    assert 40.0 <= float(re.search(r"K came to ([\d.]+)", out).group(1)) < 60.0


@pytest.mark.slow
def test_skrl_ppo(tmp_path):
    pytest.importorskip("skrl")
    import torch

    out = run("skrl_ppo.py", "--steps", 2048, "--num-envs", 8, "--num-steps", 64, "--out", "run", cwd=tmp_path)
    stiffness, iterations = re.search(r"K came to ([\d.]+) after (\d+) iterations", out).groups()
    assert 6.25 <= float(stiffness) < 36.0 and int(iterations) == 4
    saved = torch.load(tmp_path / "run" / "agent.pt", weights_only=True)
    assert saved["curriculum"]["iteration"] == 4
    assert any(path.name.startswith("events") for path in (tmp_path / "run").iterdir())


@pytest.mark.slow
def test_skrl_bootstraps_from_where_an_episode_was_cut(tmp_path, monkeypatch):
    """The value that skrl adds at a time limit is that of the last observation, not of the next episode's first."""
    pytest.importorskip("skrl")
    from examples import skrl_ppo

    monkeypatch.chdir(tmp_path)
    seen = []

    def remember(agent, **step):
        cut = (step["truncated"] & ~step["terminated"]).flatten().numpy()
        ended = cut.nonzero()[0]
        seen.extend((step["next_observations"][i].numpy(), step["infos"]["final_obs"][i]) for i in ended)
        skrl_record(agent, **step)

    skrl_record = skrl_ppo.PPO.record_transition
    monkeypatch.setattr(skrl_ppo.PPO, "record_transition", remember)
    make_env = skrl_ppo.make_env
    monkeypatch.setattr(skrl_ppo, "make_env", lambda *words, **options: make_env(*words, **options, time_limit=5))
    skrl_ppo.main(skrl_ppo.Args(steps=1024, num_envs=8, num_steps=64, eval_episodes=0, out=tmp_path / "run"))
    assert len(seen) >= 100 and all((used == last).all() for used, last in seen)


@pytest.mark.slow
def test_sb3_handstand(tmp_path):
    words = ["--steps", 768, "--num-envs", 8, "--hidden", 32, 32, "--eval-episodes", 2]
    out = run("sb3_handstand.py", *words, cwd=tmp_path)
    assert "adc/" in out
    assert 40.0 <= float(re.search(r"K came to ([\d.]+) after 768 steps", out).group(1)) < 60.0
    assert re.search(r"an episode lasts \d+ of 1000 steps", out)


def test_the_docs_show_the_example_backend_as_it_is():
    page = (ROOT / "docs" / "howto" / "your_own_robot.md").read_text()
    example = (ROOT / "examples" / "your_own_env.py").read_text()
    backend = re.search(r"class AntActuators:.*?(?=\n\n\ndef main)", example, re.DOTALL).group(0)
    assert backend in page


def test_the_example_backend_stays_about_twenty_lines():
    example = (ROOT / "examples" / "your_own_env.py").read_text()
    backend = re.search(r"class AntActuators:.*?(?=\n\n\ndef main)", example, re.DOTALL).group(0)
    lines = [line for line in backend.splitlines() if line.strip() and '"""' not in line]
    assert len(lines) <= 26


@pytest.mark.slow
def test_rsl_rl_handstand(tmp_path):
    out = run("rsl_rl_handstand.py", 2, cwd=tmp_path)
    stiffness = float(re.search(r"K came to ([\d.]+)", out).group(1))
    assert 40.0 < stiffness <= 60.0
    assert re.search(r"[\d.]+% of the time is spent in the handstand", out)
    assert list((tmp_path / "runs" / "rsl_rl_handstand").glob("model_*.pt"))


@pytest.mark.slow
def test_spot_rollout(tmp_path):
    pytest.importorskip("bosdyn.client")
    assert "in the stance" in run("spot_rollout.py", "--steps", 45, cwd=tmp_path)
