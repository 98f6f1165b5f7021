"""Checkpoints: one file each, written whole or not at all, and checked before they are used."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adc_wrappers.core.errors import CheckpointError
from adc_wrappers.core.files import write_atomically
from adc_wrappers.core.reading import parse_json

__all__ = ["Checkpoint", "CheckpointStore"]

_MANIFEST = "manifest.json"
_FORMAT = "adc-checkpoint"
_VERSION = 1
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError, NotImplementedError, RuntimeError, struct.error,
    OverflowError,
)  # fmt: skip
"""What zipfile raises for an archive that is damaged; a RuntimeError where it says that it is encrypted."""


@dataclass(frozen=True)
class Checkpoint:
    """The contents of one checkpoint."""

    path: Path
    """The file it came from."""

    step: int
    """Env steps at which it was taken."""

    files: dict[str, bytes]
    """Its parts by name."""

    def json(self, name: str) -> dict[str, Any]:
        """Return a JSON part.

        Raises:
            CheckpointError: It is missing or not a JSON object.
        """
        value = parse_json(self.part(name), f"{self.path}: {name}", CheckpointError)
        if not isinstance(value, dict):
            raise CheckpointError(f"{self.path}: {name}: expected a JSON object, got {type(value).__name__}.")
        return value

    def part(self, name: str) -> bytes:
        """Return a part's bytes.

        Raises:
            CheckpointError: It is missing.
        """
        if name not in self.files:
            raise CheckpointError(f"{self.path} lacks the part {name!r}; it is not a checkpoint of this trainer.")
        return self.files[name]


def _check_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse an archive that is larger inside than outside: this library compresses nothing."""
    if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
        raise CheckpointError(f"{path} is compressed; expected a checkpoint as this library writes it, which is not.")
    size, inside = path.stat().st_size, sum(info.file_size for info in archive.infolist())
    if inside > size:
        raise CheckpointError(f"{path} has {size} bytes and says that {inside} are inside; it is damaged.")


def _read_manifest(path: Path, content: bytes) -> dict[str, Any]:
    """Return what a checkpoint says about itself, if it is one of this library."""
    values: dict[str, Any] = parse_json(content, f"{path}: {_MANIFEST}", CheckpointError)
    found = (values.get("format"), values.get("version")) if isinstance(values, dict) else (None, None)
    if found != (_FORMAT, _VERSION):
        raise CheckpointError(f"{path}: expected {_FORMAT} version {_VERSION}, got {found[0]!r} version {found[1]!r}.")
    step, digests = values.get("step"), values.get("sha256")
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 2**63 or not isinstance(digests, dict):
        raise CheckpointError(f"{path}: {_MANIFEST} does not say the step and a digest of every part; it is damaged.")
    return values


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
        self.common: dict[str, bytes] = {}
        """Parts that every checkpoint gets: what the run was told and made for."""

    def paths(self) -> list[Path]:
        """Return the files, oldest first."""
        return sorted(self.folder.glob("step_*.ckpt"))

    def save(self, step: int, files: dict[str, bytes]) -> Path:
        """Write a checkpoint and remove the oldest."""
        files = {**self.common, **files}
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
                _check_sizes(path, archive)
                manifest = _read_manifest(path, archive.read(_MANIFEST))
                files = {name: archive.read(name) for name in manifest["sha256"]}
        except CheckpointError:
            raise
        except FileNotFoundError as error:
            raise CheckpointError(f"there is no checkpoint {path}.") from error
        except _ARCHIVE_ERRORS as error:
            raise CheckpointError(f"{path} is not a whole checkpoint ({error}).") from error
        for name, digest in manifest["sha256"].items():
            if hashlib.sha256(files[name]).hexdigest() != digest:
                raise CheckpointError(f"{path}: the part {name!r} is damaged.")
        return Checkpoint(path, manifest["step"], files)

    def load_latest(self) -> Checkpoint:
        """Read the newest checkpoint that is whole; a broken one is passed over with a warning."""
        for path in reversed(self.paths()):
            try:
                return self.load(path)
            except CheckpointError as error:
                warnings.warn(f"{error} Using the one before it.", stacklevel=2)
        raise CheckpointError(f"{self.folder} holds no whole checkpoint.")
