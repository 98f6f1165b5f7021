"""Texts and tables in Markdown that show what they were given, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["markdown_table", "plain_markdown"]


def plain_markdown(text: str) -> str:
    r"""Return a text that Markdown shows as it is: no HTML, no emphasis, no end of a table's cell.

    >>> print(plain_markdown("<b> K* | [a]"))
    &lt;b> K\* \| \[a\]
    """
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return re.sub(r"([*|`\[\]])", r"\\\1", escaped)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> str:
    """Return a table; with ``right``, all columns but the first are set to the right."""
    lines = [_line(head), "|" + "|".join(["---"] + ["---:" if right else "---"] * (len(head) - 1)) + "|"]
    return "\n".join([*lines, *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(plain_markdown, cells)) + " |"
