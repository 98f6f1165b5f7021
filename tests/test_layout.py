"""Layout: one import name, layers that point down, extras that exist."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from adc_wrappers.core.errors import install_command

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import rooms  # noqa: E402

SOURCES = sorted(
    path
    for folder in ("adc_wrappers", "backends", "envs", "examples", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
)


def imported(path: Path) -> set[str]:
    """Absolute module names that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module or "")
    return names


def test_sources_are_found():
    names = {path.relative_to(ROOT).as_posix() for path in SOURCES}
    assert {"adc_wrappers/core/curriculum.py", "backends/base.py", "envs/registry.py"} <= names


def test_no_source_is_ignored_by_git():
    """A rule in .gitignore that is too wide would leave modules out of every clone."""
    files = [path.relative_to(ROOT).as_posix() for path in SOURCES]
    answer = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"], input="\n".join(files), capture_output=True, text=True,
        cwd=ROOT, check=False,
    )  # fmt: skip
    assert answer.stdout == ""


@pytest.mark.parametrize("name", ["envs", "backends"])
def test_top_level_folders_are_links_in_the_package_and_no_modules_of_their_own(name):
    link = ROOT / "adc_wrappers" / name
    assert link.is_symlink() and link.readlink() == Path("..") / name
    for path in SOURCES:
        bare = {module for module in imported(path) if module.split(".")[0] == name}
        assert not bare, f"{path} imports {bare}"


RANKS = {"core": 0, "backends": 1, "envs": 2, "cli": 4}
"""Rooms from the bottom up; every other room of the library stands between the tasks and the command line."""


def rank(module: str) -> int:
    """How high a module stands; the package itself gathers the public names of the core and the tasks."""
    return RANKS.get(rooms.room_of(module), 3) if "." in module else RANKS["envs"]


def test_imports_point_down():
    """Relative imports, those inside functions and those for type checkers too."""
    graph = rooms.import_graph(ROOT, inner=True)
    assert "adc_wrappers.core.joints" in graph["adc_wrappers.core.config"]  # a relative one is seen
    up = {
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if other != "adc_wrappers" and rank(other) > rank(module)
    }
    assert not up


def test_no_modules_import_each_other_in_a_circle():
    import graphlib

    packages = {module for module in rooms.import_graph(ROOT) if "." in module}
    graph = {module: others & packages for module, others in rooms.import_graph(ROOT).items() if module in packages}
    list(graphlib.TopologicalSorter(graph).static_order())  # raises and names the circle


def test_importing_the_core_registers_nothing_and_loads_no_env():
    """The package itself registers ids, for ``gymnasium.make("adc_wrappers:ADC/…")``; the core without it does not."""
    code = (
        "import sys, types, gymnasium\n"
        "package = types.ModuleType('adc_wrappers'); package.__path__ = [sys.argv[1]]\n"
        "sys.modules['adc_wrappers'] = package\n"
        "before = set(gymnasium.registry)\n"
        "import adc_wrappers.core\n"
        "own = [name for name in sys.modules if name.startswith('adc_wrappers.')]\n"
        "print([n for n in own if not n.startswith('adc_wrappers.core')], set(gymnasium.registry) - before)"
    )
    package = str(ROOT / "adc_wrappers")
    answer = subprocess.run([sys.executable, "-c", code, package], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[] set()"


def test_the_core_needs_numpy_and_gymnasium_only():
    allowed = {"numpy", "gymnasium", "adc_wrappers", ""} | set(sys.stdlib_module_names)
    for path in SOURCES:
        if path.relative_to(ROOT).as_posix().startswith("adc_wrappers/core/"):
            foreign = {module.split(".")[0] for module in imported(path)} - allowed
            assert not foreign, f"{path} imports {foreign}"


def test_importing_the_library_loads_no_simulator_and_no_rl_library():
    heavy = ["torch", "mujoco", "pybullet", "stable_baselines3", "matplotlib", "PIL", "tyro"]
    code = f"import sys, adc_wrappers; print([m for m in {heavy} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "home"),
    [
        ('matplotlib.use("Agg"', "adc_wrappers/runs/pictures.py"),
        ("class DeterministicPolicy", "adc_wrappers/training/deterministic.py"),
        ('"steps_per_second":', "adc_wrappers/training/metrics.py"),
        ('"num_timesteps":', "adc_wrappers/training/resuming.py"),
    ],
)
def test_what_every_command_does_is_written_once(words, home):
    found = [path.relative_to(ROOT).as_posix() for path in SOURCES if words in path.read_text()]
    assert [name for name in found if name.startswith("adc_wrappers/")] == [home]


def test_every_extra_that_an_error_names_exists():
    import configparser
    import re

    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = set(config["options.extras_require"])
    training, robots = {"sb3", "rsl-rl", "rllib", "study"}, {"pybullet", "mujoco", "isaaclab", "spot"}
    assert training | robots | {"sysid", "viability", "docs", "dev", "all"} <= extras
    for path in SOURCES:
        for extra in re.findall(r'MissingExtraError\(\s*"[^"]+",\s*"([^"]+)"', path.read_text()):
            assert extra in extras, f"{path} names the extra {extra!r}"


def test_a_missing_package_names_its_extra():
    code = (
        "import sys; sys.modules['pybullet'] = None; sys.modules['stable_baselines3'] = None\n"
        "import adc_wrappers\n"
        "for act in (lambda: adc_wrappers.make_env('cartpole', backend='pybullet'),\n"
        "            lambda: __import__('adc_wrappers.sb3')):\n"
        "    try: act()\n"
        "    except ImportError as error: print(error)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert install_command("pybullet") in answer.stdout
    assert install_command("sb3") in answer.stdout
