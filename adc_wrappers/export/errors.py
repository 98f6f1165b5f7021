"""Errors of exporting."""

from __future__ import annotations

__all__ = ["ExportError"]


class ExportError(ValueError):
    """A policy that cannot be exported; no file is left behind."""
