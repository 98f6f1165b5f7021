"""Wheel and sdist in fresh environments, without extras, on every supported Python that is on this machine."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
SOURCES = ("adc_wrappers", "backends", "envs", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")


@functools.cache
def interpreter(version: str) -> str | None:
    """A Python of this version: on the path, or among pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, root.glob(f"{version}.*/bin/python"))]
    for candidate in filter(None, candidates):
        code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
        answer = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return candidate
    return None


FOUND = [version for version in VERSIONS if interpreter(version)]


def test_this_python_is_among_them():
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in FOUND


def run(*words: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    answer = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, cwd=cwd, env=environment, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folder with wheel and sdist; the wheel is made from the sdist, as an index makes it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "build", "--outdir", out, source, cwd=source)
    return out


PACKAGED = {
    "adc_wrappers/envs/registry.py",
    "adc_wrappers/backends/base.py",
    "adc_wrappers/runs/folder.py",
    "adc_wrappers/py.typed",
    "adc_wrappers/study/conditions/adc.toml",
    "adc_wrappers/study/assets/page.js",
}


@pytest.mark.slow
def test_wheel_and_sdist_hold_real_files_of_one_name(built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert set(names) >= PACKAGED
    assert {name.split("/")[0].split("-")[0] for name in names} == {"adc_wrappers"}
    with tarfile.open(sdist) as archive:
        members = {member.name.split("/", 1)[-1]: member for member in archive.getmembers()}
    assert {name for name, member in members.items() if member.isfile()} >= PACKAGED
    assert not [name for name, member in members.items() if member.issym()]


CODE = """
import gymnasium, adc_wrappers
from adc_wrappers import ActuatorCurriculumWrapper, make_env
env = ActuatorCurriculumWrapper(make_env("cartpole", backend="analytic"), iteration_steps=8)
env.reset(seed=0); env.step(env.action_space.sample())
try:
    make_env("spot-handstand")
except ImportError as error:
    print(error)
print(adc_wrappers.__version__, adc_wrappers.__file__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("version", FOUND)
def test_the_wheel_alone_imports_lists_tasks_and_says_what_to_add(version, built, tmp_path):
    (wheel,) = built.glob("*.whl")
    run(interpreter(version), "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python, adc = tmp_path / "venv/bin/python", tmp_path / "venv/bin/adc"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-qq", "--no-compile", wheel, cwd=tmp_path)

    said = run(python, "-c", CODE, cwd=tmp_path)
    assert 'pip install "adc-wrappers[mujoco]"' in said
    assert str(tmp_path / "venv") in said and wheel.name.split("-")[1] in said
    assert "spot-handstand" in run(adc, "envs", cwd=tmp_path)
    advice = run(adc, "doctor", cwd=tmp_path)
    assert 'pip install "adc-wrappers[sb3]"' in advice and "https://download.pytorch.org/whl/cpu" in advice


def test_a_checkout_without_links_says_how_to_get_them(tmp_path):
    """As Git for Windows leaves it: a text file where the link should be."""
    ignore = shutil.ignore_patterns("envs", "backends", "__pycache__")
    shutil.copytree(ROOT / "adc_wrappers", tmp_path / "adc_wrappers", symlinks=True, ignore=ignore)
    for name in ("envs", "backends"):
        (tmp_path / "adc_wrappers" / name).write_text(f"../{name}")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    own = "[finder for finder in sys.meta_path if 'editable' not in repr(finder).lower()]"  # not this installation
    code = f"import sys; sys.meta_path[:] = {own}; import adc_wrappers"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, cwd=tmp_path, env=environment, check=False,
    )  # fmt: skip
    assert "git clone -c core.symlinks=true" in answer.stderr
