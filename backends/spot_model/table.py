"""Spot in numbers: the one table from which every model file is written.

Masses, inertias, joint origins and limits are those of the Boston Dynamics Spot SDK (v5.1.4), ``spot_with_arm.urdf``
without its arm: 31.6 kg. Spot is symmetric, so the table holds the front left leg's numbers and the signs by which the
other legs differ. The nominal pose is Isaac Lab's.

Collision shapes start from the same file: the body's box is its, the lower leg's cylinder has become a capsule of the
same line, and the foot's cylinder a ball of the same radius. The hips (which have none there) and the longer upper leg
follow the outer dimensions of the meshes in MuJoCo Menagerie's ``boston_dynamics_spot``. The drawing is our own.

Frames: x forward, y left, z up; all link frames are parallel in the zero pose, where the legs hang straight down.

Each foot is a link of its own, fixed to the lower leg, because PyBullet reports contacts by link, not by shape. Its
mass is zero: the SDK counts the foot into the lower leg.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from .knee import KNEE_PEAK_TORQUE

__all__ = [
    "FOOT_NAMES",
    "FOOT_RADIUS",
    "HIP_TORQUE_LIMIT",
    "JOINT_NAMES",
    "LEG_NAMES",
    "LINK_NAMES",
    "NOMINAL_POSE",
    "PLANE_JOINTS",
    "SPOT",
    "JointSpec",
    "LinkSpec",
    "RobotSpec",
    "ShapeSpec",
]

Vector = tuple[float, float, float]
Color = Vector

LEG_NAMES: Final = ("fl", "fr", "hl", "hr")
JOINT_NAMES: Final = tuple(f"{leg}_{joint}" for leg in LEG_NAMES for joint in ("hx", "hy", "kn"))
"""The actuated joints in the order of the Spot SDK: leg by leg."""
FOOT_NAMES: Final = tuple(f"{leg}_foot" for leg in LEG_NAMES)
LINK_NAMES: Final = (
    "body",
    *(f"{leg}_{part}" for leg in LEG_NAMES for part in ("hip", "uleg", "lleg", "foot")),
)

NOMINAL_POSE: Final = (0.1, 0.9, -1.5, -0.1, 0.9, -1.5, 0.1, 1.1, -1.5, -0.1, 1.1, -1.5)
"""Joint angles of the stance, rad, in the order of :data:`JOINT_NAMES` (Isaac Lab, ``SPOT_CFG``)."""
HIP_TORQUE_LIMIT: Final = 45.0
"""N·m, both hip joints, both directions."""
FOOT_RADIUS: Final = 0.033

PLANE_JOINTS: Final = ("base_x", "base_z", "base_pitch")
"""Joints of a planar robot's base, in the order of its coordinates: the world's x and z, and the turn about y."""

_YELLOW: Final = (0.98, 0.74, 0.06)
_DARK: Final = (0.13, 0.13, 0.14)
_BLACK: Final = (0.03, 0.03, 0.035)
_GLASS: Final = (0.35, 0.42, 0.5)
_UNRATED_SPEED: Final = 100.0  # rad/s: the SDK's own value, no rating; it limits nothing


@dataclass(frozen=True, kw_only=True)
class ShapeSpec:
    """A box, sphere, capsule or cylinder in its link's frame."""

    kind: Literal["box", "sphere", "capsule", "cylinder"]
    size: tuple[float, ...]
    """Box: full lengths. Sphere: radius. Capsule and cylinder: radius and straight length, along the shape's z."""
    position: Vector
    rpy: Vector = (0.0, 0.0, 0.0)
    """Rotations about the link's fixed x, then y, then z axis, rad, as in URDF."""
    color: Color = _DARK


@dataclass(frozen=True, kw_only=True)
class LinkSpec:
    """A rigid link."""

    name: str
    mass: float
    com: Vector = (0.0, 0.0, 0.0)
    """Centre of mass in the link's frame, m."""
    inertia: tuple[float, float, float, float, float, float] = (0.0,) * 6
    """ixx, iyy, izz, ixy, ixz, iyz about the centre of mass, axes parallel to the link's, kg·m²."""
    collision: tuple[ShapeSpec, ...] = ()
    visual: tuple[ShapeSpec, ...] = ()


@dataclass(frozen=True, kw_only=True)
class JointSpec:
    """A joint; fixed if it has no axis. The child's frame is the parent's, shifted by ``origin``."""

    name: str
    parent: str
    child: str
    origin: Vector
    axis: Vector | None = None
    lower: float = 0.0
    upper: float = 0.0
    effort: float = 0.0
    """Largest torque at any angle, N·m. The knee's limit at an angle is :func:`~.knee.knee_torque_limit`."""
    velocity: float = _UNRATED_SPEED
    armature: float = 0.0
    """Rotor inertia seen at the joint, kg·m². No source gives one for Spot."""
    legs: int = 1
    """How many legs it stands for: 2 in a planar robot. Effort and armature are those of one."""


@dataclass(frozen=True, kw_only=True)
class RobotSpec:
    """A tree of links. ``links[0]`` is the base, and every joint comes after its parent's."""

    name: str
    links: tuple[LinkSpec, ...]
    joints: tuple[JointSpec, ...]
    nominal_pose: tuple[float, ...]
    """Angles of the actuated joints in the stance, rad."""
    never_touch: tuple[tuple[str, str], ...] = ()
    """Pairs of links to leave out where links may collide with each other; neighbours are always left out."""
    planar: bool = False
    """Whether the base moves in the plane y = 0 only: along x and z, and about y."""

    @property
    def actuated(self) -> tuple[JointSpec, ...]:
        """The joints that move, in command order."""
        return tuple(joint for joint in self.joints if joint.axis is not None)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints that move, in command order."""
        return tuple(joint.name for joint in self.actuated)

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names of the links, the base's first."""
        return tuple(link.name for link in self.links)

    @property
    def foot_names(self) -> tuple[str, ...]:
        """Names of the feet."""
        return tuple(name for name in self.link_names if name.endswith("_foot"))

    @property
    def total_mass(self) -> float:
        """Sum of the links' masses, kg."""
        return math.fsum(link.mass for link in self.links)

    def link(self, name: str) -> LinkSpec:
        """Return the link of this name."""
        for link in self.links:
            if link.name == name:
                return link
        raise KeyError(f"no link {name!r} in {self.name!r}; links: {', '.join(link.name for link in self.links)}")

    def children(self, parent: str) -> Iterator[tuple[JointSpec, LinkSpec]]:
        """Yield each joint on ``parent`` with the link it carries."""
        for joint in self.joints:
            if joint.parent == parent:
                yield joint, self.link(joint.child)


def _box(size: Vector, position: Vector, color: Color = _DARK, pitch: float = 0.0) -> ShapeSpec:
    return ShapeSpec(kind="box", size=size, position=position, rpy=(0.0, pitch, 0.0), color=color)


def _capsule(start: Vector, end: Vector, radius: float, color: Color = _DARK) -> ShapeSpec:
    """A capsule whose round ends are centred on two points."""
    dx, dy, dz = (b - a for a, b in zip(start, end, strict=True))
    length = math.hypot(dx, dy, dz)
    rpy = (math.asin(-dy / length), math.atan2(dx, dz), 0.0)
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, (start[2] + end[2]) / 2)
    return ShapeSpec(kind="capsule", size=(radius, length), position=middle, rpy=rpy, color=color)


def _body() -> LinkSpec:
    edges = tuple(_capsule((-0.2, y, z), (0.2, y, z), 0.03, _YELLOW) for y in (-0.085, 0.085) for z in (-0.068, 0.058))
    rails = tuple(_box((0.56, 0.018, 0.012), (0.0, y, 0.09), _BLACK) for y in (-0.055, 0.055))
    eyes = tuple(
        _box((0.006, 0.024, 0.03), (0.431 + 0.1 * z, y, z), _GLASS, pitch=-0.1)
        for y in (-0.04, 0.04)
        for z in (0.028, -0.02)
    )
    return LinkSpec(
        name="body",
        mass=16.70765207,
        com=(0.0, 0.0, -0.00496172),
        inertia=(0.081543792, 0.549231154, 0.569454373, 0.0, 0.0, 0.0),
        collision=(_box((0.85, 0.24, 0.18), (0.0, 0.0, -0.015), _YELLOW),),
        visual=(
            _box((0.42, 0.17, 0.185), (0.0, 0.0, -0.005), _YELLOW),
            _box((0.42, 0.225, 0.125), (0.0, 0.0, -0.005), _YELLOW),
            *edges,
            _box((0.36, 0.235, 0.016), (0.0, 0.0, 0.01), _BLACK),  # the stripe along the flanks
            _box((0.72, 0.15, 0.155), (0.0, 0.0, -0.005), _DARK),  # between the hips
            _box((0.09, 0.22, 0.15), (0.375, 0.0, -0.01), _YELLOW),  # nose
            _box((0.075, 0.19, 0.185), (0.375, 0.0, -0.01), _YELLOW, pitch=-0.1),
            _box((0.02, 0.17, 0.135), (0.42, 0.0, -0.006), _BLACK, pitch=-0.1),  # the face: this end is the front
            _box((0.09, 0.22, 0.15), (-0.375, 0.0, -0.01), _YELLOW),  # tail
            _box((0.075, 0.19, 0.185), (-0.375, 0.0, -0.01), _YELLOW, pitch=0.1),
            *rails,
            *eyes,
        ),
    )


def _hip(leg: str, end: int, side: int) -> LinkSpec:
    motor = _capsule((-0.048 * end, 0.012 * side, 0.0), (0.0, 0.012 * side, 0.0), 0.047)
    return LinkSpec(
        name=f"{leg}_hip",
        mass=1.13688339,
        com=(-0.01586739 * end, 0.00855842 * side, 0.00000903),
        inertia=(0.00122166, 0.00158957, 0.00172903, -0.00017754 * end * side, 0.00000043 * end, -0.00000049 * side),
        collision=(motor,),
        visual=(motor, _capsule((0.0, 0.02 * side, 0.0), (0.0, 0.075 * side, 0.0), 0.042, _BLACK)),
    )


def _upper_leg(leg: str, side: int) -> LinkSpec:
    return LinkSpec(
        name=f"{leg}_uleg",
        mass=2.25620359,
        com=(0.00214442, -0.01110184 * side, -0.07881204),
        inertia=(0.02692501, 0.02583907, 0.00318737, -0.00008782 * side, 0.00054873, 0.00207146 * side),
        # Longer than the SDK's cylinder: it covers the knee, so a robot on its knees rests on this link.
        collision=(_capsule((0.0, 0.0, 0.015), (0.02, 0.0, -0.3), 0.045, _YELLOW),),
        visual=(
            _capsule((0.0, 0.008 * side, 0.02), (-0.004, 0.01 * side, -0.1), 0.048, _YELLOW),
            _capsule((-0.004, 0.01 * side, -0.1), (0.012, 0.006 * side, -0.3), 0.034, _YELLOW),
            _capsule((0.008, -0.02 * side, 0.0), (0.012, -0.016 * side, -0.16), 0.042),
            _capsule((0.012, -0.016 * side, -0.16), (0.025, -0.004 * side, -0.3205), 0.031),
        ),
    )


def _lower_leg(leg: str) -> LinkSpec:
    return LinkSpec(
        name=f"{leg}_lleg",
        mass=0.330,
        com=(0.00597360, 0.0, -0.17466427),
        inertia=(0.00701356, 0.00709946, 0.00014529, 0.0, 0.00006600, 0.0),
        collision=(_capsule((0.003, 0.0, 0.01), (0.018, 0.0, -0.31), 0.015),),
        visual=(
            _capsule((0.0, 0.0, 0.025), (0.012, 0.0, -0.1), 0.021),
            _capsule((0.012, 0.0, -0.1), (0.02, 0.0, -0.23), 0.016),
            _capsule((0.02, 0.0, -0.23), (0.004, 0.0, -0.32), 0.02),
        ),
    )


def _foot(leg: str) -> LinkSpec:
    ball = ShapeSpec(kind="sphere", size=(FOOT_RADIUS,), position=(0.0, 0.0, 0.0), color=_BLACK)
    return LinkSpec(name=f"{leg}_foot", mass=0.0, collision=(ball,), visual=(ball,))


def _leg(leg: str) -> tuple[tuple[LinkSpec, ...], tuple[JointSpec, ...]]:
    """The links and joints of one leg; ``end`` is +1 in front, ``side`` is +1 on the left."""
    end, side = (1 if leg[0] == "f" else -1), (1 if leg[1] == "l" else -1)
    hip, uleg, lleg, foot = _hip(leg, end, side), _upper_leg(leg, side), _lower_leg(leg), _foot(leg)
    hx = JointSpec(
        name=f"{leg}_hx", parent="body", child=hip.name, origin=(0.29785 * end, 0.055 * side, 0.0),
        axis=(1.0, 0.0, 0.0), lower=-0.785398, upper=0.785398, effort=HIP_TORQUE_LIMIT,
    )  # fmt: skip
    hy = JointSpec(
        name=f"{leg}_hy", parent=hip.name, child=uleg.name, origin=(0.0, 0.110945 * side, 0.0),
        axis=(0.0, 1.0, 0.0), lower=-0.898845, upper=2.295108, effort=HIP_TORQUE_LIMIT,
    )  # fmt: skip
    kn = JointSpec(
        name=f"{leg}_kn", parent=uleg.name, child=lleg.name, origin=(0.025, 0.0, -0.3205),
        axis=(0.0, 1.0, 0.0), lower=-2.7929, upper=-0.2471, effort=KNEE_PEAK_TORQUE,
    )  # fmt: skip
    ankle = JointSpec(name=f"{leg}_ankle", parent=lleg.name, child=foot.name, origin=(0.0, 0.0, -0.33532))
    return (hip, uleg, lleg, foot), (hx, hy, kn, ankle)


_LEGS: Final = tuple(_leg(leg) for leg in LEG_NAMES)

SPOT: Final = RobotSpec(
    name="spot",
    links=(_body(), *(link for links, _ in _LEGS for link in links)),
    joints=tuple(joint for _, joints in _LEGS for joint in joints),
    nominal_pose=NOMINAL_POSE,
    never_touch=tuple(("body", f"{leg}_uleg") for leg in LEG_NAMES),  # a box body would cut the range of hx
)
"""Boston Dynamics' Spot without an arm. Vary it with :func:`dataclasses.replace`."""
