"""Watching a task live: in a browser, or in MuJoCo's window."""

from .browser import BrowserView, FigurePage
from .figures import Figure, SpotFigure, figure_of
from .view_session import ACTIONS, ViewSession, chosen_action, make_action
from .window import MujocoWindow

__all__ = [
    "ACTIONS",
    "BrowserView",
    "Figure",
    "FigurePage",
    "MujocoWindow",
    "SpotFigure",
    "ViewSession",
    "chosen_action",
    "figure_of",
    "make_action",
]
