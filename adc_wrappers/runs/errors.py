"""Errors of run folders and what is in them."""

from __future__ import annotations

__all__ = ["RunFolderError"]


class RunFolderError(RuntimeError):
    """A run folder that is missing, foreign, or in the way, or a file in it that cannot be used."""
