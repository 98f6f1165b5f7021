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

    values: _Array
    """All that is measured in numbers, in the order of the properties below, ``(52,)``."""

    feet: NDArray[np.bool_]
    """Which feet touch the ground: fl fr hl hr."""

    body_touches: bool
    """Whether the body, a hip or an upper leg touches the ground."""

    @property
    def positions(self) -> _Array:
        """Joints, rad."""
        return self.values[:12]

    @property
    def velocities(self) -> _Array:
        """Joints, rad/s."""
        return self.values[12:24]

    @property
    def torques(self) -> _Array:
        """Joints, N·m, at the physics step before."""
        return self.values[24:36]

    @property
    def base_position(self) -> _Array:
        """m, world."""
        return self.values[36:39]

    @property
    def base_quaternion(self) -> _Array:
        """Orientation, w x y z."""
        return self.values[39:43]

    @property
    def base_velocity(self) -> _Array:
        """m/s, world."""
        return self.values[43:46]

    @property
    def base_turning(self) -> _Array:
        """rad/s, in the base's frame."""
        return self.values[46:49]

    @property
    def base_acceleration(self) -> _Array:
        """m/s², world."""
        return self.values[49:52]


def rotation(quaternion: _Array) -> _Array:
    """Return the matrix of a unit quaternion; its columns are the base's axes in the world."""
    w, x, y, z = quaternion.tolist()
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
    if share <= 0.0:
        return first
    values = (1.0 - share) * first.values + share * second.values
    values[39:43] /= np.linalg.norm(values[39:43])
    return Reading(elapsed, values, first.feet, first.body_touches)
