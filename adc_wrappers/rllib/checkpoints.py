"""Checkpoints with the curriculum in them, whole or not there."""

from __future__ import annotations

import json
import shutil
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adc_wrappers.core.files import make_folder, sync_folder
from adc_wrappers.runs import RunFolderError

__all__ = ["keep_in_checkpoints", "latest_checkpoint", "save_checkpoint"]

_KEY = "adc_curriculum"
_PATTERN = "checkpoint_*"
_RLLIB_FILES = ("metadata.json", "class_and_ctor_args.pkl")
"""What RLlib writes into every checkpoint."""


def keep_in_checkpoints(
    algorithm: Any, state: Callable[[], dict[str, Any]], restore: Callable[[dict[str, Any]], None]
) -> None:
    """Let every checkpoint of ``algorithm`` hold the curriculum, however it is written and read.

    RLlib's callback for a loaded checkpoint is not called by ``from_checkpoint`` and ``restore_from_path``, and
    callbacks have no state of their own; all ways go through ``get_state`` and ``set_state``.

    Args:
        algorithm: The algorithm.
        state: Returns the curriculum's state.
        restore: Called with a state that was read.
    """
    plain_get, plain_set = algorithm.get_state, algorithm.set_state

    def get_state(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**plain_get(*args, **kwargs), _KEY: json.dumps(state())}

    def set_state(values: dict[str, Any]) -> None:
        plain_set({name: value for name, value in values.items() if name != _KEY})
        if _KEY in values:
            restore(json.loads(values[_KEY]))
        else:
            warnings.warn("the checkpoint has no curriculum in it: the stiffness stays where it is.", stacklevel=2)

    algorithm.get_state, algorithm.set_state = get_state, set_state


def save_checkpoint(algorithm: Any, folder: str | Path) -> Path:
    """Save ``algorithm`` as ``folder/checkpoint_<iteration>``: a run killed while saving leaves no half of one.

    One of the same iteration is replaced if it is a checkpoint. Load it with ``Algorithm.from_checkpoint(path)``.
    RLlib's checkpoints are pickles: load only your own.

    Raises:
        RunFolderError: A folder of that name is there which is no checkpoint of RLlib's.
    """
    parent = Path(folder).resolve()
    path = parent / f"checkpoint_{algorithm.training_iteration:06d}"
    if path.exists() and not all((path / name).is_file() for name in _RLLIB_FILES):
        found = ", ".join(sorted(entry.name for entry in path.iterdir())[:12]) if path.is_dir() else "it is a file"
        raise RunFolderError(
            f"{path} is in the way and no checkpoint of RLlib's ({found or 'it is empty'}), so it is not replaced. "
            "Move it away, or save into another folder."
        )
    make_folder(parent)
    stem = f".{path.name}.{uuid.uuid4().hex[:12]}"
    beside, old = parent / f"{stem}.part", parent / f"{stem}.old.part"
    algorithm.save_to_path(beside)
    if path.exists():
        path.rename(old)
    beside.rename(path)
    sync_folder(parent)
    shutil.rmtree(old, ignore_errors=True)
    return path


def latest_checkpoint(folder: str | Path) -> Path | None:
    """Return the last whole checkpoint that :func:`save_checkpoint` left in ``folder``; None if there is none."""
    return max(Path(folder).resolve().glob(_PATTERN), default=None)
