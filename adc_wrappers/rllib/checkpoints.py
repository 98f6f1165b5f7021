"""Checkpoints with the curriculum in them, whole or not there."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["keep_in_checkpoints", "latest_checkpoint", "save_checkpoint"]

_KEY = "adc_curriculum"
_PATTERN = "checkpoint_*"


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

    Load it with ``Algorithm.from_checkpoint(path)``. RLlib's checkpoints are pickles: load only your own.
    """
    parent = Path(folder).resolve()
    parent.mkdir(parents=True, exist_ok=True)
    path = parent / f"checkpoint_{algorithm.training_iteration:06d}"
    beside = parent / f".{path.name}.part"
    shutil.rmtree(beside, ignore_errors=True)
    algorithm.save_to_path(beside)
    shutil.rmtree(path, ignore_errors=True)
    beside.rename(path)
    return path


def latest_checkpoint(folder: str | Path) -> Path | None:
    """Return the last whole checkpoint that :func:`save_checkpoint` left in ``folder``; None if there is none."""
    return max(Path(folder).resolve().glob(_PATTERN), default=None)
