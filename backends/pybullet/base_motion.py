"""Motion of a robot's base in PyBullet: freely (or held), or in its plane of symmetry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

from .model import LoadedRobot

__all__ = ["BASE_NUMBERS", "BaseMotion", "FreeBase", "PlanarBase"]

BASE_NUMBERS: Final = 13
"""Numbers that a saved base takes: pose and velocities."""

_OUT_OF_REACH: Final = [0.0, 0.0, 1000.0]
_NO_ROTATION: Final = [0.0, 0.0, 0.0, 1.0]


class BaseMotion(Protocol):
    """The base of one robot in its client."""

    def set_mass(self, offset: float) -> None:
        """Add to the base's mass as modelled, and scale its inertia alike."""

    def lift(self) -> None:
        """Take the robot out of the ground's reach."""

    def place(
        self, position: list[float], quaternion: list[float], velocity: list[float], body_rates: list[float]
    ) -> None:
        """Move the base link's origin; quaternion x y z w, velocity in the world, rates in the base link."""

    def push(self, velocity_change: list[float]) -> None:
        """Add to the linear velocity in the world."""

    def read(self) -> list[float]:
        """Return position, quaternion w x y z, both velocities and gravity in the base frame: 16 numbers."""

    def save(self) -> list[float]:
        """Return what :meth:`load` needs, :data:`BASE_NUMBERS` of them."""

    def load(self, numbers: list[float]) -> None:
        """Put the base where it was saved."""


class FreeBase:
    """The base of a body: PyBullet tells of its centre of mass and principal axes, we of the link's origin.

    Args:
        bullet: The module.
        client: The physics client.
        robot: The robot in it.
        held: Whether the base stays where it is put.
    """

    def __init__(self, bullet: Any, client: int, robot: LoadedRobot, *, held: bool) -> None:
        self._bullet, self._client, self._body, self._held = bullet, client, robot.body, held
        info = bullet.getDynamicsInfo(robot.body, -1, client)
        self._mass, self._inertia = info[0], info[2]
        self._centre = info[3], info[4]
        self._link_in_centre = bullet.invertTransform(*self._centre)

    def set_mass(self, offset: float) -> None:
        """Add to the mass of a base that is not held: one that is has none."""
        if self._held:
            return
        _set_mass(self._bullet, self._client, self._body, -1, self._mass, self._inertia, offset)

    def lift(self) -> None:
        """Put the base high up."""
        self._bullet.resetBasePositionAndOrientation(self._body, _OUT_OF_REACH, _NO_ROTATION, self._client)

    def place(
        self, position: list[float], quaternion: list[float], velocity: list[float], body_rates: list[float]
    ) -> None:
        """Move the link's origin, and the centre of mass with it."""
        bullet, body, client = self._bullet, self._body, self._client
        centre, axes = bullet.multiplyTransforms(position, quaternion, *self._centre)
        bullet.resetBasePositionAndOrientation(body, centre, axes, client)
        if not self._held:
            rates = bullet.rotateVector(quaternion, body_rates)
            arm = [there - here for there, here in zip(centre, position, strict=True)]
            moved = [v + turn for v, turn in zip(velocity, _cross(rates, arm), strict=True)]
            bullet.resetBaseVelocity(body, moved, rates, client)

    def push(self, velocity_change: list[float]) -> None:
        """Add to the velocity; nothing if the base is held."""
        if self._held:
            return
        bullet, body, client = self._bullet, self._body, self._client
        linear, angular = bullet.getBaseVelocity(body, client)
        pushed = [old + change for old, change in zip(linear, velocity_change, strict=True)]
        bullet.resetBaseVelocity(body, pushed, angular, client)

    def read(self) -> list[float]:
        """Turn the world's velocities into the link's frame, at its origin."""
        bullet, body, client = self._bullet, self._body, self._client
        centre, axes = bullet.getBasePositionAndOrientation(body, client)
        velocity, rates = bullet.getBaseVelocity(body, client)
        origin, (x, y, z, w) = bullet.multiplyTransforms(centre, axes, *self._link_in_centre)
        matrix = bullet.getMatrixFromQuaternion((x, y, z, w))
        vx, vy, vz = _into_frame(matrix, velocity)
        p, q, r = _into_frame(matrix, rates)
        cx, cy, cz = self._centre[0]  # the link's origin moves with the centre, minus rates × centre
        return [
            *origin, w, x, y, z,
            vx - q * cz + r * cy, vy - r * cx + p * cz, vz - p * cy + q * cx,
            p, q, r,
            -matrix[6], -matrix[7], -matrix[8],
        ]  # fmt: skip

    def save(self) -> list[float]:
        """Return PyBullet's own numbers."""
        position, quaternion = self._bullet.getBasePositionAndOrientation(self._body, self._client)
        velocity, rates = self._bullet.getBaseVelocity(self._body, self._client)
        return [*position, *quaternion, *velocity, *rates]

    def load(self, numbers: list[float]) -> None:
        """Set PyBullet's own numbers."""
        bullet, body, client = self._bullet, self._body, self._client
        bullet.resetBasePositionAndOrientation(body, numbers[:3], numbers[3:7], client)
        if not self._held:
            bullet.resetBaseVelocity(body, numbers[7:10], numbers[10:13], client)


class PlanarBase:
    """Two slides and a hinge that carry the body: the world's x and z, and the pitch.

    Args:
        bullet: The module.
        client: The physics client.
        robot: The robot in it, loaded with these joints on a fixed root.
        joints: PyBullet's indices of the three; the last one's link is the body.
    """

    def __init__(self, bullet: Any, client: int, robot: LoadedRobot, joints: Sequence[int]) -> None:
        self._bullet, self._client, self._body = bullet, client, robot.body
        self._joints = tuple(joints)
        info = bullet.getDynamicsInfo(robot.body, joints[-1], client)
        self._mass, self._inertia = info[0], info[2]

    def set_mass(self, offset: float) -> None:
        """Add to the body's mass."""
        _set_mass(self._bullet, self._client, self._body, self._joints[-1], self._mass, self._inertia, offset)

    def lift(self) -> None:
        """Slide the body high up."""
        self._set([0.0, _OUT_OF_REACH[2], 0.0], [0.0, 0.0, 0.0])

    def place(
        self, position: list[float], quaternion: list[float], velocity: list[float], body_rates: list[float]
    ) -> None:
        """Move the body; what is out of the plane has been refused before."""
        pitch = 2.0 * math.atan2(quaternion[1], quaternion[3])
        self._set([position[0], position[2], pitch], [velocity[0], velocity[2], body_rates[1]])

    def push(self, velocity_change: list[float]) -> None:
        """Add to the velocity along x and z."""
        places, (x, z, pitch) = self._get()
        self._set(places, [x + velocity_change[0], z + velocity_change[2], pitch])

    def read(self) -> list[float]:
        """Turn the world's velocity into the body's frame."""
        (x, z, pitch), (vx, vz, rate) = self._get()
        cosine, sine = math.cos(pitch), math.sin(pitch)
        return [
            x, 0.0, z, math.cos(pitch / 2), 0.0, math.sin(pitch / 2), 0.0,
            cosine * vx - sine * vz, 0.0, sine * vx + cosine * vz,
            0.0, rate, 0.0,
            sine, 0.0, -cosine,
        ]  # fmt: skip

    def save(self) -> list[float]:
        """Return the three coordinates and their rates."""
        places, rates = self._get()
        return [*places, *rates, *[0.0] * (BASE_NUMBERS - 6)]

    def load(self, numbers: list[float]) -> None:
        """Set them."""
        self._set(numbers[:3], numbers[3:6])

    def _get(self) -> tuple[list[float], list[float]]:
        states = self._bullet.getJointStates(self._body, self._joints, self._client)
        return [state[0] for state in states], [state[1] for state in states]

    def _set(self, places: list[float], rates: list[float]) -> None:
        for joint, place, rate in zip(self._joints, places, rates, strict=True):
            self._bullet.resetJointState(self._body, joint, place, rate, physicsClientId=self._client)


def _set_mass(
    bullet: Any, client: int, body: int, link: int, mass: float, inertia: Sequence[float], offset: float
) -> None:
    new = mass + offset
    scaled = [value * (new / mass) for value in inertia]
    bullet.changeDynamics(body, link, mass=new, localInertiaDiagonal=scaled, physicsClientId=client)


def _cross(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _into_frame(matrix: Sequence[float], vector: Sequence[float]) -> tuple[float, float, float]:
    """Turn a world vector into the frame whose axes are the columns of ``matrix`` (row by row)."""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = matrix
    x, y, z = vector
    return xx * x + yx * y + zx * z, xy * x + yy * y + zy * z, xz * x + yz * y + zz * z
