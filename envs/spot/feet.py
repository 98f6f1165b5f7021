"""Where Spot's feet are: forward kinematics for a whole batch, in numpy or torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from adc_wrappers.backends.spot_model import FOOT_RADIUS, LEG_NAMES, SPOT

from .namespaces import array_namespace, constant

__all__ = ["feet_in_body", "feet_in_world", "rotate", "touchdown_height"]

_ORIGINS = np.array(
    [
        [next(joint.origin for joint in SPOT.joints if joint.name == f"{leg}_{part}") for leg in LEG_NAMES]
        for part in ("hx", "hy", "kn", "ankle")
    ]
)


def _about_y(angle: Any, vector: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    xp = array_namespace(angle)
    x, y, z = vector
    return xp.cos(angle) * x + xp.sin(angle) * z, y, -xp.sin(angle) * x + xp.cos(angle) * z


def feet_in_body(joint_positions: Any) -> Any:
    """Return the centres of the feet in the body frame, ``(n, 4, 3)``, from ``(n, 12)`` joint angles."""
    xp = array_namespace(joint_positions)
    hip, thigh, shank, foot = constant(_ORIGINS, joint_positions)  # each (4, 3)
    angles = xp.reshape(joint_positions, (-1, 4, 3))
    hx, hy, kn = angles[..., 0], angles[..., 1], angles[..., 2]
    knee = _about_y(kn, (foot[:, 0], foot[:, 1], foot[:, 2]))
    x, y, z = _about_y(hy, tuple(shank[:, i] + knee[i] for i in range(3)))
    x, y, z = thigh[:, 0] + x, thigh[:, 1] + y, thigh[:, 2] + z
    y, z = xp.cos(hx) * y - xp.sin(hx) * z, xp.sin(hx) * y + xp.cos(hx) * z
    return xp.stack((hip[:, 0] + x, hip[:, 1] + y, hip[:, 2] + z), axis=-1)


def rotate(quaternion: Any, vectors: Any) -> Any:
    """Turn ``(n, k, 3)`` vectors by ``(n, 4)`` unit quaternions w x y z."""
    w, axis = quaternion[:, None, :1], quaternion[:, None, 1:]
    cross = _cross(axis, vectors)
    return vectors + 2.0 * (w * cross + _cross(axis, cross))


def _cross(a: Any, b: Any) -> Any:
    """The cross product over the last axis; numpy's own takes several times as long for small batches."""
    ax, ay, az, bx, by, bz = (v[..., i] for v in (a, b) for i in range(3))
    return array_namespace(a).stack((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx), axis=-1)


def feet_in_world(base_position: Any, base_quaternion: Any, joint_positions: Any) -> Any:
    """Return the centres of the feet in the world, ``(n, 4, 3)``."""
    return base_position[:, None, :] + rotate(base_quaternion, feet_in_body(joint_positions))


def touchdown_height(base_quaternion: Any, joint_positions: Any) -> Any:
    """Return the height of the body's origin at which the lowest foot just touches the ground, ``(n,)``."""
    feet = rotate(base_quaternion, feet_in_body(joint_positions))
    return FOOT_RADIUS - array_namespace(feet).min(feet[..., 2], axis=-1)
