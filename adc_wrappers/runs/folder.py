"""A run folder: everything that a training run reads and leaves behind."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from adc_wrappers.core.files import full_disk_explained, write_json
from adc_wrappers.core.reading import read_object

from .checkpoint import CheckpointStore
from .errors import RunFolderError
from .lock import FolderLock
from .metrics import MetricsFile
from .ownership import check_removable, has_begun, mark, remove_run

__all__ = ["RunFolder", "RunFolderError", "source_commit"]

_PACKAGES = ("adc-wrappers", "gymnasium", "numpy", "torch", "stable-baselines3", "pybullet", "mujoco")


class RunFolder:
    """Paths and small files of one run.

    - ``config.json``: every setting, ``command.txt``: how it was started, ``versions.json``: with what;
    - ``metrics.csv``: one row per iteration, ``tensorboard/``: the same and the trainer's own;
    - ``.adc-run.json``: the mark of this library, ``run.lock``: who trains here, while somebody does;
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
        """Make a new run folder and write what is known at the start.

        Raises:
            RunFolderError: The folder is in the way, in use, or holds what a run did not write.
        """
        folder = cls(path)
        folder.check_free(overwrite=overwrite)
        with folder.lock():
            folder.check_free(overwrite=overwrite)  # again: somebody may have begun in between
            if has_begun(folder.path):
                remove_run(folder.path)
            mark(folder.path)
            folder.write_json("config.json", config)
            folder.write_json("versions.json", _versions())
            folder.log_command()
        return folder

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a folder in which no run can begin, before anything is written.

        Raises:
            RunFolderError: It is in the way; or, to be overwritten, it holds what a run did not write.
        """
        if not has_begun(self.path):
            return
        if overwrite:
            check_removable(self.path)
            return
        raise RunFolderError(
            f"{self.path} exists. Go on with it (--resume), replace it (--overwrite), or choose another (--out)."
        )

    def lock(self) -> FolderLock:
        """Return the lock that everybody holds who trains here: ``with folder.lock():``."""
        return FolderLock(self.path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run folder that exists."""
        folder = cls(path)
        if not folder.config_file.exists():
            raise RunFolderError(f"{path} is not a run folder: there is no config.json. Runs are made by `adc train`.")
        return folder

    def config(self) -> dict[str, Any]:
        """Return the run's settings."""
        return read_object(self.config_file, RunFolderError)

    def log_command(self) -> None:
        """Append the command line that this process was started with."""
        path = self.path / "command.txt"
        with full_disk_explained(path), path.open("a") as file:
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
