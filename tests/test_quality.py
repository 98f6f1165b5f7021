"""The checks of ``make lint``, so that the test command alone tells whether the tree is sound."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

NO_NOUNS = frozenset(
    """
    What How Where Which Who Whose Whether Why When While Also
    Is Are Has Does Lets Can
    Adds Appends Applies Asks Builds Calls Carries Closes Collects Computes Contains Creates Decides Defines Describes
    Drains Drives Ends Evaluates Feeds Finds Follows Gets Gives Hands Handles Holds Implements Judges Keeps Knows
    Listens Loads Looks Loses Makes Moves Passes Provides Pushes Reads Remembers Reorders Represents Returns Rewrites
    Saves Says Sends Serves Sets Shows Simulates Solves Stops Stores Takes Tells Turns Wraps Writes
    """.split()  # noqa: SIM905 (a list would take a line per word)
)
"""First words of a docstring that says what a thing does before it says what it is."""


def openings(source: str) -> Iterator[tuple[int, str]]:
    """Line and first word of the docstrings of a module and its classes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text.split()[0].rstrip(",:;.?")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]], ids=" ".join
)
def test_clean(command):
    answer = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("folder", ["adc_wrappers", "backends", "benchmarks", "docs", "envs", "examples", "tests"])
def test_docstrings_of_modules_and_classes_begin_with_the_noun(folder):
    found = {path: list(openings(path.read_text("utf-8"))) for path in (ROOT / folder).rglob("*.py")}
    assert any(found.values())
    verbs = [f"{path}:{line}: {word}" for path, words in found.items() for line, word in words if word in NO_NOUNS]
    assert not verbs, "begin with the noun, as in 'Episode counters for numpy and torch batches.': " + ", ".join(verbs)


def test_openings_of_modules_and_classes_are_found_and_those_of_functions_are_free():
    source = '"""What this is."""\nclass A:\n    """Holds, it says."""\n    def f(self):\n        """Returns."""\n'
    assert list(openings(source)) == [(1, "What"), (3, "Holds")]
    assert {"What", "Holds"} <= NO_NOUNS
