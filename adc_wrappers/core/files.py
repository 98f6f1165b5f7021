"""Files that are either whole or not there, and a full disk in one sentence."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = [
    "DiskFullError",
    "full_disk_explained",
    "is_disk_full",
    "is_leftover",
    "make_folder",
    "sync_folder",
    "whole_file",
    "write_atomically",
    "write_json",
]

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF)
"""What file systems answer that cannot flush a folder (some network and FUSE ones)."""


class DiskFullError(OSError):
    """A file that could not be written because the disk, or the user's share of it, is full.

    Args:
        path: The file.
        advice: What is safe, and how to go on.
    """

    def __init__(self, path: Path, advice: str = "") -> None:
        super().__init__(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        self.path = Path(path)
        self.advice = advice

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes whole."""
        return type(self), (self.path, self.advice)

    def __str__(self) -> str:
        """Say which file, how much is free, and what to do."""
        text = f"{self.path} could not be written: the disk is full ({_free(self.path)})."
        return f"{text} {self.advice or 'Nothing half-written is left behind: make room and try again.'}"


def _free(path: Path) -> str:
    folder = next((parent for parent in path.absolute().parents if parent.is_dir()), Path("/"))
    return f"{shutil.disk_usage(folder).free / 2**20:,.1f} MiB free in {folder}"


def is_disk_full(error: OSError) -> bool:
    """Whether an error says that there is no room, on the disk or in the user's quota."""
    return error.errno in _FULL


@contextlib.contextmanager
def full_disk_explained(path: Path, advice: Callable[[], str] | None = None) -> Iterator[None]:
    """Turn the system's error of a full disk into a :class:`DiskFullError`; other errors pass.

    Args:
        path: The file that is named where the error names none.
        advice: Asked for what is safe and how to go on, once it has happened.
    """
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        file = Path(error.filename) if isinstance(error.filename, str) else path
        known = error.advice if isinstance(error, DiskFullError) else ""
        raise DiskFullError(file, known if advice is None else advice()) from error


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, so that a file that was moved there is still there after a power cut."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows has no such thing
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and what is missing above it, flushed to the disk."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(missing):
        sync_folder(path.parent)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to; then flush it to the disk and move it into place.

    A reader sees the old file or the new one, whatever happens in between; a power cut afterwards keeps the new one.
    The name ends as that of ``path`` does, for libraries that choose the format by it.
    """
    with full_disk_explained(path):
        make_folder(path.parent)
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part{path.suffix}")
        try:
            yield beside
            with beside.open("rb+") as file:
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        sync_folder(path.parent)


def is_leftover(name: str) -> bool:
    """Whether a file's name is one of :func:`whole_file`, left by a process that was killed while it wrote."""
    return name.startswith(".") and ".part" in (Path(name).suffix, Path(Path(name).stem).suffix)


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` as a whole file."""
    with whole_file(path) as beside:
        beside.write_bytes(content)


def write_json(path: Path, values: Any) -> None:
    """Write JSON, whole or not at all."""
    write_atomically(path, json.dumps(values, indent=2).encode() + b"\n")
