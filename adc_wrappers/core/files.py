"""Files that are either whole or not there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["write_atomically", "write_json"]


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` beside ``path``, flush it to the disk, and move it into place.

    A reader sees the old file or the new one, whatever happens in between.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_json(path: Path, values: Any) -> None:
    """Write JSON, whole or not at all."""
    write_atomically(path, json.dumps(values, indent=2).encode() + b"\n")
