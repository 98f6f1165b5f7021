"""Targets of the fuzzer: each makes a whole file, mutates it, and reads the mutant as the library's users do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, ClassVar

__all__ = ["Mutant", "Target", "WrongAcceptanceError", "expect"]


class WrongAcceptanceError(Exception):
    """A mutant was read without an error, and is not what its digests vouch for, or holds what a reader must refuse."""


def expect(good: bool, problem: str) -> None:
    """Raise unless an accepted mutant is ``good``."""
    if not good:
        raise WrongAcceptanceError(problem)


@dataclass(frozen=True)
class Mutant:
    """A mutated file."""

    content: bytes
    what: str
    """Name of the mutation."""

    notes: dict[str, Any] = field(default_factory=dict)
    """What the target must know to judge an acceptance."""


class Target(ABC):
    """One kind of file.

    Args:
        folder: An empty folder that is its own.
    """

    name: ClassVar[str]
    errors: ClassVar[tuple[type[Exception], ...]]
    """The documented errors of its reader; every other exception is foreign."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def mutate(self, rng: Random) -> Mutant:
        """Return a mutant."""

    @abstractmethod
    def read(self, mutant: Mutant) -> None:
        """Write the mutant to the disk and read it.

        Raises:
            WrongAcceptanceError: It was accepted and should not have been.
        """
