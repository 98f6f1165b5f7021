"""Reading of files that may come from strangers: JSON that can be used, values of the kinds that a class declares."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import numbers
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import CurriculumError, did_you_mean

__all__ = ["check_fields", "parse_json", "read_json", "read_object", "read_text", "tree_problem"]

_DEPTH = 64
_BITS = 1023  # a whole number with more is beyond every float
_SHOWN = 120
_FEW = 8


def read_text(path: Path, error: type[Exception]) -> str:
    """Return a text file's content.

    Raises:
        error: It cannot be read, or is not text in UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as reason:
        raise error(f"{path} cannot be read ({reason.strerror}).") from reason
    except UnicodeDecodeError as reason:
        raise error(f"{path}: expected text in UTF-8, got other bytes ({reason}); get the file again.") from reason


def read_json(path: Path, error: type[Exception]) -> Any:
    """Return what a JSON file holds; see :func:`parse_json`."""
    return parse_json(read_text(path, error), str(path), error)


def read_object(path: Path, error: type[Exception]) -> dict[str, Any]:
    """Return the JSON object in a file; see :func:`parse_json`."""
    values = read_json(path, error)
    if not isinstance(values, dict):
        raise error(f"{path}: expected a JSON object, got {_shown(values)}.")
    return values


def parse_json(text: str | bytes, where: str, error: type[Exception], *, constants: bool = True) -> Any:
    """Return what a JSON text holds, if Python can work with it.

    Args:
        text: The text.
        where: What to call it in errors.
        error: Class of the errors.
        constants: Accept NaN and Infinity, which are no JSON but are what Python writes.

    Raises:
        error: It is no JSON, is nested more than 64 deep, holds a whole number beyond every float, or a text that is no
            Unicode.
    """
    try:
        values = json.loads(text) if constants else json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as reason:
        raise error(f"{where} is not JSON that can be read ({reason}).") from reason
    problem = tree_problem(values)
    if problem is not None:
        raise error(f"{where}: expected JSON as this library writes it, got {problem}.")
    return values


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def tree_problem(values: Any) -> str | None:
    """Return what makes nested dicts and lists unusable, if anything; level by level, for any depth."""
    level = [values]
    for _ in range(_DEPTH):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += [*value, *value.values()]
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
                    return f"a text that is no Unicode: {_shown(value)}"
            elif isinstance(value, int) and value.bit_length() > _BITS:
                return f"a whole number of {value.bit_length()} bits"
        if not below:
            return None
        level = below
    return f"more than {_DEPTH} levels"


def check_fields(
    cls: Any,
    values: Any,
    where: str,
    error: Callable[[str], Exception] = CurriculumError,
    *,
    partial: bool = False,
    more: bool = False,
    skip: Sequence[str] = (),
) -> None:
    """Refuse values that do not fit the fields of a dataclass, before they reach its constructor.

    Args:
        cls: The dataclass.
        values: Values by field name, as they come from JSON, TOML or a caller.
        where: What to call them in errors; the fields' names follow it.
        error: Makes the error.
        partial: Fields without a default may be missing.
        more: Names that are no fields may be there.
        skip: Fields whose kind is not looked at: their reader does that.

    Raises:
        error: A name is missing or unknown, or a value is of another kind than its field; NaN fits none.
    """
    if not isinstance(values, Mapping):
        raise error(f"{where}: expected names and values, got {_shown(values)}.")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in values:
        if name not in fields and not more:
            raise error(f"{where}: unknown name {_shown(name)}. {did_you_mean(str(name), fields)}")
    missing = [name for name, field in fields.items() if name not in values and _required(field)]
    if missing and not partial:
        raise error(f"{where} lacks {', '.join(missing)}. Is the file cut off, or of an older version?")
    hints = _hints(cls)
    for name, value in values.items():
        if name in fields and name not in skip and not _fits(value, hints[name]):
            raise error(f"{where}: {name}: expected {_described(hints[name])}, got {_shown(value)}.")


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _required(field: Any) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the kind that an annotation names; a list does for a tuple, an integer for a float."""
    if hint is Any:
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is typing.Literal:
        return any(value == argument and type(value) is type(argument) for argument in arguments)
    if origin is tuple and arguments[-1:] != (...,):
        fits = isinstance(value, list | tuple) and len(value) == len(arguments)
        return fits and all(_fits(item, argument) for item, argument in zip(value, arguments, strict=True))
    if origin in (tuple, list, Sequence):
        array = hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1
        return (isinstance(value, list | tuple) or array) and all(_fits(item, arguments[0]) for item in value)
    if origin in (dict, Mapping):
        fits = isinstance(value, Mapping)
        return fits and all(_fits(k, arguments[0]) and _fits(v, arguments[1]) for k, v in value.items())
    if origin is Callable:
        return callable(value)
    return _fits_plain(value, hint)


def _fits_plain(value: Any, hint: Any) -> bool:
    if hint is float:
        return _is_whole(value) or (_is_real(value) and not math.isnan(value))
    if hint is int:
        return _is_whole(value)
    return isinstance(value, hint)


def _is_whole(value: Any) -> bool:
    """Whether a value is an integer that fits 64 bits, of Python or numpy."""
    if isinstance(value, bool):
        return False
    return isinstance(value, numbers.Integral) and int(value).bit_length() < 64


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)


def _described(hint: Any) -> str:
    """Return an annotation in words of the files.

    >>> _described(tuple[float, ...] | None)
    'numbers or null'
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_described(argument) for argument in arguments)
    if origin is typing.Literal:
        return "one of " + ", ".join(repr(argument) for argument in arguments)
    if origin is tuple and arguments[-1:] != (...,):
        return f"a list of {len(arguments)}"
    if origin in (tuple, list, Sequence):
        return {float: "numbers", int: "whole numbers", str: "texts"}.get(arguments[0], "a list")
    if origin in (dict, Mapping):
        return {float: "names and numbers", str: "names and texts"}.get(arguments[1], "names and values")
    words = {float: "a number", int: "a whole number", str: "a text", bool: "true or false", type(None): "null"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))


def _shown(value: Any) -> str:
    """Return a value for an error message; a list or a table only if it is short, for it may be anything."""
    if isinstance(value, str | int | float | None):
        text = ascii(value)
        return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    if isinstance(value, list | tuple | dict) and len(value) <= _FEW:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        if all(isinstance(item, str | int | float | None) for _, item in items):
            text = ascii(value)
            return text if len(text) <= _SHOWN else type(value).__name__
    return type(value).__name__
