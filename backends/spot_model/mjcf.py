"""The table as MJCF, MuJoCo's model format."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Literal

from .mechanics import standing_height
from .table import SPOT, JointSpec, LinkSpec, RobotSpec, ShapeSpec

__all__ = ["spot_mjcf"]

Integrator = Literal["Euler", "RK4", "implicit", "implicitfast"]
Cone = Literal["elliptic", "pyramidal"]
_INTEGRATORS = ("Euler", "RK4", "implicit", "implicitfast")
_CONES = ("elliptic", "pyramidal")


def spot_mjcf(
    robot: RobotSpec = SPOT,
    *,
    timestep: float = 0.002,
    integrator: Integrator = "implicitfast",
    stiffness: float = 60.0,
    damping: float = 1.5,
    friction: float = 0.8,
    cone: Cone = "elliptic",
    impratio: float = 10.0,
    solref: tuple[float, float] = (0.004, 1.0),
    solimp: tuple[float, float, float] = (0.9, 0.95, 0.001),
    self_collision: bool = False,
    fixed_base: bool = False,
    ground: bool = True,
    visuals: bool = True,
    contact_sensors: bool = False,
) -> str:
    """Write Spot as MJCF.

    Every joint has one actuator of its own name, whose control is the target angle ``q_d`` and whose force is
    ``K(q_d − q) − B q̇``: ``gainprm = (K)``, ``biasprm = (0, −K, −B)``. Change the gains of a compiled model there.
    ``forcerange`` holds each joint's largest torque; the knee's limit at its angle is narrower
    (:func:`~.knee.knee_torque_limit`) and is left to whoever steps the model. The integrators ``implicit`` and
    ``implicitfast`` treat the term in ``B`` implicitly, all treat the term in ``K`` explicitly.

    The friction of a contact is the robot geom's alone (``priority``), so ``friction`` is the pair's coefficient.

    The contact settings are stiffer than MuJoCo's own. With those, loaded feet creep over the ground: after half a
    second of standing the joints are 0.3 rad from where PyBullet has them, with these 0.01 rad
    (``benchmarks/cross_engine.md``, with the cost in speed).

    Args:
        robot: The table.
        timestep: Physics step, s.
        integrator: MuJoCo's integrator.
        stiffness: ``K`` of every joint at compile time, N·m/rad.
        damping: ``B`` of every joint at compile time, N·m·s/rad.
        friction: Sliding friction of the robot's shapes.
        cone: Shape of the friction cone. With the pyramid steps are faster, most of all for a robot that lies on the
            ground, but a sliding foot is braked differently in different directions.
        impratio: Stiffness of friction relative to that of the contact; more is less creep.
        solref: Time constant (s) and damping ratio of contacts; MuJoCo takes two physics steps if that is more. With
            its own 0.02 s a standing Spot's feet sink more than 10 mm into the ground, with 0.004 s 1 mm.
        solimp: Impedance of contacts.
        self_collision: Let the robot's links collide with each other, apart from neighbours and ``never_touch``.
        fixed_base: Weld the body to the world, for tests and system identification.
        ground: Add a ground plane, the geom ``ground``.
        visuals: Draw the robot's shell (geom group 2). Without it the collision shapes are drawn and steps are faster.
        contact_sensors: Add one sensor ``touch_<link>`` per link with collision shapes, of 4 values: the number of
            contacts with the world's geoms, and the net force with which the link pushes them, in the world's frame
            (negative z on the ground).

    Returns:
        The XML text; a keyframe ``nominal`` holds the nominal pose with the lowest foot on the ground.

    Raises:
        ValueError: A number is not finite or out of range, or the integrator or cone is unknown.
    """
    _check(timestep=timestep, stiffness=stiffness, damping=damping, friction=friction, impratio=impratio)
    for name, value in (("timestep", timestep), ("impratio", impratio)):
        if value == 0.0:
            raise ValueError(f"{name} must be above 0")
    for name, choice, known in (("integrator", integrator, _INTEGRATORS), ("cone", cone, _CONES)):
        if choice not in known:
            raise ValueError(f"unknown {name} {choice!r}; choose one of {', '.join(known)}")
    root = ET.Element("mujoco", model=robot.name)
    ET.SubElement(root, "compiler", angle="radian", eulerseq="XYZ", inertiafromgeom="false", autolimits="true")
    ET.SubElement(
        root, "option", timestep=_text(timestep), integrator=integrator, cone=cone, impratio=_text(impratio)
    )  # fmt: skip
    _add_look(root)
    _add_defaults(root, friction, solref, solimp, self_collision, visuals)
    world = ET.SubElement(root, "worldbody")
    _add_scenery(world, ground)
    height = standing_height(robot.nominal_pose, robot)
    base = _add_link(world, robot, robot.links[0], (0.0, 0.0, height), visuals)
    _add_base(base, fixed_base, robot.planar)
    _add_exclusions(root, robot, self_collision)
    _add_actuators(root, robot, stiffness, damping)
    if contact_sensors:
        _add_contact_sensors(root, robot)
    _add_keyframe(root, robot, height, fixed_base)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _check(**numbers: float) -> None:
    for name, value in numbers.items():
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")


def _text(*values: float) -> str:
    return " ".join(f"{value:.12g}" for value in values)


def _add_look(root: ET.Element) -> None:
    """Haze, sky, floor texture and the size of off-screen pictures."""
    visual = ET.SubElement(root, "visual")
    ET.SubElement(visual, "global", offwidth="1920", offheight="1080", azimuth="140", elevation="-15")
    ET.SubElement(visual, "headlight", ambient="0.35 0.35 0.35", diffuse="0.5 0.5 0.5", specular="0 0 0")
    ET.SubElement(visual, "quality", shadowsize="4096")
    ET.SubElement(root, "statistic", center="0 0 0.4", extent="1.2")
    asset = ET.SubElement(root, "asset")
    ET.SubElement(
        asset, "texture", name="sky", type="skybox", builtin="gradient", rgb1="0.75 0.83 0.91", rgb2="0.95 0.97 1",
        width="64", height="384",
    )  # fmt: skip
    ET.SubElement(
        asset, "texture", name="checker", type="2d", builtin="checker", rgb1="0.62 0.66 0.70", rgb2="0.72 0.76 0.79",
        width="256", height="256",
    )  # fmt: skip
    ET.SubElement(asset, "material", name="checker", texture="checker", texrepeat="1 1", texuniform="true")


def _add_defaults(
    root: ET.Element,
    friction: float,
    solref: tuple[float, float],
    solimp: tuple[float, float, float],
    self_collision: bool,
    visuals: bool,
) -> None:
    """Two classes of geom. The ground's ``contype`` meets the robot's ``conaffinity``; the robot's own two do not."""
    default = ET.SubElement(root, "default")
    collision = ET.SubElement(default, "default", {"class": "collision"})
    ET.SubElement(
        collision, "geom", contype=str(int(self_collision)), conaffinity="1", condim="3", priority="1",
        group="3" if visuals else "2", friction=_text(friction, 0.005, 0.0001), solref=_text(*solref),
        solimp=_text(*solimp),
    )  # fmt: skip
    visual = ET.SubElement(default, "default", {"class": "visual"})
    ET.SubElement(visual, "geom", contype="0", conaffinity="0", group="2")


def _add_scenery(world: ET.Element, ground: bool) -> None:
    if ground:
        ET.SubElement(
            world, "geom", name="ground", type="plane", size="0 0 0.05", material="checker", contype="1",
            conaffinity="0",
        )  # fmt: skip


def _add_link(
    parent: ET.Element, robot: RobotSpec, link: LinkSpec, origin: Iterable[float], visuals: bool
) -> ET.Element:
    """Add a body with its inertia, shapes and children."""
    body = ET.SubElement(parent, "body", name=link.name, pos=_text(*origin))
    if link.mass > 0.0:
        ET.SubElement(
            body, "inertial", pos=_text(*link.com), mass=_text(link.mass), fullinertia=_text(*link.inertia)
        )  # fmt: skip
    for index, shape in enumerate(link.collision):
        _add_shape(body, shape, "collision", link.name if index == 0 else f"{link.name}_{index}")
    for shape in link.visual if visuals else ():
        _add_shape(body, shape, "visual", None)
    for joint, child in robot.children(link.name):
        element = _add_link(body, robot, child, joint.origin, visuals)
        if joint.axis is not None:
            _add_joint(element, joint)
    return body


def _add_joint(body: ET.Element, joint: JointSpec) -> None:
    attributes = {"name": joint.name, "axis": _text(*(joint.axis or ())), "range": _text(joint.lower, joint.upper)}
    if joint.armature > 0.0:
        attributes["armature"] = _text(joint.armature * joint.legs)
    body.insert(0, ET.Element("joint", attributes))


def _add_shape(body: ET.Element, shape: ShapeSpec, kind: str, name: str | None) -> None:
    """Add a geom; MJCF gives boxes by half lengths and capsules and cylinders by radius and half length."""
    if shape.kind == "box":
        size = tuple(length / 2.0 for length in shape.size)
    elif shape.kind == "sphere":
        size = shape.size
    else:
        size = (shape.size[0], shape.size[1] / 2.0)
    attributes = {"class": kind, "type": shape.kind, "size": _text(*size), "pos": _text(*shape.position)}
    if any(shape.rpy):
        attributes["euler"] = _text(*shape.rpy)
    attributes["rgba"] = _text(*shape.color, 1.0)
    if name is not None:
        attributes["name"] = name
    ET.SubElement(body, "geom", attributes)


def _add_base(base: ET.Element, fixed_base: bool, planar: bool) -> None:
    """Free the base unless it is fixed, and let a light and two cameras follow it."""
    if not fixed_base:
        for joint in _plane_joints(base) if planar else [ET.Element("freejoint", name="floating_base")]:
            base.insert(len(base.findall("joint")), joint)
    ET.SubElement(
        base, "light", name="sun", mode="trackcom", pos="-0.6 -0.8 3", dir="0.2 0.27 -1", cutoff="60", exponent="1",
        diffuse="0.6 0.6 0.6", specular="0.2 0.2 0.2", castshadow="true",
    )  # fmt: skip
    ET.SubElement(
        base, "camera", name="track", mode="trackcom", pos="1.45 -1.6 0.3", xyaxes="0.741 0.672 0 -0.121 0.133 0.984"
    )
    ET.SubElement(base, "camera", name="side", mode="trackcom", pos="0 -2.4 0.1", xyaxes="1 0 0 0 0.07 1")


def _plane_joints(base: ET.Element) -> list[ET.Element]:
    """What moves a base in its plane: coordinates and their rates are the world's x and z, and the pitch."""
    height = base.attrib["pos"].split()[2]
    return [
        ET.Element("joint", name="base_x", type="slide", axis="1 0 0"),
        ET.Element("joint", name="base_z", type="slide", axis="0 0 1", ref=height),
        ET.Element("joint", name="base_pitch", type="hinge", axis="0 1 0"),
    ]


def _add_exclusions(root: ET.Element, robot: RobotSpec, self_collision: bool) -> None:
    contact = ET.SubElement(root, "contact")
    for first, second in robot.never_touch if self_collision else ():
        ET.SubElement(contact, "exclude", body1=first, body2=second)


def _add_actuators(root: ET.Element, robot: RobotSpec, stiffness: float, damping: float) -> None:
    actuator = ET.SubElement(root, "actuator")
    for joint in robot.actuated:
        ET.SubElement(
            actuator, "general", name=joint.name, joint=joint.name, gaintype="fixed", biastype="affine",
            gainprm=_text(joint.legs * stiffness), biasprm=_text(0.0, -joint.legs * stiffness, -joint.legs * damping),
            forcerange=_text(-joint.legs * joint.effort, joint.legs * joint.effort),
        )  # fmt: skip


def _add_contact_sensors(root: ET.Element, robot: RobotSpec) -> None:
    sensor = ET.SubElement(root, "sensor")
    for link in robot.links:
        if link.collision:
            ET.SubElement(
                sensor, "contact", name=f"touch_{link.name}", body1=link.name, body2="world", data="found force",
                reduce="netforce",
            )  # fmt: skip


def _add_keyframe(root: ET.Element, robot: RobotSpec, height: float, fixed_base: bool) -> None:
    base = (0.0, height, 0.0) if robot.planar else (0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0)
    pose = robot.nominal_pose
    keyframe = ET.SubElement(root, "keyframe")
    ET.SubElement(keyframe, "key", name="nominal", qpos=_text(*(() if fixed_base else base), *pose), ctrl=_text(*pose))
