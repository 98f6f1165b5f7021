"""The table as USD text, for Isaac Lab and Isaac Sim; no USD library is needed to write it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .mechanics import link_poses
from .table import FOOT_RADIUS, SPOT, JointSpec, LinkSpec, RobotSpec, ShapeSpec

__all__ = ["FOOT_MASS", "spot_usd", "with_foot_masses"]

_Array = NDArray[np.float64]

FOOT_MASS = 0.02
"""Mass that a foot gets from its lower leg, kg: USD reads a mass of zero as "compute it from the shape"."""

_AXES = {(1.0, 0.0, 0.0): "X", (0.0, 1.0, 0.0): "Y", (0.0, 0.0, 1.0): "Z"}
_MATERIAL = "physics_material"


def spot_usd(
    robot: RobotSpec = SPOT, *, friction: float = 0.8, visuals: bool = True, self_collision: bool = False
) -> str:
    """Write Spot as a USD layer in text form; save it as ``*.usda``.

    Every link is a rigid body of its own below the default prim, so that contact sensors and randomization find it by
    name (``{ENV_REGEX_NS}/Robot/.*_foot``). Every joint has an angular drive with gains of zero: an implicit actuator
    needs a drive to write to, and without one its gains are silently lost. Masses are those of the table, except that
    each foot takes :data:`FOOT_MASS` from its lower leg, see :func:`with_foot_masses`.

    Args:
        robot: The table.
        friction: Static and dynamic friction of the robot's shapes; combined by multiplication, so give the ground 1.
        visuals: Draw the robot's shell. Without it the collision shapes are drawn.
        self_collision: Let the robot's links collide with each other, apart from neighbours and ``never_touch``.

    Returns:
        The text of the layer.

    Raises:
        ValueError: The friction is negative or not finite, or a joint's axis is none of x, y and z.
    """
    if not (math.isfinite(friction) and friction >= 0.0):
        raise ValueError(f"friction must be a finite number of at least 0, got {friction!r}")
    heavy = with_foot_masses(robot)
    poses = link_poses(np.zeros(len(robot.actuated)), robot)
    lines = [*_header(robot), *_prim("Xform", robot.name, [], depth=0), *_material(friction)]
    for link in heavy.links:
        partners = [b for a, b in robot.never_touch if a == link.name] if self_collision else []
        whole = _articulation(self_collision) if link is heavy.links[0] else []
        lines += _link(robot, link, poses[link.name][:3, 3], partners, visuals, whole)
    for joint in heavy.joints:
        lines += _joint(robot, joint)
    return "\n".join([*lines, "}", ""])


def with_foot_masses(robot: RobotSpec = SPOT, mass: float = FOOT_MASS) -> RobotSpec:
    """Return the table with a little of each lower leg's mass given to the massless foot that is fixed to it.

    Leg and foot together have the mass, centre of mass and inertia that the leg had, to the last digit.
    """
    links = {link.name: link for link in robot.links}
    for joint in robot.joints:
        if joint.axis is None and links[joint.child].mass == 0.0:
            leg, ball = links[joint.parent], 0.4 * mass * FOOT_RADIUS**2
            foot = dataclasses.replace(links[joint.child], mass=mass, inertia=(ball, ball, ball, 0.0, 0.0, 0.0))
            links[foot.name], links[leg.name] = foot, _without(leg, foot, np.array(joint.origin))
    return dataclasses.replace(robot, links=tuple(links.values()))


def _without(leg: LinkSpec, foot: LinkSpec, origin: _Array) -> LinkSpec:
    """Return a leg from which a part at ``origin`` was taken away."""
    rest = leg.mass - foot.mass
    whole_com = np.array(leg.com)
    com = (leg.mass * whole_com - foot.mass * origin) / rest
    inertia = _matrix(leg.inertia) - _matrix(foot.inertia) - foot.mass * _steiner(origin - whole_com)
    inertia -= rest * _steiner(com - whole_com)
    xx, yy, zz, xy, xz, yz = (float(inertia[i, j]) for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))
    return dataclasses.replace(leg, mass=rest, com=tuple(com.tolist()), inertia=(xx, yy, zz, xy, xz, yz))


def _matrix(inertia: Sequence[float]) -> _Array:
    ixx, iyy, izz, ixy, ixz, iyz = inertia
    return np.array([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]])


def _steiner(offset: _Array) -> _Array:
    return np.asarray(offset @ offset * np.eye(3) - np.outer(offset, offset))


def _header(robot: RobotSpec) -> list[str]:
    return [
        "#usda 1.0",
        "(",
        f'    defaultPrim = "{robot.name}"',
        "    kilogramsPerUnit = 1",
        "    metersPerUnit = 1",
        '    upAxis = "Z"',
        ")",
        "",
    ]


def _prim(kind: str, name: str, schemas: Sequence[str], depth: int = 1) -> list[str]:
    """Open a prim."""
    indent = "    " * depth
    if not schemas:
        return [f'{indent}def {kind} "{name}"', indent + "{"]
    quoted = ", ".join(f'"{schema}"' for schema in schemas)
    head = [f'{indent}def {kind} "{name}" (', f"{indent}    prepend apiSchemas = [{quoted}]"]
    return [*head, indent + ")", indent + "{"]


def _articulation(self_collision: bool) -> list[str]:
    """What the base link says about the whole robot; there, and not on the default prim, Isaac Lab can fix the base."""
    collide = str(int(self_collision))
    return [
        f"        bool newton:selfCollisionEnabled = {collide}",
        f"        bool physxArticulation:enabledSelfCollisions = {collide}",
    ]


def _material(friction: float) -> list[str]:
    return [
        *_prim("Material", _MATERIAL, ["PhysicsMaterialAPI", "PhysxMaterialAPI"]),
        f"        float physics:dynamicFriction = {_text(friction)}",
        f"        float physics:staticFriction = {_text(friction)}",
        "        float physics:restitution = 0",
        '        uniform token physxMaterial:frictionCombineMode = "multiply"',
        "    }",
    ]


def _link(
    robot: RobotSpec, link: LinkSpec, origin: _Array, partners: list[str], visuals: bool, whole: list[str]
) -> list[str]:
    moments, axes = np.linalg.eigh(_matrix(link.inertia))
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    schemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", *(["PhysicsFilteredPairsAPI"] if partners else [])]
    schemas += ["PhysicsArticulationRootAPI", "PhysxArticulationAPI"] if whole else []
    lines = [
        *_prim("Xform", link.name, schemas),
        f"        float physics:mass = {_text(link.mass)}",
        f"        point3f physics:centerOfMass = ({_text(*link.com)})",
        f"        float3 physics:diagonalInertia = ({_text(*moments)})",
        f"        quatf physics:principalAxes = ({_text(*_quaternion(axes))})",
        f"        double3 xformOp:translate = ({_text(*origin)})",
        "        quatd xformOp:orient = (1, 0, 0, 0)",
        '        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:orient"]',
        *whole,
    ]
    if partners:
        paths = ", ".join(f"</{robot.name}/{name}>" for name in partners)
        lines.append(f"        rel physics:filteredPairs = [{paths}]")
    for index, shape in enumerate(link.collision):
        lines += _shape(robot, shape, f"collision_{index}", collides=True, hidden=visuals)
    for index, shape in enumerate(link.visual if visuals else ()):
        lines += _shape(robot, shape, f"visual_{index}", collides=False, hidden=False)
    return [*lines, "    }"]


def _shape(robot: RobotSpec, shape: ShapeSpec, name: str, *, collides: bool, hidden: bool) -> list[str]:
    kind = {"box": "Cube", "sphere": "Sphere", "capsule": "Capsule", "cylinder": "Cylinder"}[shape.kind]
    scale = shape.size if shape.kind == "box" else (1.0, 1.0, 1.0)
    lines = _prim(kind, name, ["PhysicsCollisionAPI", "MaterialBindingAPI"] if collides else [], depth=2)
    if shape.kind == "box":
        lines.append("            double size = 1")
    else:
        lines.append(f"            double radius = {_text(shape.size[0])}")
    if shape.kind in ("capsule", "cylinder"):
        lines += ['            uniform token axis = "Z"', f"            double height = {_text(shape.size[1])}"]
    if collides:
        lines.append(f"            rel material:binding:physics = </{robot.name}/{_MATERIAL}>")
    if hidden:
        lines.append('            uniform token purpose = "guide"')
    return [
        *lines,
        f"            color3f[] primvars:displayColor = [({_text(*shape.color)})]",
        f"            double3 xformOp:translate = ({_text(*shape.position)})",
        f"            quatd xformOp:orient = ({_text(*_quaternion(_rotation(shape.rpy)))})",
        f"            double3 xformOp:scale = ({_text(*scale)})",
        '            uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:orient", "xformOp:scale"]',
        "        }",
    ]


def _joint(robot: RobotSpec, joint: JointSpec) -> list[str]:
    kind = "PhysicsFixedJoint" if joint.axis is None else "PhysicsRevoluteJoint"
    lines = [
        *_prim(kind, joint.name, [] if joint.axis is None else ["PhysicsDriveAPI:angular", "PhysxJointAPI"]),
        f"        rel physics:body0 = </{robot.name}/{joint.parent}>",
        f"        rel physics:body1 = </{robot.name}/{joint.child}>",
        f"        point3f physics:localPos0 = ({_text(*joint.origin)})",
        "        point3f physics:localPos1 = (0, 0, 0)",
        "        quatf physics:localRot0 = (1, 0, 0, 0)",
        "        quatf physics:localRot1 = (1, 0, 0, 0)",
    ]
    return [*lines, *(_moving(joint) if joint.axis is not None else []), "    }"]


def _moving(joint: JointSpec) -> list[str]:
    """Axis, limits in degrees, and a drive without gains."""
    if joint.axis not in _AXES:
        raise ValueError(f"joint {joint.name!r}: expected an axis along x, y or z, got {joint.axis}")
    return [
        f'        uniform token physics:axis = "{_AXES[joint.axis]}"',
        f"        float physics:lowerLimit = {_text(math.degrees(joint.lower))}",
        f"        float physics:upperLimit = {_text(math.degrees(joint.upper))}",
        '        uniform token drive:angular:physics:type = "force"',
        "        float drive:angular:physics:stiffness = 0",
        "        float drive:angular:physics:damping = 0",
        f"        float drive:angular:physics:maxForce = {_text(joint.effort)}",
        f"        float physxJoint:armature = {_text(joint.armature)}",
        f"        float physxJoint:maxJointVelocity = {_text(math.degrees(joint.velocity))}",
    ]


def _rotation(rpy: Sequence[float]) -> _Array:
    """Rotations about the fixed x, then y, then z axis."""
    matrix = np.eye(3)
    for axis, angle in enumerate(rpy):
        i, j = (axis + 1) % 3, (axis + 2) % 3
        turn = np.eye(3)
        turn[i, i] = turn[j, j] = math.cos(angle)
        turn[i, j], turn[j, i] = -math.sin(angle), math.sin(angle)
        matrix = turn @ matrix
    return matrix


def _quaternion(matrix: _Array) -> _Array:
    """Unit quaternion w x y z of a rotation matrix: the eigenvector of its largest eigenvalue (Bar-Itzhack)."""
    m = matrix
    k = np.array(
        [
            [m[0, 0] + m[1, 1] + m[2, 2], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], m[0, 0] - m[1, 1] - m[2, 2], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]],
            [m[0, 2] - m[2, 0], m[0, 1] + m[1, 0], m[1, 1] - m[0, 0] - m[2, 2], m[1, 2] + m[2, 1]],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], m[2, 2] - m[0, 0] - m[1, 1]],
        ]
    )
    vector = np.linalg.eigh(k)[1][:, -1]
    return np.asarray(vector * (1.0 if vector[0] >= 0.0 else -1.0))


def _text(*values: float) -> str:
    return ", ".join(f"{value:.9g}" for value in values)
