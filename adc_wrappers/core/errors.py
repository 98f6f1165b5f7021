"""Errors of the library: each says what was expected, what came, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "BackendError",
    "CurriculumError",
    "MissingExtraError",
    "RunFolderError",
    "UnknownSettingError",
    "did_you_mean",
]


class CurriculumError(ValueError):
    """A curriculum setting or state that cannot be used; raised before any gain is written."""


class UnknownSettingError(CurriculumError, TypeError):
    """A name that is no setting of a task."""


class BackendError(RuntimeError):
    """A backend that is absent, incomplete, or does not do what was asked of it."""


class RunFolderError(RuntimeError):
    """A run folder that is missing, foreign, or in the way, or a file in it that cannot be used."""


class MissingExtraError(ImportError):
    """An optional package is not installed.

    Args:
        package: The package that failed to import.
        extra: The extra of this library that brings it.
        purpose: What it was needed for.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed. "
            f'Install it with: pip install "adc-wrappers[{extra}]"'
        )
        self.package = package
        self.extra = extra


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """Return a sentence that offers the nearest of ``options``, or lists them all.

    >>> did_you_mean("cartpol", ["cartpole", "spot-handstand"])
    "Did you mean 'cartpole'?"
    >>> did_you_mean("xyz", ["b", "a"])
    "Choose one of 'a', 'b'."
    """
    known = sorted(options)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    return "Choose one of " + ", ".join(repr(option) for option in known) + "."
