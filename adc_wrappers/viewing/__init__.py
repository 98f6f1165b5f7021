"""Views of a live task: in a browser, or in MuJoCo's window."""

from .browser import BrowserView, PuppetPage
from .playback import ACTIONS, Playback, chosen_action, make_action
from .puppets import Puppet, SpotPuppet, puppet_of
from .screen import MujocoScreen

__all__ = [
    "ACTIONS",
    "BrowserView",
    "MujocoScreen",
    "Playback",
    "Puppet",
    "PuppetPage",
    "SpotPuppet",
    "chosen_action",
    "make_action",
    "puppet_of",
]
