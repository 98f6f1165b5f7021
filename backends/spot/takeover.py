"""From the robot's own stand to the task's nominal pose and gains, without a bump."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import JOINT_NAMES

__all__ = ["STIFF_DAMPING", "STIFF_STIFFNESS", "Setpoint", "takeover_setpoints"]

_Array = NDArray[np.float64]

_BY_JOINT: Final = {"hx": (624.0, 5.20), "hy": (936.0, 5.20), "kn": (286.0, 2.04)}
STIFF_STIFFNESS: Final = np.array([_BY_JOINT[name[-2:]][0] for name in JOINT_NAMES])
"""Gains for holding a position, as in the Spot SDK's joint control example (v5.1.4), N·m/rad."""
STIFF_DAMPING: Final = np.array([_BY_JOINT[name[-2:]][1] for name in JOINT_NAMES])


class Setpoint(NamedTuple):
    """Targets and gains of one policy step."""

    position: _Array
    stiffness: _Array
    damping: _Array


def takeover_setpoints(
    steps: int, position: _Array, load: _Array, nominal: _Array, stiffness: _Array, damping: _Array
) -> Iterator[Setpoint]:
    """Yield targets and gains that lead from a held pose to the nominal one.

    The first asks for exactly the torque that the joints bear now: its target is ``q + load / K`` at stiff gains. Pose
    and gains are then led over smoothly, gains by ratio, and the offset by which a target must lead to bear the load
    fades with them. The last is the nominal pose at the wanted gains.

    Args:
        steps: Policy steps, at least 1.
        position: Where the joints are, rad.
        load: What they bear, N·m.
        nominal: Where they shall be.
        stiffness: Wanted gains.
        damping: Wanted gains.
    """
    for step in range(steps + 1):
        share = step / steps
        blend = share * share * (3.0 - 2.0 * share)
        k = STIFF_STIFFNESS ** (1.0 - blend) * stiffness**blend
        b = STIFF_DAMPING ** (1.0 - blend) * damping**blend
        pose = (1.0 - blend) * (position + load / k) + blend * nominal
        yield Setpoint(pose, k, b)
