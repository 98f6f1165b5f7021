"""Options made from the fields of a config: what a user gives replaces the config's value, the rest is left alone."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, TypedDict

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from adc_wrappers.core.errors import CurriculumError

from .option_help import recipe_value

__all__ = ["changes_of", "field_texts", "parse_joint_values", "parse_settings"]


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
