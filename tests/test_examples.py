"""Every example runs, in its short form, as a user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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


def test_the_readme_shows_the_example_backend_as_it_is():
    readme = (ROOT / "README.md").read_text()
    example = (ROOT / "examples" / "your_own_env.py").read_text()
    backend = re.search(r"class AntActuators:.*?(?=\n\n\ndef main)", example, re.DOTALL).group(0)
    assert backend in readme


def code_blocks():
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("index", range(len(code_blocks())))
def test_readme_code_runs(index, tmp_path):
    """Blocks build on each other as a reader reads them; this one runs after those before it."""
    script = tmp_path / "readme.py"
    script.write_text("\n".join(code_blocks()[: index + 1]))
    answer = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False
    )
    assert answer.returncode == 0, answer.stderr


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
