"""Numbers before and after a change: short commands at two commits, compared to the last digit.

    python benchmarks/unchanged.py cdfb242 --only cartpole            # that commit and this checkout
    python benchmarks/unchanged.py cdfb242 --new 5160011 --only spot  # two commits

Every command is run twice with the same seed, once with the sources of either tree. Compared are every number of every
table that it wrote but the clock's (metrics of each iteration, every episode of an evaluation at the target gains, the
tables of a study's report) and the parameters in the newest checkpoint of every run, bit by bit. What was found when
the rooms were merged is in ``benchmarks/unchanged.md``.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parents[1]
POLICY = Path("examples/policies/spot_handstand.onnx")

COMMANDS = {
    "cartpole, ten iterations of the demo (SB3, dummy, PyBullet)": (
        "train cartpole --steps 20480 --eval-episodes 20 --out {out}"
    ),
    "cartpole, recipe quick (SB3, batch, closed form)": (
        "train cartpole --recipe quick --steps 30000 --backend analytic --eval-episodes 50 --seed 3 --out {out}"
    ),
    "double-cartpole, 2 iterations (SB3, dummy, closed form)": (
        "train double-cartpole --steps 8192 --eval-episodes 4 --seed 3 --out {out}"
    ),
    "spot-handstand, 20 iterations (RSL-RL, batch, MuJoCo)": (
        "train spot-handstand --num-envs 32 --ppo.batch-size 256 --steps 20480 --eval-episodes 16 --seed 3 --out {out}"
    ),
    "spot-planar-handstand, 2 iterations (RSL-RL, batch, MuJoCo)": (
        "train spot-planar-handstand --steps 16384 --eval-episodes 16 --seed 3 --out {out}"
    ),
    "spot-handstand, the shipped policy evaluated (MuJoCo)": "eval {out}/policy.onnx --episodes 16 --seed 3",
    "cartpole, a study of three conditions and two seeds (SB3, closed form)": (
        "study run cartpole --recipe quick --backend analytic --conditions adc train_at_target noise --seeds 2 "
        "--steps 8192 --episodes 20 --jobs 1 --out {out}"
    ),
}
"""What is run, by what tables call it; ``{out}`` is the folder of results, which holds the shipped policy's file."""

_CLOCK = ("seconds", "steps_per_second", "fps", "time")


@contextmanager
def checked_out(commit: str | None, scratch: Path) -> Iterator[Path]:
    """A tree with a commit's sources, removed at the end; this checkout without a commit."""
    if commit is None:
        yield HERE
        return
    tree = scratch / f"tree-{commit}"
    subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(tree), commit], cwd=HERE, check=True)
    try:
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=HERE, check=True)


def run(tree: Path, command: str, folder: Path, policy: Path) -> None:
    """Run a command of ``adc`` with the sources of one tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "MUJOCO_GL": "egl", "SDL_VIDEODRIVER": "dummy"}
    if command.startswith("eval"):
        folder.mkdir(parents=True)
        shutil.copy(policy, folder / "policy.onnx")
    words = [sys.executable, "-m", "adc_wrappers.cli", *command.format(out=folder).split()]
    done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} in {tree} failed:\n{done.stdout}\n{done.stderr}")


def tables(folder: Path) -> dict[str, list[dict[str, str]]]:
    """Return the rows of every CSV below a folder by its path, without the columns that time something."""
    found = {}
    for path in sorted(folder.rglob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = [{k: v for k, v in row.items() if k not in _CLOCK} for row in csv.DictReader(file)]
        found[str(path.relative_to(folder))] = rows
    return found


def parameters(folder: Path) -> dict[str, torch.Tensor]:
    """Return every tensor in the newest checkpoint of every run below a folder, by run and name."""
    found: dict[str, torch.Tensor] = {}
    for checkpoints in sorted(folder.rglob("checkpoints")):
        newest = max(checkpoints.glob("*.ckpt"), key=lambda path: path.name)
        with zipfile.ZipFile(newest) as archive:
            content = archive.read("parameters.pt")
        run_name = str(checkpoints.parent.relative_to(folder))
        _flatten(run_name, torch.load(io.BytesIO(content), weights_only=True, map_location="cpu"), found)
    return found


def _flatten(name: str, value: Any, found: dict[str, torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found[name] = value
    elif isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{name}/{key}", inner, found)


def differences(old: Path, new: Path) -> list[str]:
    """Return what differs between the results of one command at two commits, in words."""
    before, after = tables(old), tables(new)
    found = [f"{name}: only {'before' if name in before else 'now'}" for name in sorted(before.keys() ^ after.keys())]
    for name in sorted(before.keys() & after.keys()):
        found += _of_tables(name, before[name], after[name])
    return found + _of_parameters(parameters(old), parameters(new))


def _of_tables(name: str, before: list[dict[str, str]], after: list[dict[str, str]]) -> list[str]:
    found = []
    if len(before) != len(after):
        found.append(f"{name}: {len(before)} rows, now {len(after)}")
    for number, (was, now) in enumerate(zip(before, after, strict=False)):
        keys = [key for key in was.keys() | now.keys() if was.get(key) != now.get(key)]
        if keys:
            values = ", ".join(f"{key} {was.get(key)} -> {now.get(key)}" for key in sorted(keys))
            found.append(f"{name}, row {number}: {values}")
            break
    return found


def _of_parameters(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> list[str]:
    if before.keys() != after.keys():
        return ["other parameters"]
    changed = [name for name, values in before.items() if not torch.equal(values, after[name])]
    return [f"parameters: {len(changed)} tensors differ, such as {changed[0]}"] if changed else []


def compared(folder: Path) -> int:
    """Return how many numbers of a command's results are compared."""
    cells = sum(len(row) for rows in tables(folder).values() for row in rows)
    return cells + sum(values.numel() for values in parameters(folder).values())


def compare(old: Path, new: Path, only: str, scratch: Path) -> Iterator[tuple[str, bool]]:
    """Run the commands whose name holds ``only`` in two trees; give each one's row and whether it differs."""
    for number, (name, command) in enumerate(COMMANDS.items()):
        if only not in name:
            continue
        folders = [scratch / which / str(number) for which in ("old", "new")]  # tables hold the folder's own name
        for tree, folder in zip((old, new), folders, strict=True):
            run(tree, command, folder, old / POLICY)
        found = differences(*folders)
        yield f"| {name} | {compared(folders[1])} | {'; '.join(found) or 'the same'} |", bool(found)


def describe(commit: str | None) -> str:
    """Return a commit's short name; of this checkout, with a mark if files differ from it."""
    words = ["git", "rev-parse", "--short", commit] if commit else ["git", "describe", "--always", "--dirty"]
    return subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Compare what every command computes and print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("commit", help="the commit to compare with")
    options.add_argument("--new", help="another commit in the place of this checkout")
    options.add_argument("--only", default="", help="part of a command's name")
    chosen = options.parse_args()
    began, failed = time.monotonic(), False
    print(
        f"| command | numbers compared | {describe(chosen.commit)} and {describe(chosen.new)} |\n|---|---:|---|",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with checked_out(chosen.commit, scratch) as old, checked_out(chosen.new, scratch) as new:
            for row, differs in compare(old, new, chosen.only, scratch):
                print(row, flush=True)
                failed = failed or differs
    print(f"\n{time.monotonic() - began:.0f} s")
    sys.exit(failed)


if __name__ == "__main__":
    main()
