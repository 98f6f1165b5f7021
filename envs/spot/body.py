"""The body of a stand's robot: build, axes along which it moves, feet, mirror image, what is observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.array_kinds import array_namespace, constant
from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.backends.limiter import JointTable
from adc_wrappers.backends.spot_model import FOOT_RADIUS, PLANAR_SPOT, SPOT, RobotSpec
from adc_wrappers.envs.deployment import ObservationPart
from adc_wrappers.envs.mirror import Mirror

__all__ = [
    "PLANAR",
    "SPATIAL",
    "SpotBody",
    "array_namespace",
    "constant",
    "feet_in_body",
    "feet_in_world",
    "observation_layout",
    "observation_scale",
    "robot_poses",
    "rotate",
    "spot_mirror",
    "start_at",
    "swap_sides",
    "touchdown_height",
]


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
        self.joints = JointTable(robot)
        """What its joints can do."""
        joints = {joint.name: joint for joint in robot.joints}
        names = [name.removesuffix("_foot") for name in robot.foot_names]
        parts = ("hy", "kn", "ankle") if robot.planar else ("hx", "hy", "kn", "ankle")
        self._origins = np.array([[joints[f"{leg}_{part}"].origin for leg in names] for part in parts])
        self._on_devices: dict[tuple[Any, Any], Any] = {}

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
        origins = self._origins_beside(joint_positions)  # each (feet, 3)
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

    def _origins_beside(self, like: Any) -> Any:
        """Return the joints' origins as ``like`` is; of tensors one copy is kept on every device."""
        if type(like) is np.ndarray:
            return constant(self._origins, like)
        place = (like.dtype, array_api_compat.device(like))
        if place not in self._on_devices:
            self._on_devices[place] = constant(self._origins, like)
        return self._on_devices[place]

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


feet_in_body = SPATIAL.feet_in_body
feet_in_world = SPATIAL.feet_in_world
touchdown_height = SPATIAL.touchdown_height


def robot_poses(state: RobotState) -> NDArray[np.float64]:
    """Return base position, base quaternion and joint positions side by side, ``(n, 7 + joints)``."""
    return np.concatenate((state.base_position, state.base_quaternion, state.joint_positions), axis=1)


def start_at(pose: NDArray[np.float64]) -> RobotStart:
    """Return the start of one robot at rest in a row of :func:`robot_poses`."""
    row = np.asarray(pose, dtype=np.float64)[None]
    still = np.zeros((1, 3))
    return RobotStart(row[:, :3], row[:, 3:7], still, still, row[:, 7:], np.zeros_like(row[:, 7:]))


_POLAR = ((0, 1, 2), (1.0, -1.0, 1.0))
"""A velocity or a direction, mirrored at the plane between left and right."""

_AXIAL = ((0, 1, 2), (-1.0, 1.0, -1.0))
"""A turning rate, mirrored there."""

_SIDES = {"l": "r", "r": "l"}


def swap_sides(names: Sequence[str]) -> list[int]:
    """Return where the mirror image of each joint or foot is.

    >>> swap_sides(["fl_foot", "fr_foot"])
    [1, 0]
    """
    return [list(names).index(name[0] + _SIDES[name[1]] + name[2:]) for name in names]


def spot_mirror(joint_names: Sequence[str], *, velocity: bool = True, moments: int = 1) -> Mirror:
    """Return the mirror of the 45 observations and 12 actions, for joints named ``fl_hx`` and so on.

    Args:
        joint_names: The joints.
        velocity: Whether the base's linear velocity is observed.
        moments: How many moments are observed, one after another.
    """
    sign = [-1.0 if name.endswith("_hx") else 1.0 for name in joint_names]
    joints = (swap_sides(joint_names), sign)
    base = [_POLAR, _AXIAL, _POLAR] if velocity else [_AXIAL, _POLAR]
    return Mirror.of_parts([*base, joints, joints, joints] * moments, action=len(base) + 2)


def observation_scale(joints: int, body: SpotBody, *, velocity: bool = True, moments: int = 1) -> tuple[float, ...]:
    """Return factors for base velocities, gravity, joint positions, joint velocities and last action, per moment."""
    linear, angular = len(body.linear_axes), len(body.angular_axes)
    base = (*(1.0,) * (linear if velocity else 0), *(0.25,) * angular, *(1.0,) * linear)
    return (*base, *(1.0,) * joints, *(0.05,) * joints, *(1.0,) * joints) * moments


def observation_layout(
    joints: int, body: SpotBody, *, velocity: bool = True, limited: bool = False, moments: int = 1
) -> tuple[ObservationPart, ...]:
    """Return the parts of what :func:`adc_wrappers.envs.spot.terms.observation` concatenates, in its order.

    Those of earlier moments follow, newest first, under their names with ``_before_1`` and so on.

    Args:
        joints: Number of joints.
        body: The robot's build.
        velocity: Whether the base's linear velocity is observed.
        limited: Whether a command limiter stands between actions and joints.
        moments: How many moments are observed.
    """
    linear_velocity = ObservationPart(
        name="base_linear_velocity",
        size=len(body.linear_axes),
        unit="m/s",
        meaning=f"of the base link's origin, in the base frame{_named(body, body.linear_axes)}",
    )
    last = "the action before this one, clipped; zero at the start"
    if limited:
        last = "the targets that the command limiter let through last, as an action: (q_d - q_0) / action_scale"
    now = (
        *((linear_velocity,) if velocity else ()),
        ObservationPart(
            name="base_angular_velocity",
            size=len(body.angular_axes),
            unit="rad/s",
            meaning=f"in the base frame{_named(body, body.angular_axes)}",
        ),
        ObservationPart(
            name="projected_gravity",
            size=len(body.linear_axes),
            meaning=f"unit vector of gravity in the base frame, (0, 0, -1) when level{_named(body, body.linear_axes)}",
        ),
        ObservationPart(
            name="joint_position_offset", size=joints, unit="rad", meaning="joint positions less the nominal pose"
        ),
        ObservationPart(name="joint_velocity", size=joints, unit="rad/s"),
        ObservationPart(name="last_action", size=joints, meaning=last),
    )
    earlier = (part.before(steps) for steps in range(1, moments) for part in now)
    return (*now, *earlier)


def _named(body: SpotBody, axes: Sequence[int]) -> str:
    return f" ({', '.join('xyz'[axis] for axis in axes)})" if body.robot.planar else ""
