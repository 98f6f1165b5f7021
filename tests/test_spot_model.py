"""One Spot: the table, MJCF compiled by MuJoCo and URDF loaded by PyBullet are the same robot."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pybullet
import pytest
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.spot_model import (
    FOOT_NAMES,
    FOOT_RADIUS,
    HIP_TORQUE_LIMIT,
    JOINT_NAMES,
    KNEE_ANGLES,
    KNEE_PEAK_TORQUE,
    KNEE_TORQUES,
    LINK_NAMES,
    NOMINAL_POSE,
    SPOT,
    LinkSpec,
    RobotSpec,
    ShapeSpec,
    foot_positions,
    knee_torque_limit,
    link_poses,
    spot_mjcf,
    spot_urdf,
    standing_height,
)

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


@pytest.fixture(scope="module")
def mj() -> Mujoco:
    return Mujoco()


@pytest.fixture(scope="module")
def bullet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bullet]:
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


# --- the table against its source --------------------------------------------------------------------------------


def test_names_are_leg_by_leg_in_sdk_order() -> None:
    expected = "fl_hx fl_hy fl_kn fr_hx fr_hy fr_kn hl_hx hl_hy hl_kn hr_hx hr_hy hr_kn"
    assert expected.split() == list(JOINT_NAMES)
    assert tuple(joint.name for joint in SPOT.actuated) == JOINT_NAMES
    assert tuple(link.name for link in SPOT.links) == LINK_NAMES
    assert len(LINK_NAMES) == 17


def test_total_mass_is_31_6_kg() -> None:
    assert SPOT.total_mass == pytest.approx(31.6, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "com", "products"),
    [
        ("fl_hip", (-0.01586739, 0.00855842, 0.00000903), (-0.00017754, 0.00000043, -0.00000049)),
        ("fr_hip", (-0.01586739, -0.00855842, 0.00000903), (0.00017754, 0.00000043, 0.00000049)),
        ("hl_hip", (0.01586739, 0.00855842, 0.00000903), (0.00017754, -0.00000043, -0.00000049)),
        ("hr_hip", (0.01586739, -0.00855842, 0.00000903), (-0.00017754, -0.00000043, 0.00000049)),
        ("hl_uleg", (0.00214442, -0.01110184, -0.07881204), (-0.00008782, 0.00054873, 0.00207146)),
        ("fr_uleg", (0.00214442, 0.01110184, -0.07881204), (0.00008782, 0.00054873, -0.00207146)),
        ("hr_lleg", (0.00597360, 0.0, -0.17466427), (0.0, 0.00006600, 0.0)),
    ],
)
def test_signs_of_the_legs_are_those_of_the_sdk(name: str, com: tuple[float, ...], products: tuple[float, ...]) -> None:
    link = SPOT.link(name)
    assert link.com == pytest.approx(com, abs=1e-12)
    assert link.inertia[3:] == pytest.approx(products, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "origin", "lower", "upper"),
    [
        ("fl_hx", (0.29785, 0.055, 0.0), -0.785398, 0.785398),
        ("hr_hx", (-0.29785, -0.055, 0.0), -0.785398, 0.785398),
        ("fr_hy", (0.0, -0.110945, 0.0), -0.898845, 2.295108),
        ("hl_kn", (0.025, 0.0, -0.3205), -2.7929, -0.2471),
    ],
)
def test_joints_are_those_of_the_sdk(name: str, origin: tuple[float, ...], lower: float, upper: float) -> None:
    joint = SPOT.actuated[JOINT_NAMES.index(name)]
    assert (joint.origin, joint.lower, joint.upper, joint.armature) == (origin, lower, upper, 0.0)


def test_left_and_right_are_mirror_images() -> None:
    mirror = np.diag([1.0, -1.0, 1.0])

    def along(shape: ShapeSpec) -> Array:
        """The shape's z axis."""
        roll, pitch, _ = shape.rpy
        return np.array(
            [math.sin(pitch) * math.cos(roll), -math.sin(roll), math.cos(pitch) * math.cos(roll)], dtype=np.float64
        )

    for left in SPOT.links[1:]:
        if left.name[1] == "r":
            continue
        right = SPOT.link(left.name[0] + "r" + left.name[2:])
        assert right.mass == left.mass
        np.testing.assert_allclose(right.com, mirror @ left.com, atol=1e-15)
        np.testing.assert_allclose(tensor(right), mirror @ tensor(left) @ mirror, atol=1e-15)
        shapes = zip((*left.collision, *left.visual), (*right.collision, *right.visual), strict=True)
        for one, other in shapes:
            assert (one.kind, one.color) == (other.kind, other.color)
            np.testing.assert_allclose(other.size, one.size, atol=1e-15)
            np.testing.assert_allclose(other.position, mirror @ one.position, atol=1e-15)
            np.testing.assert_allclose(along(other), mirror @ along(one), atol=1e-12)


def test_mirrored_angles_give_mirrored_feet() -> None:
    for pose in (np.array(NOMINAL_POSE), *random_poses(3)):
        legs = pose.reshape(4, 3)
        swapped = (legs[[1, 0, 3, 2]] * [-1.0, 1.0, 1.0]).ravel()
        np.testing.assert_allclose(
            foot_positions(swapped)[[1, 0, 3, 2]], foot_positions(pose) * [1.0, -1.0, 1.0], atol=1e-12
        )
    np.testing.assert_array_equal(
        np.reshape(NOMINAL_POSE, (4, 3))[[1, 3], 1:], np.reshape(NOMINAL_POSE, (4, 3))[[0, 2], 1:]
    )
    assert [NOMINAL_POSE[i] for i in (0, 3, 6, 9)] == [0.1, -0.1, 0.1, -0.1]


def test_inertias_are_physical() -> None:
    for link in SPOT.links:
        if link.mass > 0.0:
            a, b, c = np.linalg.eigvalsh(tensor(link))
            assert a > 0.0
            assert a + b >= c


# --- the knee ----------------------------------------------------------------------------------------------------


def test_knee_table_has_the_sources_ends_peak_and_spacing() -> None:
    assert KNEE_ANGLES.shape == KNEE_TORQUES.shape == (101,)
    np.testing.assert_allclose(np.diff(KNEE_ANGLES), 0.025458, atol=1e-12)
    np.testing.assert_allclose(knee_torque_limit([-2.7929, -0.2471]), [37.165077, 30.6025], atol=1e-9)
    assert pytest.approx(113.236015) == KNEE_PEAK_TORQUE
    assert KNEE_ANGLES[KNEE_TORQUES.argmax()] == pytest.approx(-1.443626, abs=1e-9)
    assert knee_torque_limit(-1.01084) == pytest.approx(102.372505, abs=1e-6)


def test_knee_limit_rises_to_its_peak_then_falls_and_stays_near_the_quartic_fit() -> None:
    angles = np.linspace(-2.7929, -0.2471, 4001)
    limits = knee_torque_limit(angles)
    peak = int(limits.argmax())
    assert (np.diff(limits[: peak + 1]) > 0.0).all()
    assert (np.diff(limits[peak:]) < 0.0).all()
    fit = np.polyval([4.05218, 17.4423, -31.8942, -152.3839, -5.5081], angles)
    assert np.abs(limits - fit).max() < 0.71


def test_knee_limit_keeps_shape_clamps_outside_and_passes_nan_on() -> None:
    assert knee_torque_limit(np.full((3, 4), -1.0)).shape == (3, 4)
    np.testing.assert_allclose(knee_torque_limit([-9.0, 9.0]), [37.165077, 30.6025])
    assert np.isnan(knee_torque_limit(math.nan))


# --- both engines against the table ------------------------------------------------------------------------------


def test_joint_names_order_and_limits_agree(mj: Mujoco, bullet: Bullet) -> None:
    joints = [mj.model.joint(i) for i in range(1, mj.model.njnt)]
    assert [joint.name for joint in joints] == list(JOINT_NAMES)
    assert [joint.qposadr[0] for joint in joints] == list(range(7, 19))
    assert [mj.model.actuator(i).name for i in range(mj.model.nu)] == list(JOINT_NAMES)
    assert [info[1].decode() for info in bullet.moving] == list(JOINT_NAMES)
    for spec, joint, info in zip(SPOT.actuated, joints, bullet.moving, strict=True):
        np.testing.assert_allclose(joint.range, [spec.lower, spec.upper], atol=1e-9)
        np.testing.assert_allclose(info[8:10], [spec.lower, spec.upper], atol=1e-9)


def test_torque_limits_agree(mj: Mujoco, bullet: Bullet) -> None:
    expected = [KNEE_PEAK_TORQUE if name.endswith("kn") else 45.0 for name in JOINT_NAMES]
    assert HIP_TORQUE_LIMIT == 45.0
    np.testing.assert_allclose(mj.model.actuator_forcerange, np.outer(expected, [-1.0, 1.0]), atol=1e-9)
    np.testing.assert_allclose([info[10] for info in bullet.moving], expected, atol=1e-9)


def test_joint_axes_agree(mj: Mujoco, bullet: Bullet) -> None:
    for spec, info in zip(SPOT.actuated, bullet.moving, strict=True):
        assert spec.axis == ((1.0, 0.0, 0.0) if spec.name.endswith("hx") else (0.0, 1.0, 0.0))
        np.testing.assert_allclose(mj.model.joint(spec.name).axis, spec.axis, atol=1e-12)
        principal = rotation(wxyz(bullet.call("getDynamicsInfo", bullet.robot, info[0])[4]))
        np.testing.assert_allclose(principal @ info[13], spec.axis, atol=1e-9)  # reported in the principal axes


def test_links_and_their_masses_and_inertias_agree(mj: Mujoco, bullet: Bullet) -> None:
    assert {mj.model.body(i).name for i in range(1, mj.model.nbody)} == set(bullet.links) == set(LINK_NAMES)
    for link in SPOT.links:
        for engine in (mj, bullet):
            mass, com, inertia = engine.inertial(link.name)
            assert mass == pytest.approx(link.mass, abs=1e-9), (engine, link.name)
            if link.mass > 0.0:
                np.testing.assert_allclose(com, link.com, atol=1e-9)
                np.testing.assert_allclose(inertia, tensor(link), atol=2e-9)
    assert mj.model.body_subtreemass[0] == pytest.approx(31.6, abs=1e-6)


def test_all_links_are_where_the_table_says(mj: Mujoco, bullet: Bullet) -> None:
    generator = np.random.default_rng(3)
    for joints in (np.zeros(12), np.array(NOMINAL_POSE), *random_poses(6)):
        position = generator.normal(size=3)
        quaternion = generator.normal(size=4)
        quaternion /= np.linalg.norm(quaternion)
        base = rotation(quaternion)
        mj.place(position, quaternion, joints)
        bullet.place(position, quaternion, joints)
        for name, pose in link_poses(joints).items():
            for engine in (mj, bullet) if name != "body" else (mj,):
                where, turned = engine.link_pose(name)
                np.testing.assert_allclose(where, position + base @ pose[:3, 3], atol=1e-6)
                np.testing.assert_allclose(turned, base @ pose[:3, :3], atol=1e-6)
        feet = [engine.link_pose(foot)[0] for engine in (mj, bullet) for foot in FOOT_NAMES]
        np.testing.assert_allclose(feet[:4], feet[4:], atol=1e-6)


def test_joint_space_inertia_agrees(mj: Mujoco, bullet: Bullet) -> None:
    """The joints' block of the floating base's 18×18 matrix: six rows for the base come first in both engines.

    A diagonal entry is the inertia about one joint with everything else held still, so it is the same with a fixed
    base. PyBullet is given the 12 joint angles; it accepts 7 + 12 numbers too and misreads them.
    """
    mj.place((0.0, 0.0, 1.0), (1.0, 0.0, 0.0, 0.0), NOMINAL_POSE)
    bullet.place((0.0, 0.0, 1.0), (1.0, 0.0, 0.0, 0.0), NOMINAL_POSE)
    ours = mj.mass_matrix()
    theirs = np.array(bullet.call("calculateMassMatrix", bullet.robot, list(NOMINAL_POSE)))
    assert ours.shape == theirs.shape == (18, 18)
    np.testing.assert_allclose(np.diag(theirs)[6:], np.diag(ours)[6:], rtol=0.01)
    np.testing.assert_allclose(theirs[6:, 6:], ours[6:, 6:], atol=1e-6)
    front, hind = (0.09397843, 0.09538096, 0.01717875), (0.08061359, 0.09538096, 0.01717875)
    np.testing.assert_allclose(np.diag(ours)[6:], [*front, *front, *hind, *hind], rtol=1e-5)
    fixed = Mujoco(fixed_base=True)
    fixed.data.qpos[:] = NOMINAL_POSE
    mujoco.mj_forward(fixed.model, fixed.data)
    np.testing.assert_allclose(np.diag(fixed.mass_matrix()), np.diag(ours)[6:], rtol=1e-9)


def test_native_stand_has_the_known_height_feet_mass_centre_and_inertia(mj: Mujoco) -> None:
    """Numbers computed beforehand from the SDK's model, independently of this table."""
    assert standing_height(NATIVE_STAND) == pytest.approx(0.5203, abs=1e-4)
    feet = foot_positions(NATIVE_STAND)
    np.testing.assert_allclose(feet[:, 0], [0.3314, 0.3314, -0.2643, -0.2643], atol=1e-4)
    np.testing.assert_allclose(feet[:, 1], [0.2280, -0.2280, 0.2280, -0.2280], atol=1e-4)
    mj.place((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), NATIVE_STAND)
    centre = mj.data.subtree_com[1]
    np.testing.assert_allclose(centre, [-0.0173, 0.0, -0.0314], atol=1e-4)
    inertia = np.zeros((3, 3))
    poses = link_poses(NATIVE_STAND)
    for link in SPOT.links:
        turn, shift = poses[link.name][:3, :3], poses[link.name][:3, 3]
        arm = shift + turn @ link.com - centre
        inertia += turn @ tensor(link) @ turn.T + link.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    np.testing.assert_allclose(np.diag(inertia), [0.6505, 2.1503, 2.2573], atol=1e-4)


def test_collision_shapes_are_in_the_same_place(mj: Mujoco, bullet: Bullet) -> None:
    kinds = {
        mujoco.mjtGeom.mjGEOM_BOX: pybullet.GEOM_BOX,
        mujoco.mjtGeom.mjGEOM_SPHERE: pybullet.GEOM_SPHERE,
        mujoco.mjtGeom.mjGEOM_CAPSULE: pybullet.GEOM_CAPSULE,
    }
    for link in SPOT.links:
        geom = mj.model.geom(link.name)
        index = bullet.links[link.name]
        (data,) = bullet.call("getCollisionShapeData", bullet.robot, index)
        info = bullet.call("getDynamicsInfo", bullet.robot, index)
        axes = rotation(wxyz(info[4]))
        assert data[2] == kinds[mujoco.mjtGeom(int(geom.type[0]))]
        np.testing.assert_allclose(info[3] + axes @ data[5], geom.pos, atol=1e-6)
        if data[2] == pybullet.GEOM_BOX:
            np.testing.assert_allclose(data[3], 2.0 * geom.size, atol=1e-6)
        else:
            assert data[3][1 if data[2] == pybullet.GEOM_CAPSULE else 0] == pytest.approx(geom.size[0], abs=1e-6)
        if data[2] == pybullet.GEOM_CAPSULE:
            assert data[3][0] == pytest.approx(2.0 * geom.size[1], abs=1e-6)
            along = (axes @ rotation(wxyz(data[6])))[:, 2]
            np.testing.assert_allclose(along, rotation(geom.quat)[:, 2], atol=1e-6)


def test_a_shape_turned_about_three_axes_is_turned_alike(tmp_path: Path) -> None:
    body = SPOT.links[0]
    turned = dataclasses.replace(body, collision=(dataclasses.replace(body.collision[0], rpy=(0.3, 0.5, 0.7)),))
    robot = dataclasses.replace(SPOT, links=(turned, *SPOT.links[1:]))
    mj, bullet = Mujoco(robot=robot), Bullet(tmp_path, robot)
    (data,) = bullet.call("getCollisionShapeData", bullet.robot, -1)
    bullet.call("disconnect")
    np.testing.assert_allclose(rotation(mj.model.geom("body").quat), rotation(wxyz(data[6])), atol=1e-6)


def test_capsules_end_where_they_were_told_to(mj: Mujoco) -> None:
    """A slanted drawn one (roll and pitch) and the shank's."""
    thigh = mj.model.body("fr_uleg").geomadr[0] + 2  # after the collision shape and one drawn shape
    shank = mj.model.geom("fl_lleg").id
    expected = {thigh: [(-0.004, -0.01, -0.1), (0.012, -0.006, -0.3)], shank: [(0.003, 0.0, 0.01), (0.018, 0.0, -0.31)]}
    for geom, ends in expected.items():
        reach = rotation(mj.model.geom_quat[geom])[:, 2] * mj.model.geom_size[geom, 1]
        np.testing.assert_allclose([mj.model.geom_pos[geom] - reach, mj.model.geom_pos[geom] + reach], ends, atol=1e-9)


# --- contacts ----------------------------------------------------------------------------------------------------


LEGS_UP = (0.0, 2.2, -0.3)


@pytest.mark.parametrize(
    ("front", "hind", "nose_down", "first", "expected"),
    [
        (NATIVE_STAND[:3], NATIVE_STAND[:3], False, "foot", "fl_foot fr_foot hl_foot hr_foot"),
        (HANDSTAND[:3], HANDSTAND[6:9], True, "foot", "fl_foot fr_foot"),
        ((0.0, -0.6, -2.79), LEGS_UP, False, "uleg", "fl_uleg fr_uleg"),  # on folded knees
        ((0.0, 0.6, -2.17), LEGS_UP, False, "lleg", "fl_foot fr_foot fl_lleg fr_lleg fl_uleg fr_uleg"),  # shanks level
        (LEGS_UP, LEGS_UP, False, "body", "body"),
    ],
    ids=["stand", "handstand", "knees", "shanks", "belly"],
)
def test_contacts_name_the_link_in_both_engines(
    mj: Mujoco,
    bullet: Bullet,
    front: tuple[float, ...],
    hind: tuple[float, ...],
    nose_down: bool,
    first: str,
    expected: str,
) -> None:
    """Lower the robot until the named link is 1 mm deep in the ground; exactly the expected links touch it."""
    mirror = np.array([-1.0, 1.0, 1.0])
    joints = np.concatenate([front, front * mirror, hind, hind * mirror])
    quaternion = NOSE_DOWN if nose_down else (1.0, 0.0, 0.0, 0.0)
    mj.place((0.0, 0.0, 2.0), quaternion, joints)
    lowest = _lowest_point(mj, mj.model.geom(first if first == "body" else f"fl_{first}").id)
    for engine in (mj, bullet):
        engine.place((0.0, 0.0, 2.0 - lowest - 0.001), quaternion, joints)
        assert engine.touching() == set(expected.split()), type(engine).__name__
        engine.place((0.0, 0.0, 4.0), quaternion, joints)
        assert engine.touching() == set(), type(engine).__name__


def _lowest_point(mj: Mujoco, geom: int) -> float:
    centre, frame, size = mj.data.geom_xpos[geom], mj.data.geom_xmat[geom].reshape(3, 3), mj.model.geom_size[geom]
    kind = mujoco.mjtGeom(int(mj.model.geom_type[geom]))
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return float(centre[2] - np.abs(frame[2]) @ size)
    reach = size[1] * abs(frame[2, 2]) if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0
    return float(centre[2] - size[0] - reach)


def test_handstand_has_the_nose_down(mj: Mujoco) -> None:
    mj.place((0.0, 0.0, 1.0), NOSE_DOWN, HANDSTAND)
    turned = mj.link_pose("body")[1]
    np.testing.assert_allclose(turned.T @ [0.0, 0.0, -1.0], [1.0, 0.0, 0.0], atol=1e-12)
    nose, tail = (turned @ [x, 0.0, 0.0] for x in (0.43, -0.43))
    assert nose[2] < tail[2]


def test_links_collide_with_each_other_only_on_request() -> None:
    crossed = (-0.6, 0.6, -1.2, 0.6, 0.6, -1.2, 0.0, 0.6, -1.2, 0.0, 0.6, -1.2)
    upright = (1.0, 0.0, 0.0, 0.0)
    for wanted in (False, True):
        robot = Mujoco(self_collision=wanted)
        robot.place((0.0, 0.0, 3.0), upright, crossed)
        assert (robot.data.ncon > 0) is wanted
        for pose in (NOMINAL_POSE, NATIVE_STAND, HANDSTAND):
            robot.place((0.0, 0.0, 3.0), upright, pose)
            assert robot.data.ncon == 0
        robot.place((0.0, 0.0, standing_height(NOMINAL_POSE) - 0.001), upright, NOMINAL_POSE)
        assert robot.touching() == {"fl_foot", "fr_foot"}


def test_contact_sensors_carry_the_weight() -> None:
    robot = Mujoco(contact_sensors=True, stiffness=400.0, damping=12.0)
    mujoco.mj_resetDataKeyframe(robot.model, robot.data, 0)
    mujoco.mj_step(robot.model, robot.data, 1500)
    mujoco.mj_forward(robot.model, robot.data)
    found = {name: robot.data.sensor(f"touch_{name}").data for name in LINK_NAMES}
    assert {name for name, data in found.items() if data[0] > 0} == set(FOOT_NAMES)
    assert sum(float(data[3]) for data in found.values()) == pytest.approx(-31.6 * 9.81, rel=0.01)


def test_friction_of_a_contact_is_the_robots(bullet: Bullet) -> None:
    robot = Mujoco(friction=0.35)
    robot.place((0.0, 0.0, standing_height(NOMINAL_POSE) - 0.001), (1.0, 0.0, 0.0, 0.0), NOMINAL_POSE)
    assert robot.data.ncon == 2
    assert [contact.friction[0] for contact in robot.data.contact] == pytest.approx([0.35, 0.35])
    assert '<lateral_friction value="0.35" />' in spot_urdf(friction=0.35)
    foot = bullet.call("getDynamicsInfo", bullet.robot, bullet.links["fl_foot"])
    assert foot[1] == pytest.approx(0.8)


# --- what the generators promise ---------------------------------------------------------------------------------


def test_actuators_are_the_pd_law_with_torque_limits() -> None:
    robot = Mujoco(fixed_base=True, stiffness=50.0, damping=2.0)
    generator = np.random.default_rng(1)
    for scale in (0.3, 5.0):
        robot.data.qpos[:] = NOMINAL_POSE
        robot.data.qvel[:] = generator.normal(size=12)
        robot.data.ctrl[:] = NOMINAL_POSE + scale * generator.normal(size=12)
        mujoco.mj_forward(robot.model, robot.data)
        torque = 50.0 * (robot.data.ctrl - robot.data.qpos) - 2.0 * robot.data.qvel
        limit = np.tile([45.0, 45.0, KNEE_PEAK_TORQUE], 4)
        np.testing.assert_allclose(robot.data.actuator_force, np.clip(torque, -limit, limit), atol=1e-9)
        assert (np.abs(torque) > limit).any() == (scale > 1.0)
    np.testing.assert_allclose(robot.data.qfrc_actuator, robot.data.actuator_force)


def test_options_reach_the_compiled_model() -> None:
    plain = Mujoco()
    assert plain.model.opt.timestep == 0.002
    assert plain.model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert plain.model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert plain.model.opt.impratio == 10.0
    assert plain.model.geom("fl_foot").solref == pytest.approx([0.004, 1.0])
    assert plain.model.nv == 18
    assert plain.model.actuator_gainprm[0, 0] == 60.0
    armoured = dataclasses.replace(
        SPOT, joints=tuple(dataclasses.replace(j, armature=0.01) if j.axis else j for j in SPOT.joints)
    )
    other = Mujoco(
        robot=armoured, timestep=0.004, integrator="Euler", fixed_base=True, ground=False, visuals=False,
        cone="pyramidal", impratio=2.0, solref=(0.02, 0.9),
    )  # fmt: skip
    assert other.model.opt.timestep == 0.004
    assert other.model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    assert other.model.opt.impratio == 2.0
    assert other.model.geom("fl_foot").solref == pytest.approx([0.02, 0.9])
    assert other.model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER
    assert other.model.nv == 12
    assert other.model.ngeom == len(LINK_NAMES)
    assert other.model.dof_armature == pytest.approx(0.01)
    assert plain.model.dof_armature == pytest.approx(0.0)
    assert mujoco.mj_name2id(other.model, mujoco.mjtObj.mjOBJ_GEOM, "ground") == -1
    assert "<visual>" not in spot_urdf(visuals=False)


def test_keyframe_stands_on_its_lowest_feet(mj: Mujoco) -> None:
    mujoco.mj_resetDataKeyframe(mj.model, mj.data, mj.model.key("nominal").id)
    mujoco.mj_forward(mj.model, mj.data)
    np.testing.assert_allclose(mj.data.qpos[7:], NOMINAL_POSE, atol=1e-9)
    np.testing.assert_allclose(mj.data.ctrl, NOMINAL_POSE, atol=1e-9)
    feet = [mj.data.body(name).xpos[2] for name in FOOT_NAMES]
    assert min(feet) == pytest.approx(FOOT_RADIUS, abs=1e-9)


def test_drawn_robot_has_spots_size_and_colours(mj: Mujoco) -> None:
    """The data sheet says 1.1 m long and 0.5 m wide."""
    mj.place((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), NOMINAL_POSE)
    drawn = [i for i in range(mj.model.ngeom) if mj.model.geom_group[i] == 2]
    corners = []
    for geom in drawn:
        centre = mj.data.geom_xpos[geom] + mj.data.geom_xmat[geom].reshape(3, 3) @ mj.model.geom_aabb[geom, :3]
        reach = np.abs(mj.data.geom_xmat[geom].reshape(3, 3)) @ mj.model.geom_aabb[geom, 3:]
        corners += [centre - reach, centre + reach]
    length, width, _ = np.max(corners, axis=0) - np.min(corners, axis=0)
    assert length == pytest.approx(1.1, abs=0.1)
    assert width == pytest.approx(0.5, abs=0.05)
    yellow = [shape for shape in SPOT.link("body").visual if shape.color[0] > 0.9 and shape.color[2] < 0.2]
    assert max(math.prod(shape.size) for shape in yellow if shape.kind == "box") > 0.006
    face = [shape for shape in SPOT.link("body").visual if abs(shape.position[0]) > 0.41]
    assert face
    assert all(shape.position[0] > 0.0 and max(shape.color) <= 0.5 for shape in face)  # dark, and only in front


@pytest.mark.parametrize(
    "options",
    [
        {"timestep": 0.0},
        {"timestep": math.nan},
        {"stiffness": -1.0},
        {"damping": math.inf},
        {"friction": -0.1},
        {"integrator": "leapfrog"},
        {"cone": "square"},
        {"impratio": 0.0},
    ],
)
def test_bad_options_raise(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        spot_mjcf(**options)


def test_other_bad_arguments_raise() -> None:
    with pytest.raises(ValueError, match="friction"):
        spot_urdf(friction=math.nan)
    with pytest.raises(ValueError, match="12 joint positions"):
        link_poses(np.zeros(7))
    with pytest.raises(KeyError, match="no link 'tail'"):
        SPOT.link("tail")


@pytest.mark.parametrize("name", ["knee", "kinematics"])
def test_examples_in_docstrings_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"adc_wrappers.backends.spot_model.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_no_engine_is_imported() -> None:
    code = (
        "import sys, adc_wrappers.backends.spot_model as s; s.spot_mjcf(); s.spot_urdf();"
        "assert not {'mujoco', 'pybullet'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
