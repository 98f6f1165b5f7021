"""The report of a wrapper about its curriculum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["CurriculumReport"]


class CurriculumReport(Mapping[str, float]):
    """Numbers of one iteration, as found under ``info["adc"]``; a new object is made when they change.

    It reads like a dict and cannot be changed, so that every step of an iteration can hand out the same one and infos
    may be kept. ``dict(report)`` gives a dict.

    >>> report = CurriculumReport(stiffness=60.0, progress=0.0)
    >>> report["stiffness"], dict(report)
    (60.0, {'stiffness': 60.0, 'progress': 0.0})
    """

    __slots__ = ("_values",)

    def __init__(self, **values: float) -> None:
        self._values = values

    def __getitem__(self, key: str) -> float:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"CurriculumReport({', '.join(f'{key}={value:.6g}' for key, value in self._values.items())})"

    def __copy__(self) -> CurriculumReport:
        return self

    def __deepcopy__(self, memo: Any) -> CurriculumReport:
        return self
