"""What the sensors say at one moment, and between two."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reading", "between", "rotation"]

_Array = NDArray[np.float64]


class Reading(NamedTuple):
    """The robot at one moment of the simulation."""

    elapsed: int
    """Nanoseconds of simulation."""

    positions: _Array
    """Joints, rad."""

    velocities: _Array
    """Joints, rad/s."""

    torques: _Array
    """Joints, N·m, at the physics step before."""

    base_position: _Array
    """m, world."""

    base_quaternion: _Array
    """w x y z."""

    base_velocity: _Array
    """m/s, world."""

    base_turning: _Array
    """rad/s, in the base's frame."""

    specific_force: _Array
    """What an accelerometer in the base's origin shows, m/s², in the base's frame: (0, 0, 9.81) standing level."""

    feet: NDArray[np.bool_]
    """Which feet touch the ground: fl fr hl hr."""

    body_touches: bool
    """Whether the body, a hip or an upper leg touches the ground."""


def rotation(quaternion: _Array) -> _Array:
    """Return the matrix of a unit quaternion; its columns are the base's axes in the world."""
    w, x, y, z = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def between(first: Reading, second: Reading, elapsed: int) -> Reading:
    """Return the reading at a moment between two others: numbers in proportion, yes and no as in the first."""
    span = second.elapsed - first.elapsed
    share = (elapsed - first.elapsed) / span if span else 1.0
    if share >= 1.0:
        return second
    mixed = {
        name: (1.0 - share) * getattr(first, name) + share * getattr(second, name)
        for name in Reading._fields
        if name not in ("elapsed", "feet", "body_touches")
    }
    mixed["base_quaternion"] /= np.linalg.norm(mixed["base_quaternion"])
    return first._replace(elapsed=elapsed, **mixed)
