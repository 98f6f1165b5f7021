"""Pictures of the robot, taken in a client of their own: the physics never sees the camera."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import SPOT, RobotSpec

from .model import connect, load_robot

__all__ = ["HEIGHT", "WIDTH", "Studio"]

WIDTH: Final = 640
HEIGHT: Final = 400
_DISTANCE, _YAW, _PITCH = 2.1, 40.0, -15.0
_TILE, _TILES = 0.5, 24
_LIGHT, _DARK = (0.78, 0.81, 0.84, 1.0), (0.66, 0.70, 0.74, 1.0)


class Studio:
    """A robot to be posed and a floor, drawn by PyBullet's software renderer.

    Args:
        model: URDF text or path.
        robot: The table whose joints it has.
    """

    def __init__(self, model: str, robot: RobotSpec = SPOT) -> None:
        self._bullet, self._client = connect()
        self._disconnect = weakref.finalize(self, self._bullet.disconnect, self._client)
        self._robot = load_robot(self._bullet, self._client, model, fixed_base=True, visuals=True, robot=robot)
        info = self._bullet.getDynamicsInfo(self._robot.body, -1, self._client)
        self._centre = info[3], info[4]
        self._focus = [0.0, 0.0, 0.5]
        self._floor = [self._tiles(parity, color) for parity, color in enumerate((_LIGHT, _DARK))]

    def _tiles(self, parity: int, color: Sequence[float]) -> int:
        """Add every other tile of a checkerboard."""
        half = _TILES // 2
        corners = [(i, j) for i in range(-half, half) for j in range(-half, half) if (i + j) % 2 == parity]
        vertices = [
            [_TILE * (i + di), _TILE * (j + dj), 0.0] for i, j in corners for di, dj in ((0, 0), (1, 0), (1, 1), (0, 1))
        ]
        indices = [4 * tile + k for tile in range(len(corners)) for k in (0, 1, 2, 0, 2, 3)]
        bullet: Any = self._bullet
        shape = bullet.createVisualShape(
            bullet.GEOM_MESH, vertices=vertices, indices=indices, normals=[[0.0, 0.0, 1.0]] * len(vertices),
            rgbaColor=color, specularColor=[0.0, 0.0, 0.0], physicsClientId=self._client,
        )  # fmt: skip
        return int(bullet.createMultiBody(0.0, -1, shape, physicsClientId=self._client))

    def photograph(
        self,
        position: NDArray[np.float64],
        quaternion: NDArray[np.float64],
        joint_positions: NDArray[np.float64],
    ) -> NDArray[np.uint8]:
        """Return a picture, ``(HEIGHT, WIDTH, 3)``, of a robot in this pose (quaternion w x y z).

        A pose that is not finite cannot be drawn: the robot stays where it was photographed last.
        """
        if np.isfinite(position).all() and np.isfinite(quaternion).all() and np.isfinite(joint_positions).all():
            self._pose(position.tolist(), np.roll(quaternion, -1).tolist(), joint_positions.tolist())
        bullet, client = self._bullet, self._client
        view = bullet.computeViewMatrixFromYawPitchRoll(
            self._focus, _DISTANCE, _YAW, _PITCH, 0.0, 2, physicsClientId=client
        )
        projection = bullet.computeProjectionMatrixFOV(45.0, WIDTH / HEIGHT, 0.1, 20.0, physicsClientId=client)
        pixels = bullet.getCameraImage(
            WIDTH, HEIGHT, view, projection, lightDirection=[2.0, -3.0, 6.0], shadow=1,
            renderer=bullet.ER_TINY_RENDERER, physicsClientId=client,
        )[2]  # fmt: skip
        picture: NDArray[np.uint8] = np.asarray(pixels, dtype=np.uint8).reshape(HEIGHT, WIDTH, 4)
        return np.ascontiguousarray(picture[:, :, :3])

    def _pose(self, position: list[float], quaternion: list[float], angles: list[float]) -> None:
        bullet, body, client = self._bullet, self._robot.body, self._client
        centre, axes = bullet.multiplyTransforms(position, quaternion, *self._centre)
        bullet.resetBasePositionAndOrientation(body, centre, axes, client)
        for joint, angle in zip(self._robot.joints, angles, strict=True):
            bullet.resetJointState(body, joint, angle, physicsClientId=client)
        x, y, z = position
        self._focus = [x, y, max(0.25, 0.8 * z)]
        for floor in self._floor:  # the floor moves along by whole pairs of tiles, so that it seems to lie still
            shift = [2 * _TILE * round(value / (2 * _TILE)) for value in (x, y)]
            bullet.resetBasePositionAndOrientation(floor, [*shift, 0.0], [0.0, 0.0, 0.0, 1.0], client)

    def close(self) -> None:
        """Give the client back; may be called twice."""
        self._disconnect()
