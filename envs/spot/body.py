"""What a stand knows of the robot's build: its table, the axes along which it moves, and where its feet are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from adc_wrappers.backends.spot_model import FOOT_RADIUS, PLANAR_SPOT, SPOT, RobotSpec

from .namespaces import array_namespace, constant

__all__ = ["PLANAR", "SPATIAL", "SpotBody", "rotate"]


class SpotBody:
    """Spot in space, or in its plane of symmetry, for numpy and torch batches.

    Args:
        robot: The table.
    """

    def __init__(self, robot: RobotSpec) -> None:
        self.robot = robot
        self.linear_axes: tuple[int, ...] = (0, 2) if robot.planar else (0, 1, 2)
        """Axes along which it moves, and in which gravity has a part."""
        self.angular_axes: tuple[int, ...] = (1,) if robot.planar else (0, 1, 2)
        """Axes about which it turns."""
        self.legs = robot.actuated[0].legs
        """How many of Spot's joints each of its joints stands for; sums over joints count each so often."""
        joints = {joint.name: joint for joint in robot.joints}
        names = [name.removesuffix("_foot") for name in robot.foot_names]
        parts = ("hy", "kn", "ankle") if robot.planar else ("hx", "hy", "kn", "ankle")
        self._origins = np.array([[joints[f"{leg}_{part}"].origin for leg in names] for part in parts])

    def own_feet(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the feet that stand for these of Spot's, each once.

        >>> PLANAR.own_feet(("fl_foot", "fr_foot"))
        ('f_foot',)
        """
        if not self.robot.planar:
            return tuple(names)
        return tuple(dict.fromkeys(f"{name[0]}_foot" for name in names))

    def feet_in_body(self, joint_positions: Any) -> Any:
        """Return the centres of the feet in the body frame, ``(n, feet, 3)``, from ``(n, joints)`` angles."""
        xp = array_namespace(joint_positions)
        origins = constant(self._origins, joint_positions)  # each (feet, 3)
        thigh, shank, foot = origins[-3], origins[-2], origins[-1]
        angles = xp.reshape(joint_positions, (-1, len(self._origins[0]), len(self._origins) - 1))
        hy, kn = angles[..., -2], angles[..., -1]
        knee = _about_y(kn, (foot[:, 0], foot[:, 1], foot[:, 2]))
        x, y, z = _about_y(hy, tuple(shank[:, i] + knee[i] for i in range(3)))
        x, y, z = thigh[:, 0] + x, thigh[:, 1] + y, thigh[:, 2] + z
        if self.robot.planar:
            return xp.stack((x, xp.zeros_like(x) + y, z), axis=-1)
        hip, hx = origins[0], angles[..., 0]
        y, z = xp.cos(hx) * y - xp.sin(hx) * z, xp.sin(hx) * y + xp.cos(hx) * z
        return xp.stack((hip[:, 0] + x, hip[:, 1] + y, hip[:, 2] + z), axis=-1)

    def feet_in_world(self, base_position: Any, base_quaternion: Any, joint_positions: Any) -> Any:
        """Return the centres of the feet in the world, ``(n, feet, 3)``."""
        return base_position[:, None, :] + rotate(base_quaternion, self.feet_in_body(joint_positions))

    def touchdown_height(self, base_quaternion: Any, joint_positions: Any) -> Any:
        """Return the height of the body's origin at which the lowest foot just touches the ground, ``(n,)``."""
        feet = rotate(base_quaternion, self.feet_in_body(joint_positions))
        return FOOT_RADIUS - array_namespace(feet).min(feet[..., 2], axis=-1)


def _about_y(angle: Any, vector: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    xp = array_namespace(angle)
    x, y, z = vector
    return xp.cos(angle) * x + xp.sin(angle) * z, y, -xp.sin(angle) * x + xp.cos(angle) * z


def rotate(quaternion: Any, vectors: Any) -> Any:
    """Turn ``(n, k, 3)`` vectors by ``(n, 4)`` unit quaternions w x y z."""
    w, axis = quaternion[:, None, :1], quaternion[:, None, 1:]
    cross = _cross(axis, vectors)
    return vectors + 2.0 * (w * cross + _cross(axis, cross))


def _cross(a: Any, b: Any) -> Any:
    """The cross product over the last axis; numpy's own takes several times as long for small batches."""
    ax, ay, az, bx, by, bz = (v[..., i] for v in (a, b) for i in range(3))
    return array_namespace(a).stack((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx), axis=-1)


SPATIAL: Final = SpotBody(SPOT)
"""Spot as it is."""

PLANAR: Final = SpotBody(PLANAR_SPOT)
"""Spot in its plane of symmetry."""
