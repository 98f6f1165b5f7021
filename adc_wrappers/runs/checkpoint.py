"""Checkpoints: one file each, written whole or not at all, and checked before they are used."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adc_wrappers.core.files import write_atomically

__all__ = ["Checkpoint", "CheckpointError", "CheckpointStore"]

_MANIFEST = "manifest.json"
_FORMAT = "adc-checkpoint"
_VERSION = 1


class CheckpointError(RuntimeError):
    """A checkpoint that is broken, foreign, or missing."""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds."""

    path: Path
    """The file it came from."""

    step: int
    """Env steps at which it was taken."""

    files: dict[str, bytes]
    """Its parts by name."""

    def json(self, name: str) -> dict[str, Any]:
        """Return a JSON part."""
        value: dict[str, Any] = json.loads(self.files[name])
        return value


class CheckpointStore:
    """The checkpoints of one run, the newest few of which are kept.

    Args:
        folder: Where they are.
        keep: How many are kept; at least two, so that a broken one can be passed over.
    """

    def __init__(self, folder: Path, keep: int = 3) -> None:
        if keep < 2:
            raise ValueError(f"keep: expected at least 2, so that a broken checkpoint can be passed over; got {keep}.")
        self.folder = folder
        self.keep = keep

    def paths(self) -> list[Path]:
        """Return the files, oldest first."""
        return sorted(self.folder.glob("step_*.ckpt"))

    def save(self, step: int, files: dict[str, bytes]) -> Path:
        """Write a checkpoint and remove the oldest."""
        path = self.folder / f"step_{step:012d}.ckpt"
        manifest = {
            "format": _FORMAT,
            "version": _VERSION,
            "step": step,
            "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
            archive.writestr(_MANIFEST, json.dumps(manifest, indent=1))
        write_atomically(path, buffer.getvalue())
        for old in self.paths()[: -self.keep]:
            old.unlink()
        return path

    def load(self, path: Path) -> Checkpoint:
        """Read one checkpoint and check every byte of it."""
        try:
            with zipfile.ZipFile(path) as archive:
                manifest = json.loads(archive.read(_MANIFEST))
                files = {name: archive.read(name) for name in manifest["sha256"]}
        except FileNotFoundError as error:
            raise CheckpointError(f"there is no checkpoint {path}.") from error
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError, NotImplementedError) as error:
            raise CheckpointError(f"{path} is not a whole checkpoint ({error}).") from error
        if manifest.get("format") != _FORMAT or manifest.get("version") != _VERSION:
            raise CheckpointError(
                f"{path}: expected {_FORMAT} version {_VERSION}, got {manifest.get('format')!r} "
                f"version {manifest.get('version')!r}."
            )
        for name, digest in manifest["sha256"].items():
            if hashlib.sha256(files[name]).hexdigest() != digest:
                raise CheckpointError(f"{path}: the part {name!r} is damaged.")
        return Checkpoint(path, int(manifest["step"]), files)

    def load_latest(self) -> Checkpoint:
        """Read the newest checkpoint that is whole; a broken one is passed over with a warning."""
        for path in reversed(self.paths()):
            try:
                return self.load(path)
            except CheckpointError as error:
                warnings.warn(f"{error} Using the one before it.", stacklevel=2)
        raise CheckpointError(f"{self.folder} holds no whole checkpoint.")
