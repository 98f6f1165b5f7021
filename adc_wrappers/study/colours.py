"""Colours of conditions and failure modes, the same in pictures and on the page."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["condition_colours", "mode_colours"]

_PALETTE = (
    "#7f7f7f", "#a0522d", "#2ca02c", "#17a2b8", "#bcbd22", "#d62728",
    "#9467bd", "#e377c2", "#ff7f0e", "#1f77b4", "#0b3c6f",
)  # fmt: skip
_MODES = ("#9a6324", "#e6a23c", "#c0392b", "#7d3c98", "#5d6d7e", "#b7950b", "#34495e", "#d98880", "#839192")
_SUCCESS = "#2e8b57"


def condition_colours(names: Sequence[str]) -> dict[str, str]:
    """Return a colour for every condition; those of this library always have the same."""
    from .conditions import CONDITIONS

    own = [name for name in names if name not in CONDITIONS]
    places = {name: CONDITIONS.index(name) if name in CONDITIONS else own.index(name) for name in names}
    return {name: _PALETTE[place % len(_PALETTE)] for name, place in places.items()}


def mode_colours(modes: Sequence[str]) -> dict[str, str]:
    """Return a colour for every way in which an episode may end."""
    failures = [mode for mode in modes if mode != "success"]
    colours = {mode: _MODES[i % len(_MODES)] for i, mode in enumerate(failures)}
    return {mode: colours.get(mode, _SUCCESS) for mode in modes}
