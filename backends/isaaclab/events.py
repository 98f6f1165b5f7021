"""Isaac Lab events that write gains, found before they fight the curriculum."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from typing import Any

from adc_wrappers.backends.tensor_gains import COMBINE
from adc_wrappers.core.errors import BackendError

__all__ = ["check_gain_events", "find_gain_events"]

_WRITER = "randomize_actuator_gains"
_COMBINE = COMBINE.format(backend="isaaclab")


def find_gain_events(
    env: Any, asset: str, joints: Collection[int] | None = None, count: int = 0
) -> Iterator[tuple[str, str]]:
    """Yield mode and name of every event term that writes actuator gains of ``asset``.

    Args:
        env: Isaac Lab's env.
        asset: The robot's name in the scene.
        joints: Only events that write to one of these joints, as indices; None for any.
        count: Number of joints that the robot has.
    """
    manager = getattr(env, "event_manager", None)
    if manager is None:
        return
    for mode, names in manager.active_terms.items():
        for name in names:
            term = manager.get_term_cfg(name)
            entity = (term.params or {}).get("asset_cfg")
            if getattr(entity, "name", asset) != asset or _WRITER not in _names(term.func):
                continue
            if joints is None or not _written(entity, count).isdisjoint(joints):
                yield mode, name


def _written(entity: Any, count: int) -> set[int]:
    """Joints that a term with this ``SceneEntityCfg`` writes to; all where it names none."""
    chosen = getattr(entity, "joint_ids", slice(None))
    if isinstance(chosen, slice):
        return set(range(count)[chosen])
    return {int(joint) for joint in chosen}


def _names(function: Any) -> set[str]:
    """Names of a function, of a class with its bases, or of an instance's; terms are each of these in some release."""
    kind = function if isinstance(function, type) else type(function)
    return {getattr(function, "__name__", ""), *(base.__name__ for base in kind.__mro__)}


def check_gain_events(env: Any, asset: str, joints: Collection[int] | None = None, count: int = 0) -> None:
    """Refuse events that would overwrite the curriculum's gains again and again, and warn of those that are lost.

    The arguments are those of :func:`find_gain_events`. An event on joints that the curriculum leaves alone may stay.

    Raises:
        BackendError: ``randomize_actuator_gains`` runs at resets or at intervals.
    """
    for mode, name in find_gain_events(env, asset, joints, count):
        if mode in ("startup", "prestartup"):
            warnings.warn(
                f"the event {name!r} ({_WRITER}, mode {mode!r}) has no effect: the curriculum sets the gains of every "
                f"env. {_COMBINE}",
                stacklevel=4,
            )
        else:
            raise BackendError(
                f"the event {name!r} ({_WRITER}, mode {mode!r}) writes gains that it derives from the robot's defaults "
                f"and would overwrite the curriculum's. Remove it from the env's events. {_COMBINE}"
            )
