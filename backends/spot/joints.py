"""From the robot's joint order to ours, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.core.errors import BackendError

__all__ = ["STREAM_ORDER", "JointOrder", "task_name"]

STREAM_ORDER: Final = (
    "fl.hx", "fl.hy", "fl.kn", "fr.hx", "fr.hy", "fr.kn", "hl.hx", "hl.hy", "hl.kn", "hr.hx", "hr.hy", "hr.kn",
)  # fmt: skip
"""Order of the streams' arrays, which have no names: the enum ``bosdyn.api.spot.JointIndex``, arm joints aside."""


def task_name(robot_name: str) -> str:
    """Return our name of one of the robot's joints.

    >>> task_name("fl.hx")
    'fl_hx'
    """
    return robot_name.replace(".", "_")


class JointOrder:
    """Reorders between the streams' arrays and ``joint_names``.

    Args:
        joint_names: Our order.
        stream_order: The robot's order of its stream, by its names.
    """

    def __init__(self, joint_names: Sequence[str] = JOINT_NAMES, stream_order: Sequence[str] = STREAM_ORDER) -> None:
        known = [task_name(name) for name in stream_order]
        if sorted(known) != sorted(joint_names):
            raise BackendError(
                f"expected the joints {', '.join(joint_names)}; the robot has {', '.join(known)}. A policy is run only "
                "on the joints that it was trained for."
            )
        self._from_stream: NDArray[np.int64] = np.array([known.index(name) for name in joint_names])
        self._to_stream: NDArray[np.int64] = np.array([list(joint_names).index(name) for name in known])

    def from_stream(self, values: Sequence[float]) -> NDArray[np.float64]:
        """Return what the stream gave, in our order."""
        return np.fromiter(values, dtype=np.float64, count=len(self._from_stream))[self._from_stream]

    def to_stream(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return our numbers in the stream's order."""
        return np.asarray(values, dtype=np.float64)[self._to_stream]


def check_named(named: dict[str, float], streamed: NDArray[np.float64], tolerance: float = 0.05) -> None:
    """Refuse a robot whose named joint positions are not those of its stream.

    Args:
        named: Positions by the robot's names, from the unary state; joints of an arm are not looked at.
        streamed: Positions from the stream, in our order.
        tolerance: Largest difference at standstill, rad.

    Raises:
        BackendError: Says which joint differs.
    """
    ours = {task_name(name): value for name, value in named.items()}
    missing = [name for name in JOINT_NAMES if name not in ours]
    if missing:
        raise BackendError(f"the robot's named state lacks the joints {', '.join(missing)}; it has {', '.join(named)}.")
    for name, value in zip(JOINT_NAMES, streamed, strict=True):
        if not abs(ours[name] - value) <= tolerance:
            raise BackendError(
                f"joint order: {name} is {ours[name]:.3f} rad by name and {value:.3f} rad in the stream, which has no "
                f"names; expected them within {tolerance} rad. The stream's order is another, or the robot moves."
            )
