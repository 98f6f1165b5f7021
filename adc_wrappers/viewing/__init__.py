"""Watching a task live: in a browser, or in MuJoCo's window."""

from .actions import ACTIONS, make_action
from .browser import BrowserView
from .figures import Figure, figure_of
from .session import ViewSession
from .window import MujocoWindow

__all__ = ["ACTIONS", "BrowserView", "Figure", "MujocoWindow", "ViewSession", "figure_of", "make_action"]
