"""One Spot: the table, MJCF compiled by MuJoCo and URDF loaded by PyBullet are the same robot."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pybullet
import pytest
from spot_model_helpers import (
    HANDSTAND,
    NATIVE_STAND,
    NOSE_DOWN,
    Bullet,
    Mujoco,
    random_poses,
    rotation,
    spot_in_mujoco,
    spot_in_pybullet,
    tensor,
    wxyz,
)

from adc_wrappers.backends.spot_model import (
    FOOT_NAMES,
    HIP_TORQUE_LIMIT,
    JOINT_NAMES,
    KNEE_PEAK_TORQUE,
    LINK_NAMES,
    NOMINAL_POSE,
    SPOT,
    foot_positions,
    link_poses,
    spot_urdf,
    standing_height,
)

mj = pytest.fixture(scope="module")(spot_in_mujoco)
bullet = pytest.fixture(scope="module")(spot_in_pybullet)


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
