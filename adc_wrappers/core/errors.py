"""Errors of the library: each says what was expected, what came, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "BackendError",
    "CheckpointError",
    "CurriculumError",
    "MissingExtraError",
    "RunFolderError",
    "UnknownSettingError",
    "did_you_mean",
    "install_command",
]


class CurriculumError(ValueError):
    """A curriculum setting or state that cannot be used; raised before any gain is written."""


class UnknownSettingError(CurriculumError, TypeError):
    """A name that is no setting of a task."""


class BackendError(RuntimeError):
    """A backend that is absent, incomplete, or does not do what was asked of it."""


class RunFolderError(RuntimeError):
    """A run folder that is missing, foreign, or in the way, or a file in it that cannot be used."""


class CheckpointError(RuntimeError):
    """A checkpoint that is broken, foreign, or missing."""


class MissingExtraError(ImportError):
    """An optional package is not installed.

    Args:
        package: The package that failed to import.
        extra: The extra of this library that brings it.
        purpose: What it was needed for.
        otherwise: What can be done without it.
    """

    def __init__(self, package: str, extra: str, purpose: str, otherwise: str = "") -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed. "
            f"Install it with: {install_command(extra)}" + (f"\n{otherwise}" if otherwise else "")
        )
        self.package = package
        self.extra = extra
        self.purpose = purpose


def install_command(*extras: str) -> str:
    """Return the command that installs extras of this library here: from the clone that is running, or by name.

    >>> install_command("study", "view").endswith('[study,view]"')
    True
    """
    wanted = f"[{','.join(extras)}]" if extras else ""
    tree = Path(__file__).resolve().parents[2]
    if (tree / "pyproject.toml").is_file():
        return f'pip install -e "{tree}{wanted}"'
    return f'pip install "adc-wrappers{wanted}"'


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
