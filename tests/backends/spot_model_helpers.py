"""Spot as MuJoCo and as PyBullet load it, for tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pybullet
import pytest
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.spot_model import SPOT, LinkSpec, RobotSpec, spot_mjcf, spot_urdf

Array = NDArray[np.float64]

NOSE_DOWN = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
"""Quaternion (w, x, y, z) of a quarter turn about y: the nose points down."""
HANDSTAND = (0.1, -0.85, -1.3, -0.1, -0.85, -1.3, 0.1, 0.9, -1.2, -0.1, 0.9, -1.2)
NATIVE_STAND = (0.125, 0.72, -1.46, -0.125, 0.72, -1.46) * 2
"""About the pose in which real robots stand."""


def rotation(quaternion: ArrayLike) -> Array:
    """Rotation matrix of a quaternion (w, x, y, z)."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, np.asarray(quaternion, dtype=np.float64))
    return matrix.reshape(3, 3)


def wxyz(xyzw: ArrayLike) -> Array:
    """PyBullet's quaternions end with w, MuJoCo's begin with it."""
    return np.roll(np.asarray(xyzw, dtype=np.float64), 1)


class Mujoco:
    """Spot compiled by MuJoCo."""

    def __init__(self, **options: Any) -> None:
        self.model = mujoco.MjModel.from_xml_string(spot_mjcf(**options))
        self.data = mujoco.MjData(self.model)

    def place(self, position: ArrayLike, quaternion: ArrayLike, joints: ArrayLike) -> None:
        self.data.qpos[:] = np.concatenate([position, quaternion, joints])
        mujoco.mj_forward(self.model, self.data)

    def link_pose(self, name: str) -> tuple[Array, Array]:
        body = self.data.body(name)
        return body.xpos.copy(), body.xmat.reshape(3, 3).copy()

    def inertial(self, name: str) -> tuple[float, Array, Array]:
        """Mass, centre of mass and inertia tensor in the link's frame."""
        body = self.model.body(name)
        axes = rotation(body.iquat)
        return float(body.mass[0]), body.ipos.copy(), axes @ np.diag(body.inertia) @ axes.T

    def touching(self) -> set[str]:
        """Links that touch the ground."""
        ground = self.model.geom("ground").id
        pairs = [(int(c.geom[0]), int(c.geom[1])) for c in self.data.contact]
        geoms = [b if a == ground else a for a, b in pairs if ground in (a, b)]
        return {self.model.body(self.model.geom_bodyid[geom]).name for geom in geoms}

    def mass_matrix(self) -> Array:
        matrix = np.zeros((self.model.nv, self.model.nv))
        mujoco.mj_fullM(self.model, self.data, matrix)
        return matrix


class Bullet:
    """Spot loaded by PyBullet, above a plane."""

    def __init__(self, folder: Path, robot: RobotSpec = SPOT) -> None:
        self.client = pybullet.connect(pybullet.DIRECT)
        path = folder / "spot.urdf"
        path.write_text(spot_urdf(robot))
        self.call: Callable[..., Any] = lambda name, *args, **kw: getattr(pybullet, name)(
            *args, physicsClientId=self.client, **kw
        )
        self.robot = self.call("loadURDF", str(path), flags=pybullet.URDF_USE_INERTIA_FROM_FILE)
        plane = self.call("createCollisionShape", pybullet.GEOM_PLANE)
        self.ground = self.call("createMultiBody", 0.0, plane)
        self.infos = [self.call("getJointInfo", self.robot, i) for i in range(self.call("getNumJoints", self.robot))]
        self.links = {"body": -1, **{info[12].decode(): info[0] for info in self.infos}}
        self.moving = [info for info in self.infos if info[2] != pybullet.JOINT_FIXED]

    def place(self, position: ArrayLike, quaternion: ArrayLike, joints: ArrayLike) -> None:
        """Put the body link's origin there; PyBullet itself counts from the body's centre of mass."""
        com = self.call("getDynamicsInfo", self.robot, -1)[3]
        centre = np.asarray(position) + rotation(quaternion) @ com
        self.call("resetBasePositionAndOrientation", self.robot, centre, np.roll(np.asarray(quaternion), -1))
        for info, angle in zip(self.moving, np.asarray(joints), strict=True):
            self.call("resetJointState", self.robot, info[0], angle)

    def link_pose(self, name: str) -> tuple[Array, Array]:
        state = self.call("getLinkState", self.robot, self.links[name], computeForwardKinematics=True)
        return np.array(state[4]), rotation(wxyz(state[5]))

    def inertial(self, name: str) -> tuple[float, Array, Array]:
        info = self.call("getDynamicsInfo", self.robot, self.links[name])
        axes = rotation(wxyz(info[4]))
        return info[0], np.array(info[3]), axes @ np.diag(info[2]) @ axes.T

    def touching(self) -> set[str]:
        self.call("performCollisionDetection")
        points = self.call("getContactPoints", self.robot, self.ground)
        names = {index: name for name, index in self.links.items()}
        return {names[point[3]] for point in points if point[8] <= 0.0}


def spot_in_mujoco() -> Mujoco:
    return Mujoco()


def spot_in_pybullet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bullet]:
    robot = Bullet(tmp_path_factory.mktemp("spot"))
    yield robot
    robot.call("disconnect")


def random_poses(count: int) -> Array:
    """Joint angles inside the limits."""
    lower = [joint.lower for joint in SPOT.actuated]
    upper = [joint.upper for joint in SPOT.actuated]
    return np.random.default_rng(7).uniform(lower, upper, (count, len(lower)))


def tensor(link: LinkSpec) -> Array:
    xx, yy, zz, xy, xz, yz = link.inertia
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
