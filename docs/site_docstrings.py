"""Docstrings for the site: Sphinx roles become code that links to its object, if the site has it."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|mod|func|meth|attr|data|exc):`~?([^`<]+)`")


class Roles(griffe.Extension):
    """Rewrites ``:class:`Name``` in every docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
