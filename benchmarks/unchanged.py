"""Whether a change leaves trainings as they were: short ones at another commit and here, compared to the last digit.

    python benchmarks/unchanged.py 9993c3e

Every training is run twice with the same command and seed, once with the sources of the other commit and once with
those of this checkout. Compared are every number of ``metrics.csv`` but the clock's, the parameters in the newest
checkpoint bit by bit, and every episode of the evaluation at the target gains.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parents[1]

TRAININGS = {
    "cartpole, recipe quick (SB3, batch, closed form)": (
        "cartpole --recipe quick --steps 30000 --backend analytic --eval-episodes 50"
    ),
    "cartpole, default (SB3, dummy, PyBullet)": "cartpole --steps 20480 --eval-episodes 20",
    "double-cartpole, default (SB3, dummy, closed form)": "double-cartpole --steps 20480 --eval-episodes 20",
    "spot-handstand, default (RSL-RL, batch, MuJoCo)": "spot-handstand --steps 16384 --eval-episodes 16",
    "spot-planar-handstand, default (RSL-RL, batch, MuJoCo)": "spot-planar-handstand --steps 16384 --eval-episodes 16",
}
_CLOCK = ("seconds", "steps_per_second", "fps", "time")


def run(tree: Path, command: str, folder: Path) -> None:
    """Train with the sources of one tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "MUJOCO_GL": "egl", "SDL_VIDEODRIVER": "dummy"}
    words = [sys.executable, "-m", "adc_wrappers.cli", "train", *command.split(), "--seed", "3", "--out", str(folder)]
    done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} in {tree} failed:\n{done.stdout}\n{done.stderr}")


def table(path: Path) -> list[dict[str, str]]:
    """Return a CSV's rows without the columns that time it."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{k: v for k, v in row.items() if k not in _CLOCK} for row in csv.DictReader(file)]


def parameters(folder: Path) -> dict[str, torch.Tensor]:
    """Return every tensor in the newest checkpoint's model by name."""
    newest = max((folder / "checkpoints").glob("*.ckpt"), key=lambda path: path.name)
    found: dict[str, torch.Tensor] = {}
    with zipfile.ZipFile(newest) as archive:
        content = archive.read("parameters.pt")
    _flatten("", torch.load(io.BytesIO(content), weights_only=True, map_location="cpu"), found)
    return found


def _flatten(name: str, value: Any, found: dict[str, torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found[name] = value
    elif isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{name}/{key}", inner, found)


def differences(old: Path, new: Path) -> list[str]:
    """Return what differs between two runs, in words."""
    found = []
    for name in ("metrics.csv", "eval.csv"):
        before, after = table(old / name), table(new / name)
        if len(before) != len(after):
            found.append(f"{name}: {len(before)} rows, now {len(after)}")
        for number, (was, now) in enumerate(zip(before, after, strict=False)):
            keys = [key for key in was if was[key] != now.get(key)]
            if keys:
                found.append(f"{name}, row {number}: " + ", ".join(f"{k} {was[k]} -> {now.get(k)}" for k in keys))
                break
    before_parameters, after_parameters = parameters(old), parameters(new)
    if before_parameters.keys() != after_parameters.keys():
        found.append("other parameters")
    else:
        changed = [k for k, v in before_parameters.items() if not torch.equal(v, after_parameters[k])]
        found += [f"parameters: {len(changed)} tensors differ, such as {changed[0]}"] if changed else []
    return found


def main() -> None:
    """Compare every training and print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("commit", help="the commit to compare with")
    options.add_argument("--only", default="", help="part of a training's name")
    chosen = options.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), chosen.commit], cwd=HERE, check=True)
        try:
            print(f"| training | iterations | numbers compared | against {chosen.commit} |\n|---|---:|---:|---|")
            for number, (name, command) in enumerate(TRAININGS.items()):
                if chosen.only not in name:
                    continue
                old, new = Path(scratch) / f"old{number}", Path(scratch) / f"new{number}"
                run(tree, command, old)
                run(HERE, command, new)
                found = differences(old, new)
                failed = failed or bool(found)
                rows = table(new / "metrics.csv")
                count = sum(len(row) for row in (*rows, *table(new / "eval.csv")))
                count += sum(values.numel() for values in parameters(new).values())
                print(f"| {name} | {len(rows)} | {count} | {'; '.join(found) or 'the same'} |", flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=HERE, check=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
