"""The one place where MuJoCo is imported, and how it is kept quiet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adc_wrappers.core.errors import BackendError, MissingExtraError

try:
    import mujoco
except ImportError as error:
    raise MissingExtraError("mujoco", "mujoco", "The MuJoCo backend") from error
try:
    from mujoco import batch
except ImportError as error:
    raise BackendError(
        f"The MuJoCo backend needs mujoco.batch, which came with MuJoCo 4.0; installed is {mujoco.__version__}. "
        'Update it with: pip install --upgrade "mujoco>=4.0"'
    ) from error

__all__ = ["batch", "mujoco", "quiet"]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep MuJoCo from printing warnings and writing ``MUJOCO_LOG.TXT`` inside the block.

    MuJoCo's log settings belong to the process, so they are put back at the end; both cost 3 µs.
    """
    before = mujoco.MjLogConfig.get()
    silent = mujoco.MjLogConfig.get()
    silent.logto_console = False
    silent.logto_file = False
    silent.set()
    try:
        yield
    finally:
        before.set()
