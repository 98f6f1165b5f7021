"""Values in the help of a training command: those of the recipe that its words name."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from adc_wrappers.core.errors import BackendError, CurriculumError, MissingExtraError
from adc_wrappers.envs.registry import TASKS

if TYPE_CHECKING:
    from adc_wrappers.training import TrainConfig

__all__ = ["named_task", "recipe_value", "recipes_of_task"]

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
        return f"(default: {_shown(value)})"

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
