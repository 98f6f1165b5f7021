"""Signals that ask a program to end while a robot is driven, and children that it forks."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar, Final
from weakref import WeakSet

__all__ = ["ENDING", "EndingSignals", "ForkAware", "uninterrupted"]


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


ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # SIGHUP: the terminal or the SSH connection is gone; Windows has none
"""Signals that ask a program to end."""


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let signals that ask to end wait until the block is done; the first one acts then, as it would have before.

    Only the main thread gets signals. Those that the program ignores, or that something else than Python handles, are
    left as they are.
    """
    if not _in_main_thread():
        yield
        return
    caught: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        caught.append(number)

    before = {number: signal.getsignal(number) for number in ENDING}
    held = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    for number in held:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, EndingSignals.due(number, handler))
    if caught:
        signal.raise_signal(caught[0])


class EndingSignals:
    """SIGTERM and SIGHUP while a robot is armed: they end a program as Ctrl-C does, by an exception in the main thread.

    It is a ``SystemExit`` with the code that shells give (128 and the signal's number), so that every ``with`` and
    ``finally`` is passed, the robot is brought into safety, and no traceback hides what was said about it. Handlers of
    the program's own, and signals that it ignores (``nohup``), stay as they are. Outside the main thread nothing can be
    installed.
    """

    _before: ClassVar[dict[int, Any]] = {}
    _users: ClassVar[set[int]] = set()

    def install(self) -> None:
        """Begin; nothing if it has begun, or in another thread than the main one."""
        if not _in_main_thread():
            return
        if not self._users:
            for number in ENDING:
                if signal.getsignal(number) is signal.SIG_DFL:
                    self._before[number] = signal.signal(number, _end)
        self._users.add(id(self))

    def restore(self) -> None:
        """Let signals act as before once no robot is armed; off the main thread that is at their next arrival."""
        self._users.discard(id(self))
        if self._users or not _in_main_thread():
            return
        for number in ENDING:
            if signal.getsignal(number) is _end:  # not held, and nobody has installed another one since
                signal.signal(number, self.due(number, _end))

    @classmethod
    def due(cls, number: int, handler: Any) -> Any:
        """Return a handler, or where it is ours and no robot is armed any more, the one that was there before."""
        return cls._before.pop(number, signal.SIG_DFL) if handler is _end and not cls._users else handler


def _end(number: int, frame: FrameType | None) -> None:
    if not EndingSignals._users:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        return
    raise SystemExit(128 + number)
