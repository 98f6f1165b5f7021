"""Writes a study's report: page, Markdown, CSV, pictures, arrays."""

from __future__ import annotations

from pathlib import Path

from adc_wrappers.core.files import write_atomically

from .analysis import analyse
from .figures import draw_figures
from .films import record_films
from .markdown import markdown_report
from .page import html_page
from .results import StudyResults, read_results
from .tables import write_tables

__all__ = ["write_report"]


def write_report(
    folder: Path, out: Path | None = None, *, films: bool = True, seed: int = 0
) -> tuple[StudyResults, Path]:
    """Write the report of a study's finished runs.

    Args:
        folder: The study.
        out: Where the files go; by default ``report/`` in it.
        films: Film a policy of every condition, where that has not been done.
        seed: Seed of the bootstrap.

    Returns:
        What was read, and the path of the page; the other files are beside it.
    """
    results = read_results(folder)
    out = folder / "report" if out is None else out
    numbers = analyse(results, seed=seed)
    if films:
        record_films(results)
    write_tables(results, numbers, out, seed=seed)
    pictures = draw_figures(results, numbers, out, seed=seed)
    text = markdown_report(results, numbers, [path.name for path in pictures], seed=seed)
    write_atomically(out / "report.md", text.encode())
    page = out / "report.html"
    write_atomically(page, html_page(results, numbers, seed=seed).encode())
    return results, page
