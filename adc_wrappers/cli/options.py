"""Options made from the fields of a config: what is given replaces its value, and the help shows the recipe's."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

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

__all__ = [
    "changes_of",
    "field_texts",
    "named_task",
    "parse_joint_values",
    "parse_settings",
    "plain_options",
    "recipe_value",
    "recipes_of_task",
]

_WORDS: ContextVar[tuple[str, ...]] = ContextVar("_WORDS", default=())
_READ: dict[tuple[str, str | None], TrainConfig | None] = {}


def changes_of(
    config: type,
    *,
    without: Collection[str] = (),
    aliases: Mapping[str, tuple[str, ...]] | None = None,
    section: str | None = None,
) -> Any:
    """Return a type for ``tyro`` with an option for every field of a config; parsed, it is a dict of those given.

    Args:
        config: A dataclass with a docstring under each field, which becomes the option's help.
        without: Fields that the command decides itself.
        aliases: Further names of options, by field.
        section: Part of a recipe that has such a config: the help then says the recipe's values.
    """
    texts, kinds = field_texts(config), typing.get_type_hints(config)
    options = {}
    for field in dataclasses.fields(config):
        if field.name in without:
            continue
        described = tyro.conf.arg(
            help=texts.get(field.name),
            help_behavior_hint="" if section is None else recipe_value(field.name, section),
            aliases=(aliases or {}).get(field.name),
        )
        options[field.name] = Annotated[_on_the_command_line(kinds[field.name]), described]
    return TypedDict(config.__name__, options, total=False)  # type: ignore[operator]


def _on_the_command_line(kind: Any) -> Any:
    """Return what words can say of a field's type: no functions; values per joint and truth as one word."""
    parts = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    if any(typing.get_origin(part) is Mapping for part in parts):
        return Annotated[Any, _joint_values(optional=type(None) in parts)]
    if kind is bool:
        return Annotated[bool, tyro.conf.FlagConversionOff]
    spoken = tuple(part for part in parts if typing.get_origin(part) is not Callable)
    return typing.Union[spoken]  # noqa: UP007 (from a tuple)


def _joint_values(*, optional: bool) -> PrimitiveConstructorSpec[Any]:
    def read(words: list[str]) -> Any:
        return None if optional and words[0] == "None" else parse_joint_values(words[0])

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="NUMBER|A,B,…|JOINT=NUMBER,…" + ("|None" if optional else ""),
        instance_from_str=read,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )


def parse_joint_values(text: str) -> float | tuple[float, ...] | dict[str, float]:
    """Turn a word into a number for all joints, one for each in order, or one by name or pattern.

    >>> parse_joint_values("40"), parse_joint_values("40,60"), parse_joint_values("*_kn=40,*_h?=60")
    (40.0, (40.0, 60.0), {'*_kn': 40.0, '*_h?': 60.0})
    """
    parts = text.split(",")
    try:
        if "=" in text:
            pairs = [part.partition("=") for part in parts]
            return {name.strip(): float(number) for name, _, number in pairs}
        numbers = tuple(float(part) for part in parts)
    except ValueError as error:
        raise ValueError(
            f"expected a number, numbers in joint order (40,60) or by joint (*_kn=40,*_h?=60), got {text!r}."
        ) from error
    return numbers[0] if len(numbers) == 1 else numbers


def field_texts(config: type) -> dict[str, str]:
    """Return the docstring under each field of a dataclass, in one line and without markup."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(config)))
    except OSError:  # installed without sources: options are the same, without help
        return {}
    body = typing.cast("ast.ClassDef", tree.body[0]).body
    texts = {}
    for field, text in itertools.pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
            texts[field.target.id] = _plain(text.value.value)
    return texts


def _plain(text: str) -> str:
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", " ".join(text.split()))
    return re.sub(r'``"([^"`]*)"``', r"\1", text).replace("``", "")


def parse_settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Turn ``name=value`` words into task settings.

    >>> parse_settings(("start_angle=0.1", "time_limit=200"))
    {'start_angle': 0.1, 'time_limit': 200}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name:
            raise CurriculumError(f"--set expects name=value, got {pair!r}.")
        try:
            settings[name.replace("-", "_")] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            settings[name.replace("-", "_")] = text
    return settings


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
