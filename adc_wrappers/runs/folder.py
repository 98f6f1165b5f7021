"""A run folder: everything that a training run reads and leaves behind, and what of it may be removed."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from adc_wrappers.core.errors import RunFolderError
from adc_wrappers.core.files import full_disk_explained, is_leftover, sync_folder, write_json
from adc_wrappers.core.reading import read_object

from .checkpoint import CheckpointStore
from .lock import LOCK_FILE, FolderLock
from .metrics import MetricsFile

__all__ = [
    "MARKER",
    "RunFolder",
    "RunFolderError",
    "check_removable",
    "entries_of_others",
    "has_begun",
    "is_run_folder",
    "mark",
    "remove_run",
    "source_commit",
]


MARKER = ".adc-run.json"
"""Says that a folder was made by this library; written before anything else."""

_FORMAT, _VERSION = "adc-run", 1
_FOLDERS = ("checkpoints", "plots", "tensorboard")
_FILES = re.compile(
    r"config\.json|command\.txt|versions\.json|metrics\.csv|model\.zip|policy\.onnx|film\.gif|wandb\.json|job\.json|done\.json"
    r"|eval(-[^/]+)?\.(json|csv)"
    r"|checkpoints/step_\d+\.ckpt"
    r"|plots/(curriculum|eval(-[^/]+)?)\.(png|csv)"
    r"|tensorboard/events\.out\.tfevents\.[^/]+"
)
"""What training, evaluation, export and studies write into a run folder."""

_PREPARATIONS = (LOCK_FILE, MARKER, "job.json")
"""What is there before a run begins, or after one whose process died while it began."""

_SHOWN = 12


def mark(folder: Path) -> None:
    """Say that a folder is a run's."""
    write_json(folder / MARKER, {"format": _FORMAT, "version": _VERSION})


def has_begun(folder: Path) -> bool:
    """Whether there is anything in a folder, beside what is there before a run begins."""
    if not folder.exists():
        return False
    return any(entry.name not in _PREPARATIONS and not is_leftover(entry.name) for entry in folder.iterdir())


def is_run_folder(folder: Path) -> bool:
    """Whether this library made a folder: it is marked, or it is a run of a version that did not mark them yet.

    Those are recognised by what only this library writes: its settings and its own version beside them.
    """
    marker = _json(folder / MARKER)
    if marker.get("format") == _FORMAT:
        return True
    config, versions = _json(folder / "config.json"), _json(folder / "versions.json")
    settings = all(isinstance(config.get(name), dict) for name in ("curriculum", "ppo", "settings"))
    return settings and {"task", "backend", "seed"} <= config.keys() and "adc-wrappers" in versions


def entries_of_others(folder: Path) -> list[str]:
    """Return what is in a folder that this library did not write, relative to it; links are never its own."""
    return sorted(
        path.relative_to(folder).as_posix() + ("/" if path.is_dir() and not path.is_symlink() else "")
        for path in _walk(folder)
        if not _is_own(path, folder)
    )


def remove_run(folder: Path) -> None:
    """Remove a run's files, if everything in the folder is a run's; the folder stays, and stays marked.

    Raises:
        RunFolderError: As :func:`check_removable`; nothing is removed.
    """
    check_removable(folder)
    mark(folder)  # a removal that is cut off can go on
    kept = (folder / LOCK_FILE, folder / MARKER)
    for path in sorted(_walk(folder), key=lambda path: len(path.parts), reverse=True):
        if path.is_dir():
            path.rmdir()
        elif path not in kept:
            path.unlink(missing_ok=True)
    sync_folder(folder)


def check_removable(folder: Path) -> None:
    """Refuse a folder that is not a run's, or not only.

    Raises:
        RunFolderError: The folder is not marked, or holds something else; says what.
    """
    if not is_run_folder(folder):
        found = _listed(sorted(path.name for path in folder.iterdir()))
        raise RunFolderError(
            f"{folder} is not a run folder that this library made (there is no {MARKER}, nor the settings and versions "
            f"of an older run), so it is not overwritten. It holds: {found}. Choose another folder (--out), or remove "
            "it yourself."
        )
    foreign = entries_of_others(folder)
    if foreign:
        raise RunFolderError(
            f"{folder} is a run folder, but holds what this library did not write: {_listed(foreign)}. Nothing was "
            "removed: move that away, or choose another folder (--out)."
        )


def _walk(folder: Path) -> list[Path]:
    """Return everything below a folder; links are not followed."""
    return [
        Path(root) / name for root, folders, files in os.walk(folder, followlinks=False) for name in (*folders, *files)
    ]


def _is_own(path: Path, folder: Path) -> bool:
    name = path.relative_to(folder).as_posix()
    if path.is_symlink():
        return False
    if path.is_dir():
        return name in _FOLDERS
    if name in (LOCK_FILE, MARKER) or _FILES.fullmatch(name):
        return True
    return is_leftover(path.name) and (path.parent == folder or path.parent.name in _FOLDERS)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; nothing where there is none that can be read."""
    try:
        return read_object(path, RunFolderError)
    except RunFolderError:
        return {}


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
