"""Children that a process with a robot forks: nothing of the robot is theirs, and they must be able to end."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from weakref import WeakSet

__all__ = ["ForkAware"]

_OPEN: WeakSet[ForkAware] = WeakSet()
_registered = False


class ForkAware:
    """Something that belongs to the process that made it; a forked child lets go of it.

    gRPC cannot end in a forked child: its destructors wait for threads that are not there, or abort. So such a child
    leaves without them: where the C library has ``on_exit``, it ends right after Python has, with its own exit code.

    Args:
        let_go: Called in the child.
    """

    def __init__(self, let_go: Callable[[], None]) -> None:
        global _registered
        self._let_go = let_go
        if not _registered and hasattr(os, "register_at_fork"):
            _registered = True
            os.register_at_fork(after_in_child=_in_child)
        self.process = os.getpid()
        _OPEN.add(self)

    @property
    def ours(self) -> bool:
        """Whether this is the process that made it."""
        return os.getpid() == self.process

    def release(self) -> None:
        """Children forked from now on need not know of it."""
        _OPEN.discard(self)

    def let_go(self) -> None:
        """Let go of it in a child."""
        self._let_go()


def _in_child() -> None:
    if not _OPEN:
        return
    for item in list(_OPEN):
        item.let_go()
    _OPEN.clear()
    library = ctypes.CDLL(None)
    if hasattr(library, "on_exit"):
        library.on_exit(library._exit, None)
