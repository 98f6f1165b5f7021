"""The knee's torque limit, which depends on the knee's angle.

Source of the numbers: Boston Dynamics Spot SDK, ``docs/concepts/joint_control/knee_torque_limits.md`` (101 rows;
Isaac Lab's ``SPOT_CFG`` uses the same). The limit is 1.5 N·m of motor torque times the linkage's transmission ratio.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["KNEE_ANGLES", "KNEE_PEAK_TORQUE", "KNEE_TORQUES", "knee_torque_limit"]

_ANGLE_LOWER: Final = -2.7929
_ANGLE_UPPER: Final = -0.2471

# fmt: off
_TORQUES: Final = (
    37.165077, 39.435162, 41.690054, 43.928996, 46.151304, 48.356134, 50.542751, 52.710331, 54.858078,
    56.985128, 59.090595, 61.173609, 63.233231, 65.268557, 67.278557, 69.262310, 71.218735, 73.146824,
    75.045502, 76.913641, 78.750154, 80.553881, 82.323664, 84.058290, 85.756542, 87.417200, 89.038971,
    90.620607, 92.160793, 93.658218, 95.111538, 96.519402, 97.880505, 99.193417, 100.456764, 101.669186,
    102.829296, 103.935677, 104.986988, 105.981812, 106.918785, 107.796478, 108.613632, 109.368851, 110.060806,
    110.688194, 111.249767, 111.744221, 112.170376, 112.526997, 112.812984, 113.027172, 113.168530, 113.236015,
    113.228657, 113.145515, 112.985744, 112.748531, 112.433109, 112.038826, 111.565041, 111.011215, 110.376869,
    109.661613, 108.865128, 107.987183, 107.027561, 105.986229, 104.863220, 103.658581, 102.372505, 101.005291,
    99.557270, 98.028923, 96.420799, 94.733540, 92.967882, 91.124662, 89.204767, 87.209255, 85.139231,
    82.995924, 80.780594, 78.494694, 76.139643, 73.717049, 71.228605, 68.676006, 66.061146, 63.385900,
    60.652325, 57.862421, 55.018473, 52.122648, 49.177254, 46.184715, 43.147428, 40.067954, 36.948864,
    33.792821, 30.602500,
)
# fmt: on


def _frozen(values: NDArray[np.float64]) -> NDArray[np.float64]:
    values.setflags(write=False)
    return values


KNEE_ANGLES: Final = _frozen(np.linspace(_ANGLE_LOWER, _ANGLE_UPPER, len(_TORQUES)))
"""Knee angles of the table, rad, ascending; the source's rows are evenly spaced by 0.025458 rad."""

KNEE_TORQUES: Final = _frozen(np.array(_TORQUES, dtype=np.float64))
"""Largest knee torque at each of :data:`KNEE_ANGLES`, N·m; the same in both directions."""

KNEE_PEAK_TORQUE: Final = max(_TORQUES)
"""Largest torque at any angle, N·m."""


def knee_torque_limit(angle: ArrayLike) -> NDArray[np.float64]:
    """Return the largest knee torque at each angle, by linear interpolation in the table.

    Beyond the joint's range the limit of the nearest end holds, so a knee pushed past its stop keeps a limit.

    Args:
        angle: Knee angle(s) in rad, of any shape.

    Returns:
        Limits in N·m, positive, of the shape of ``angle``. A NaN angle gives a NaN limit.

    Example:
        >>> knee_torque_limit([-2.7929, -1.443626, 0.0]).tolist()
        [37.165077, 113.236015, 30.6025]
    """
    values: NDArray[Any] = np.asarray(angle, dtype=np.float64)
    return np.asarray(np.interp(values, KNEE_ANGLES, KNEE_TORQUES), dtype=np.float64)
