"""Docstrings for the site: Sphinx roles become code, and an example is a section of its own."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|mod|func|meth|attr|data|exc):`~?([^`<]+)`")

EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
"""Griffe knows the plural only, and would read the code below the singular as Markdown."""
BARE = re.compile(r"^>>>.*(?:\n.+)*", re.MULTILINE)
"""Examples that stand in no section."""


class Roles(griffe.Extension):
    """An extension that rewrites ``:class:`Name``` and ``Example:`` in every docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            text = EXAMPLE.sub("Examples:", ROLE.sub(r"`\1`", obj.docstring.value))
            obj.docstring.value = BARE.sub(r"```pycon\n\g<0>\n```", text)
