"""Values and kinds in the help of options: those of the recipe that the words name, and no None that says nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.constructors import (
    MISSING,
    MISSING_NONPROP,
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from adc_wrappers.core.errors import BackendError, CurriculumError, MissingExtraError
from adc_wrappers.envs.registry import TASKS

if TYPE_CHECKING:
    from adc_wrappers.training import TrainConfig

__all__ = ["named_task", "plain_options", "recipe_value", "recipes_of_task"]

_WORDS: ContextVar[tuple[str, ...]] = ContextVar("_WORDS", default=())
_READ: dict[tuple[str, str | None], TrainConfig | None] = {}


@contextlib.contextmanager
def named_task(words: Sequence[str]) -> Iterator[None]:
    """Let the help of a command speak of the task and the recipe that its words name."""
    token = _WORDS.set(tuple(words))
    try:
        yield
    finally:
        _WORDS.reset(token)


@contextlib.contextmanager
def plain_options() -> Iterator[None]:
    """Let the help of every option name its kind without None, and no default that is None or empty.

    What happens without such an option is in its own text. Where None can be given as a value, the kind ends with it.
    """
    registry, inside = ConstructorRegistry(), False

    @registry.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        nonlocal inside
        if inside:
            return None
        inside = True
        try:
            spec = ConstructorRegistry.get_struct_spec(info)
        finally:
            inside = False
        if not isinstance(spec, StructConstructorSpec):
            return None
        return dataclasses.replace(spec, fields=tuple(map(_plain_field, spec.fields)))

    with registry:
        yield


def _plain_field(field: StructFieldSpec) -> StructFieldSpec:
    empty = field.default is None or field.default == ()
    unsaid = empty or field.default in (MISSING, MISSING_NONPROP)  # a list of words may be empty
    kind, *notes = typing.get_args(field.type) if typing.get_origin(field.type) is Annotated else (field.type,)
    described = tyro.conf.arg(
        metavar=_metavar(kind, "" if empty else "|None"),
        help_behavior_hint=_unless_empty if unsaid else None,
    )
    shown: Any = Annotated[(kind, described, *notes)]  # the option's own notes come last: they win
    return dataclasses.replace(field, type=shown)


def _unless_empty(label: str) -> str:
    return "" if label in ("", "None") else f"(default: {label})"


def _metavar(kind: Any, none: str) -> str | None:
    """Return how help shows the kind of a value that may be None, with ``none`` at its end; None for other values."""
    parts = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else ()
    if type(None) not in parts:
        return None
    said: Any = typing.Union[tuple(part for part in parts if part is not type(None))]  # noqa: UP007 (from a tuple)
    spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(said, set()))
    if not isinstance(spec, PrimitiveConstructorSpec):  # a part with options of its own
        return None
    return f"{spec.metavar}{none}"


def recipe_value(name: str, section: str | None = None) -> Callable[[str], str]:
    """Return what the help says behind an option: the recipe's value, or that the recipe decides.

    Args:
        name: The setting.
        section: The part of the config that it is in; None is the config itself.
    """

    def hint(_: str) -> str:
        config = _config()
        if config is None:
            return "(default: as the recipe says)"
        value = getattr(config if section is None else getattr(config, section), name)
        return "(not set)" if value is None else f"(default: {_shown(value)})"

    return hint


def recipes_of_task(_: str) -> str:
    """Say which recipes there are."""
    from adc_wrappers.training.recipes import RECIPES, recipe_names

    task, _chosen = _named()
    if task is not None:
        return f"(of {task}: {', '.join(recipe_names(task))})"
    known = [f"{name}: {', '.join(recipes)}" for name, recipes in RECIPES.items()]
    return f"({'; '.join(known)}; all: paper. `adc train TASK --help` shows the values of a task's recipe)"


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return " ".join(map(_shown, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _named() -> tuple[str | None, str | None]:
    """Task and recipe in the words of the command."""
    words = _WORDS.get()
    task = next((word for word in words[1:] if word in TASKS), None)
    recipe = next((after for word, after in itertools.pairwise(words) if word == "--recipe"), None)
    return task, next((word[9:] for word in words if word.startswith("--recipe=")), recipe)


def _config() -> TrainConfig | None:
    """Return what the named task trains with; None if none is named, or if its simulator is not here to be asked."""
    from adc_wrappers.training.recipes import default_config, find_recipe

    task, recipe = _named()
    if task is None:
        return None
    if (task, recipe) not in _READ:
        try:
            backend = find_recipe(task, recipe).backend or TASKS[task].backends[0]
            _READ[task, recipe] = default_config(task, backend, recipe=recipe)
        except (BackendError, CurriculumError, MissingExtraError):
            _READ[task, recipe] = None
    return _READ[task, recipe]
