"""Tables in a terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table

__all__ = ["narrow_table"]


def narrow_table(title: str, heads: tuple[str, ...]) -> Table:
    """Return a table of numbers without lines between its columns, so that nine fit into 80 characters.

    Heads are broken where they say so and nowhere else: rich, left to itself, cuts words.
    """
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    first, *others = heads
    table.add_column(first, no_wrap=True)
    for head in others:
        table.add_column(head, justify="right", no_wrap=True)
    return table
