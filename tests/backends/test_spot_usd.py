"""Spot as USD: the table's numbers are in the text; with a USD library it parses and is a whole articulation."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from adc_wrappers.backends.spot_model import FOOT_NAMES, JOINT_NAMES, LINK_NAMES, SPOT, spot_usd
from adc_wrappers.backends.spot_model.usd import FOOT_MASS, _matrix, _quaternion, _rotation, _steiner, with_foot_masses


def test_links_and_joints_are_there_by_name():
    text = spot_usd()
    assert set(re.findall(r'def Xform "(\w+)"', text)) == {"spot", *LINK_NAMES}
    assert tuple(re.findall(r'def PhysicsRevoluteJoint "(\w+)"', text)) == JOINT_NAMES
    assert text.count("PhysicsDriveAPI:angular") == 12
    assert text.count("PhysicsArticulationRootAPI") == 1
    assert text.count("{") == text.count("}")


def test_masses_add_up():
    masses = [float(value) for value in re.findall(r"physics:mass = (\S+)", spot_usd())]
    assert sum(masses) == pytest.approx(SPOT.total_mass, rel=1e-8)
    assert min(masses) == FOOT_MASS


def test_leg_and_foot_together_are_the_tables_leg():
    heavy = with_foot_masses()
    for joint in (joint for joint in SPOT.joints if joint.axis is None):
        whole, leg, foot = SPOT.link(joint.parent), heavy.link(joint.parent), heavy.link(joint.child)
        parts = ((leg, np.array(leg.com)), (foot, np.array(joint.origin)))
        assert leg.mass + foot.mass == pytest.approx(whole.mass)
        com = sum(part.mass * place for part, place in parts) / whole.mass
        np.testing.assert_allclose(com, whole.com, atol=1e-15)
        inertia = sum(_matrix(part.inertia) + part.mass * _steiner(place - com) for part, place in parts)
        np.testing.assert_allclose(inertia, _matrix(whole.inertia), atol=1e-15)
        assert (np.linalg.eigvalsh(_matrix(leg.inertia)) > 0).all()


def test_principal_axes_give_back_the_inertia():
    heavy, text = with_foot_masses(), spot_usd()
    moments = re.findall(r"diagonalInertia = \((.*)\)", text)
    axes = re.findall(r"principalAxes = \((.*)\)", text)
    for link, diagonal, quaternion in zip(heavy.links, moments, axes, strict=True):
        w, x, y, z = (float(value) for value in quaternion.split(","))
        cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        turn = np.eye(3) + 2 * (w * cross + cross @ cross)
        found = turn @ np.diag([float(value) for value in diagonal.split(",")]) @ turn.T
        np.testing.assert_allclose(found, _matrix(link.inertia), atol=1e-8)


@pytest.mark.parametrize("rpy", [(0.3, -0.2, 0.0), (0.0, 3.1, 1.0), (np.pi, 0.0, 0.0)])
def test_quaternions_turn_as_their_matrices(rpy):
    matrix = _rotation(rpy)
    w, x, y, z = _quaternion(matrix)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    np.testing.assert_allclose(np.eye(3) + 2 * (w * cross + cross @ cross), matrix, atol=1e-12)


def test_self_collision_leaves_out_the_tables_pairs():
    assert "filteredPairs" not in spot_usd()
    text = spot_usd(self_collision=True)
    assert text.count("_uleg>") > spot_usd().count("_uleg>")
    assert "physxArticulation:enabledSelfCollisions = 1" in text


def test_what_cannot_be_written_is_refused():
    with pytest.raises(ValueError, match="friction"):
        spot_usd(friction=-1.0)
    tilted = tuple(dataclasses.replace(joint, axis=(0.6, 0.8, 0.0)) if joint.axis else joint for joint in SPOT.joints)
    with pytest.raises(ValueError, match="axis along x, y or z"):
        spot_usd(dataclasses.replace(SPOT, joints=tilted))


def test_a_usd_library_reads_it(tmp_path):
    usd = pytest.importorskip("pxr.Usd", reason="needs a USD library")
    file = tmp_path / "spot.usda"
    file.write_text(spot_usd(visuals=False))
    stage = usd.Stage.Open(str(file))
    assert stage.GetDefaultPrim().GetName() == "spot"
    for name in FOOT_NAMES:
        assert stage.GetPrimAtPath(f"/spot/{name}/collision_0").GetTypeName() == "Sphere"
