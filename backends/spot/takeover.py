"""From the robot's own stand to the task's nominal pose and gains, without a bump."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import JOINT_NAMES
from adc_wrappers.core.errors import BackendError

__all__ = ["STIFF_DAMPING", "STIFF_STIFFNESS", "Setpoint", "TakeOverError", "gain_setpoints", "pose_setpoints"]

_Array = NDArray[np.float64]

_BY_JOINT: Final = {"hx": (624.0, 5.20), "hy": (936.0, 5.20), "kn": (286.0, 2.04)}
STIFF_STIFFNESS: Final = np.array([_BY_JOINT[name[-2:]][0] for name in JOINT_NAMES])
"""Gains for holding a position, as in the Spot SDK's joint control example (v5.1.4), N·m/rad."""
STIFF_DAMPING: Final = np.array([_BY_JOINT[name[-2:]][1] for name in JOINT_NAMES])


class TakeOverError(BackendError):
    """A take-over that the guard ended.

    Args:
        incident: The breach, and what the robot did then (``fallback``).
    """

    def __init__(self, incident: Mapping[str, Any]) -> None:
        self.incident = dict(incident)
        super().__init__(
            f"the guard ended the take-over ({incident['check']}): {incident['reason']}; the robot then: "
            f"{incident['fallback']}."
        )


class Setpoint(NamedTuple):
    """Targets and gains of one policy step."""

    position: _Array
    stiffness: _Array
    damping: _Array


def pose_setpoints(steps: int, position: _Array, load: _Array, nominal: _Array) -> Iterator[Setpoint]:
    """Yield targets at stiff gains that lead from a held pose to the nominal one.

    The first asks for exactly the torque that the joints bear now: its target is ``q + load / K``.

    Args:
        steps: Policy steps, at least 1.
        position: Where the joints are, rad.
        load: What they bear, N·m.
        nominal: Where they shall be.
    """
    for step in range(steps + 1):
        pose = position + _smooth(step / steps) * (nominal - position)
        yield Setpoint(pose + load / STIFF_STIFFNESS, STIFF_STIFFNESS, STIFF_DAMPING)


def gain_setpoints(
    steps: int, position: _Array, load: _Array, stiffness: _Array, damping: _Array
) -> Iterator[Setpoint]:
    """Yield targets that hold a pose while gains go from stiff to those wanted, by ratio.

    The offset ``load / K`` grows as joints soften, so that the robot does not sink. Soft joints do not hold a stand for
    long without a policy: this is to be quick.

    Args:
        steps: Policy steps, at least 1.
        position: Where the joints are, rad.
        load: What they bear, N·m.
        stiffness: Wanted gains.
        damping: Wanted gains.
    """
    for step in range(1, steps + 1):
        share = _smooth(step / steps)
        k = STIFF_STIFFNESS ** (1.0 - share) * stiffness**share
        yield Setpoint(position + load / k, k, STIFF_DAMPING ** (1.0 - share) * damping**share)


def _smooth(share: float) -> float:
    return share * share * (3.0 - 2.0 * share)
