"""A run folder: everything that a training run reads and leaves behind."""

from __future__ import annotations

import json
import platform
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from adc_wrappers.core.files import write_json

from .checkpoint import CheckpointStore
from .metrics import MetricsFile

__all__ = ["RunFolder", "RunFolderError", "source_commit"]

_PACKAGES = ("adc-wrappers", "gymnasium", "numpy", "torch", "stable-baselines3", "pybullet", "mujoco")


class RunFolderError(RuntimeError):
    """A run folder that is missing, foreign, or in the way."""


class RunFolder:
    """Paths and small files of one run.

    - ``config.json``: every setting, ``command.txt``: how it was started, ``versions.json``: with what;
    - ``metrics.csv``: one row per iteration, ``tensorboard/``: the same and the trainer's own;
    - ``checkpoints/``, ``plots/``, ``eval.json``, ``eval.csv``, and ``eval-….json``, ``eval-….csv`` of evaluations that
      differ from the training.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.checkpoints = CheckpointStore(self.path / "checkpoints")
        self.metrics = MetricsFile(self.path / "metrics.csv")
        self.tensorboard = self.path / "tensorboard"
        self.plots = self.path / "plots"

    @classmethod
    def create(cls, path: Path, config: dict[str, Any], *, overwrite: bool = False) -> RunFolder:
        """Make a new run folder and write what is known at the start."""
        folder = cls(path)
        if folder.path.exists() and any(folder.path.iterdir()):
            if not overwrite:
                raise RunFolderError(
                    f"{path} exists. Go on with it (--resume), replace it (--overwrite), or choose another (--out)."
                )
            if not folder.config_file.exists():
                raise RunFolderError(f"{path} is not a run folder (no config.json); it is not overwritten.")
            shutil.rmtree(folder.path)
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.write_json("config.json", config)
        folder.write_json("versions.json", _versions())
        folder.log_command()
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run folder that exists."""
        folder = cls(path)
        if not folder.config_file.exists():
            raise RunFolderError(f"{path} is not a run folder: there is no config.json. Runs are made by `adc train`.")
        return folder

    def config(self) -> dict[str, Any]:
        """Return the run's settings."""
        values: dict[str, Any] = json.loads(self.config_file.read_text())
        return values

    def log_command(self) -> None:
        """Append the command line that this process was started with."""
        with (self.path / "command.txt").open("a") as file:
            file.write(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) + "\n")

    def write_json(self, name: str, values: Any) -> Path:
        """Write a JSON file into the folder."""
        path = self.path / name
        write_json(path, values)
        return path


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    commit = source_commit()
    if commit:
        found["commit"] = commit
    return found


def source_commit() -> str | None:
    """Return the commit of the library's source tree, marked if it has changes; None outside a checkout."""
    source = Path(__file__).resolve().parent
    command = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None
