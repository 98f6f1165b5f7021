"""States of envs as plain values: arrays and JSON, to bytes and back without pickle.

An env that can be saved has two methods: ``env_state()`` returns all that decides how it goes on under given actions
and gains, as nested dicts of numbers, texts and numpy arrays, or None if its physics cannot be saved; and
``load_env_state(state)`` puts it there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EnvState",
    "EnvStateError",
    "generator_state",
    "load_generator",
    "pack_state",
    "part_of",
    "put_array",
    "unpack_state",
]

EnvState = dict[str, Any]
"""Numbers, texts, None, lists and numpy arrays by name, in dicts of dicts."""

_ARRAY = "$array"
_KINDS = ("<f8", "<f4", "<i8", "<i4", "<u4", "|u1", "|b1")


class EnvStateError(ValueError):
    """A saved state that is broken, or that belongs to other envs."""


def pack_state(state: EnvState) -> tuple[bytes, bytes]:
    """Return a state as JSON, and the arrays in it as bytes."""
    chunks: list[bytes] = []
    offset = 0

    def plain(value: Any) -> Any:
        nonlocal offset
        if isinstance(value, np.ndarray):
            kind = value.dtype.newbyteorder("<").str
            if kind not in _KINDS:
                raise EnvStateError(f"expected arrays of {', '.join(_KINDS)} in a state, got {kind}.")
            content = np.ascontiguousarray(value, dtype=kind).tobytes()
            entry = {_ARRAY: [kind, list(value.shape), offset]}
            chunks.append(content)
            offset += len(content)
            return entry
        if isinstance(value, Mapping):
            return {str(key): plain(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(part) for part in value]
        return value.item() if isinstance(value, np.generic) else value

    layout = plain(state)
    return json.dumps(layout).encode(), b"".join(chunks)


def unpack_state(layout: bytes, content: bytes) -> EnvState:
    """Return the state that :func:`pack_state` packed; the arrays are new ones.

    Raises:
        EnvStateError: It is none.
    """

    def rich(value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {_ARRAY}:
                return _read_array(value[_ARRAY], content)
            return {key: rich(part) for key, part in value.items()}
        return [rich(part) for part in value] if isinstance(value, list) else value

    try:
        state = rich(json.loads(layout))
    except (ValueError, RecursionError) as error:
        raise EnvStateError(f"the state of the envs cannot be read ({error}).") from error
    if not isinstance(state, dict):
        raise EnvStateError(f"the state of the envs cannot be read: expected a dict, got {type(state).__name__}.")
    return state


def _read_array(entry: Any, content: bytes) -> NDArray[Any]:
    whole = isinstance(entry, list) and len(entry) == 3 and isinstance(entry[1], list)
    numbers = [*entry[1], entry[2]] if whole else [-1]
    if not whole or entry[0] not in _KINDS or not all(type(n) is int and 0 <= n <= len(content) for n in numbers):
        raise EnvStateError(f"expected kind, shape and place of an array, got {str(entry)[:80]}.")
    kind, shape, offset = entry
    count = 1
    for size in shape:
        count *= size
    if offset + count * np.dtype(kind).itemsize > len(content):
        raise EnvStateError(f"expected {count} numbers from byte {offset} on; there are {len(content)} bytes.")
    return np.frombuffer(content, dtype=kind, count=count, offset=offset).reshape(shape).copy()


def part_of(state: Mapping[str, Any], name: str, kind: type | tuple[type, ...] = dict) -> Any:
    """Return a part of a state.

    Raises:
        EnvStateError: It is missing or of another kind.
    """
    value = state.get(name) if isinstance(state, Mapping) else None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise EnvStateError(f"state of the envs: expected {name!r} as {_name(kind)}, got {type(value).__name__}.")
    return value


def _name(kind: type | tuple[type, ...]) -> str:
    return " or ".join(part.__name__ for part in kind) if isinstance(kind, tuple) else kind.__name__


def put_array(target: NDArray[Any], state: Mapping[str, Any], name: str) -> None:
    """Overwrite an array with the saved one, which must have its shape and its type.

    Raises:
        EnvStateError: It has not.
    """
    value = part_of(state, name, np.ndarray)
    if value.shape != target.shape or value.dtype != target.dtype:
        raise EnvStateError(
            f"state of the envs: expected {name!r} with shape {target.shape} of {target.dtype}, got {value.shape} of "
            f"{value.dtype}. It was saved by other envs: load it with the settings it was saved with."
        )
    target[...] = value


def generator_state(rng: np.random.Generator) -> EnvState:
    """Return the state of a generator (PCG64, numpy's default), its spawned children counted."""
    seed: Any = rng.bit_generator.seed_seq
    return {
        "state": rng.bit_generator.state,
        "entropy": seed.entropy,
        "spawn_key": list(seed.spawn_key),
        "spawned": seed.n_children_spawned,
    }


def load_generator(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator that goes on where the saved one was.

    Raises:
        EnvStateError: The state is none of a generator's.
    """
    try:
        seed = np.random.SeedSequence(
            state["entropy"], spawn_key=tuple(state["spawn_key"]), n_children_spawned=int(state["spawned"])
        )
        bits = np.random.PCG64(seed)
        bits.state = state["state"]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EnvStateError(f"state of the envs: a random state cannot be read ({error}).") from error
    return np.random.Generator(bits)
