"""The table as URDF, for PyBullet and other readers."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

from .table import PLANE_JOINTS, SPOT, JointSpec, LinkSpec, RobotSpec, ShapeSpec

__all__ = ["spot_urdf"]

_INERTIA = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")


def spot_urdf(
    robot: RobotSpec = SPOT, *, friction: float = 0.8, visuals: bool = True, plane_joints: bool = False
) -> str:
    """Write Spot as URDF.

    Load it in PyBullet with ``flags=URDF_USE_INERTIA_FROM_FILE``: without that flag PyBullet invents inertias from the
    collision shapes. Keep the joint order by name, not by index: the four fixed ``*_ankle`` joints count in PyBullet's
    indices. PyBullet's base position is the centre of mass of the body link, not the link's origin. Links collide with
    each other only if loaded with ``URDF_USE_SELF_COLLISION``; then switch off the table's ``never_touch`` pairs.

    Args:
        robot: The table.
        friction: Sliding friction of every link. PyBullet multiplies it with the ground's, so give the ground 1.
        visuals: Draw the robot's shell. Without it readers draw the collision shapes or nothing.
        plane_joints: Carry the base on two slides and a hinge, for a planar robot: URDF has no planar joint that
            PyBullet reads. The root link ``world`` is to be loaded with a fixed base.

    Returns:
        The XML text. Capsules and ``<contact>`` are extensions that PyBullet reads.

    Raises:
        ValueError: The friction is negative or not finite.
    """
    if not (math.isfinite(friction) and friction >= 0.0):
        raise ValueError(f"friction must be a finite number of at least 0, got {friction!r}")
    root = ET.Element("robot", name=robot.name)
    if plane_joints:
        _add_plane_joints(root, robot.links[0].name)
    for link in robot.links:
        _add_link(root, link, friction, visuals)
    for joint in robot.joints:
        _add_joint(root, joint)
    ET.indent(root)
    return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_plane_joints(root: ET.Element, base: str) -> None:
    """Chain the world, two links that weigh next to nothing, and the base."""
    light = 1e-6  # PyBullet gives a link without mass one of its own
    links = ("world", "carriage_x", "carriage_z")
    for name in links:
        inertial = ET.SubElement(ET.SubElement(root, "link", name=name), "inertial")
        ET.SubElement(inertial, "mass", value=_text(light))
        ET.SubElement(inertial, "inertia", {key: _text(light if key[1] == key[2] else 0.0) for key in _INERTIA})
    chain = zip(PLANE_JOINTS, ("prismatic", "prismatic", "continuous"), ("1 0 0", "0 0 1", "0 1 0"), strict=True)
    for (name, kind, axis), parent, child in zip(chain, links, (*links[1:], base), strict=True):
        joint = ET.SubElement(root, "joint", name=name, type=kind)
        ET.SubElement(joint, "parent", link=parent)
        ET.SubElement(joint, "child", link=child)
        ET.SubElement(joint, "axis", xyz=axis)
        ET.SubElement(joint, "limit", lower="-1e6", upper="1e6", effort="0", velocity="1e6")


def _text(*values: float) -> str:
    return " ".join(f"{value:.12g}" for value in values)


def _add_link(root: ET.Element, link: LinkSpec, friction: float, visuals: bool) -> None:
    element = ET.SubElement(root, "link", name=link.name)
    contact = ET.SubElement(element, "contact")
    ET.SubElement(contact, "lateral_friction", value=_text(friction))
    inertial = ET.SubElement(element, "inertial")
    ET.SubElement(inertial, "origin", xyz=_text(*link.com))
    ET.SubElement(inertial, "mass", value=_text(link.mass))
    values = {name: _text(value) for name, value in zip(_INERTIA, link.inertia, strict=True)}
    ET.SubElement(inertial, "inertia", values)
    for shape in link.collision:
        _add_shape(ET.SubElement(element, "collision"), shape)
    for shape in link.visual if visuals else ():
        visual = ET.SubElement(element, "visual")
        _add_shape(visual, shape)
        material = ET.SubElement(visual, "material", name="rgb_" + "_".join(f"{c:g}" for c in shape.color))
        ET.SubElement(material, "color", rgba=_text(*shape.color, 1.0))


def _add_shape(parent: ET.Element, shape: ShapeSpec) -> None:
    ET.SubElement(parent, "origin", xyz=_text(*shape.position), rpy=_text(*shape.rpy))
    geometry = ET.SubElement(parent, "geometry")
    if shape.kind == "box":
        ET.SubElement(geometry, "box", size=_text(*shape.size))
    elif shape.kind == "sphere":
        ET.SubElement(geometry, "sphere", radius=_text(*shape.size))
    else:
        radius, length = shape.size
        ET.SubElement(geometry, shape.kind, radius=_text(radius), length=_text(length))


def _add_joint(root: ET.Element, joint: JointSpec) -> None:
    element = ET.SubElement(root, "joint", name=joint.name, type="fixed" if joint.axis is None else "revolute")
    ET.SubElement(element, "parent", link=joint.parent)
    ET.SubElement(element, "child", link=joint.child)
    ET.SubElement(element, "origin", xyz=_text(*joint.origin))
    if joint.axis is not None:
        ET.SubElement(element, "axis", xyz=_text(*joint.axis))
        ET.SubElement(
            element, "limit", lower=_text(joint.lower), upper=_text(joint.upper), effort=_text(joint.effort),
            velocity=_text(joint.velocity),
        )  # fmt: skip
        ET.SubElement(element, "dynamics", damping="0", friction="0")
