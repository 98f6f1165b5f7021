"""The library's rooms: how many files they have, how long these are, who imports whom, how many a step goes through.

    python benchmarks/rooms.py                      # this tree: table, and the graph as docs/img/rooms.png
    python benchmarks/rooms.py --before cdfb242     # and another commit beside it

An arrow of the picture is an import at the top of a module; its width is the number of such imports. Files of a step
are counted by a profiler hook while a wrapped env of four Spots makes one step, and while it closes one iteration.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
PICTURE = HERE / "docs" / "img" / "rooms.png"
_FOLDERS = ("adc_wrappers", "backends", "envs")

LEVELS = (
    ("cli",),
    ("study", "deploy", "audit", "gains", "hub", "viewing", "rllib", "export"),
    ("sb3", "rsl_rl", "sysid", "viability", "spot_sim", "feasibility", "testing"),
    ("training", "policy", "runs", "trajectories"),
    ("envs",),
    ("backends",),
    ("core",),
)
"""Where rooms stand in the picture, from top to bottom."""


def library_files(root: Path) -> list[Path]:
    """Return the library's modules below a tree's root, each once although two folders are linked."""
    found = (path for folder in _FOLDERS for path in (root / folder).rglob("*.py"))
    return sorted(path for path in found if not any(parent.is_symlink() for parent in path.parents))


def module_name(root: Path, path: Path) -> str:
    """Return the name under which a file of the library is imported."""
    parts = path.relative_to(root).with_suffix("").parts
    full = parts if parts[0] == "adc_wrappers" else ("adc_wrappers", *parts)
    return ".".join(full[:-1] if full[-1] == "__init__" else full)


def _statements(nodes: Iterable[ast.stmt], *, inner: bool) -> Iterable[ast.Import | ast.ImportFrom]:
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not inner:
            continue
        elif isinstance(node, ast.Try | ast.If) or (inner and hasattr(node, "body")):
            yield from _statements(node.body, inner=inner)
            yield from _statements(getattr(node, "orelse", []), inner=inner)


def imported_modules(root: Path, path: Path, known: set[str], *, inner: bool = False) -> set[str]:
    """Return the library's modules that a file imports, relative imports resolved.

    Args:
        root: Root of the tree.
        path: The file.
        known: Names of the library's modules.
        inner: Count imports inside functions and for type checkers too.
    """
    name = module_name(root, path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8")).body, inner=inner):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known
            continue
        parts = package.split(".")
        base = parts[: len(parts) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        for alias in node.names:
            inside = f"{module}.{alias.name}"
            found |= {inside if inside in known else module} & known
    return found - {name}


def import_graph(root: Path, *, inner: bool = False) -> dict[str, set[str]]:
    """Return which module imports which."""
    files = {module_name(root, path): path for path in library_files(root)}
    return {name: imported_modules(root, path, set(files), inner=inner) for name, path in files.items()}


def room_of(module: str) -> str:
    """Return the room that a module belongs to: its first folder in the package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def sizes(root: Path) -> dict[str, float]:
    """Return the figures of a tree; ``__init__`` files are not counted."""
    lengths = [len(p.read_text(encoding="utf-8").splitlines()) for p in library_files(root) if p.name != "__init__.py"]
    tests = [path.parent for path in (root / "tests").rglob("test_*.py")]
    return {
        "files": len(lengths),
        "median length": statistics.median(lengths),
        "under 60 lines": sum(length < 60 for length in lengths),
        "over 300 lines": sum(length > 300 for length in lengths),
        "most test files in one folder": max(Counter(tests).values()),
    }


_HOPS = """
import json, sys
import numpy as np
from adc_wrappers import ActuatorCurriculumWrapper, make_env
env = ActuatorCurriculumWrapper(make_env("spot-handstand", backend="mujoco", num_envs=4))
env.reset(seed=0)
action = np.zeros((4, 12))
for _ in range(3):
    env.step(action)
def files_of(act):
    found, calls = set(), 0
    def hook(frame, event, argument):
        nonlocal calls
        if event == "call" and "adc_wrappers" in frame.f_globals.get("__name__", ""):
            found.add(frame.f_globals["__name__"]); calls += 1
    sys.setprofile(hook)
    try:
        act()
    finally:
        sys.setprofile(None)
    return [len(found), calls]
print(json.dumps([files_of(lambda: env.step(action)), files_of(env.end_iteration)]))
"""


def hops(root: Path) -> dict[str, int]:
    """Return how many files and calls one step and one closed iteration go through."""
    environment = {**os.environ, "PYTHONPATH": str(root), "MUJOCO_GL": "egl"}
    done = subprocess.run(
        [sys.executable, "-c", _HOPS],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    (step_files, step_calls), (files, calls) = json.loads(done.stdout)
    return {
        "files of one step": step_files,
        "calls of one step": step_calls,
        "files of one iteration's end": files,
        "calls of one iteration's end": calls,
    }


def draw(graph: dict[str, set[str]], path: Path) -> None:
    """Draw who imports whom, room by room."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    counts = Counter(room_of(name) for name in graph if "." in name)
    arrows = Counter(
        (room_of(name), room_of(other))
        for name, others in graph.items()
        for other in others
        if room_of(name) and room_of(other) and room_of(name) != room_of(other)
    )
    places = {
        room: (10.0 * (i + 1) / (len(level) + 1), 1.4 * (len(LEVELS) - row))
        for row, level in enumerate(LEVELS)
        for i, room in enumerate(level)
    }
    figure, axes = plt.subplots(figsize=(9.5, 9.5), layout="constrained")
    for (start, end), number in sorted(arrows.items()):
        (x0, y0), (x1, y1) = places[start], places[end]
        axes.annotate(
            "", (x1, y1 + 0.25), (x0, y0 - 0.25),
            arrowprops={"arrowstyle": "-|>", "lw": 0.4 + 0.12 * number**0.8, "color": "#4a6fa5", "alpha": 0.45},
        )  # fmt: skip
    for room, (x, y) in places.items():
        box = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": "#20344f"}
        axes.text(x, y, f"{room}\n{counts[room]}", ha="center", va="center", fontsize=10, bbox=box, zorder=3)
    axes.set(xlim=(0, 10), ylim=(0.6, 1.4 * len(LEVELS) + 0.7), title="Rooms, their files, and who imports whom")
    axes.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Print the table and draw the graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="a commit to compare with")
    options = parser.parse_args()
    columns = {}
    if options.before:
        with tempfile.TemporaryDirectory() as scratch:
            tree = Path(scratch) / "tree"
            subprocess.run(
                ["git", "worktree", "add", "-q", "--detach", str(tree), options.before], cwd=HERE, check=True
            )
            try:
                columns[options.before] = {**sizes(tree), **hops(tree)}
            finally:
                subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=HERE, check=True)
    columns["now"] = {**sizes(HERE), **hops(HERE)}
    print("| | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns))
    for row in columns["now"]:
        print(f"| {row} | " + " | ".join(f"{column[row]:g}" for column in columns.values()) + " |")
    draw(import_graph(HERE), PICTURE)
    print(f"\npicture {PICTURE.relative_to(HERE)}")


if __name__ == "__main__":
    main()
