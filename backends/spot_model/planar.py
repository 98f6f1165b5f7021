"""Spot in its plane of symmetry: the table's numbers, with each pair of legs joined into one.

A robot whose left and right move alike stays in the plane between them. There the two legs of a pair are one leg with
twice the mass, twice the inertia, twice the gains and twice the torque, and the four hip links, which only turn
sideways, are part of the body. What is left is a base with x, z and pitch and four joints. A planar joint stands for
two (:attr:`~.table.JointSpec.legs`), and everything that is said of it, gains, torques and limits, is said of one leg.

The sideways joints are straight (0 rad) here; Spot's nominal pose has them at ± 0.1 rad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .table import SPOT, JointSpec, LinkSpec, RobotSpec, ShapeSpec

__all__ = ["PLANAR_SPOT", "planar_spot"]

_PAIRS: Final = {"f": ("fl", "fr"), "h": ("hl", "hr")}
_PARTS: Final = ("uleg", "lleg", "foot")


def planar_spot(robot: RobotSpec = SPOT) -> RobotSpec:
    """Return the planar robot of a four-legged one whose legs are named as Spot's.

    Args:
        robot: The table of a robot that is symmetric about its plane y = 0.

    Raises:
        ValueError: The legs of a pair differ.
    """
    origins = {joint.child: joint for joint in robot.joints}
    links, joints = [_body(robot, origins)], []
    poses = dict(zip((joint.name for joint in robot.actuated), robot.nominal_pose, strict=True))
    for pair, (left, right) in _PAIRS.items():
        _check_pair(robot, left, right)
        links += [_joined_link(robot, origins, part, pair, (left, right)) for part in _PARTS]
        joints += _joints(origins, pair, left)
    nominal = tuple(poses[f"{_PAIRS[joint.name[0]][0]}{joint.name[1:]}"] for joint in joints if joint.axis is not None)
    return RobotSpec(
        name=f"{robot.name}_planar", links=tuple(links), joints=tuple(joints), nominal_pose=nominal, planar=True
    )


def _check_pair(robot: RobotSpec, left: str, right: str) -> None:
    for part in ("hip", *_PARTS):
        one, two = robot.link(f"{left}_{part}"), robot.link(f"{right}_{part}")
        if (one.mass, one.com[0], one.com[2], one.inertia[1]) != (two.mass, two.com[0], two.com[2], two.inertia[1]):
            raise ValueError(f"{one.name} and {two.name} differ: a planar robot needs a robot that is symmetric.")


def _joints(origins: dict[str, JointSpec], pair: str, leg: str) -> list[JointSpec]:
    """Return hip pitch, knee and ankle of a pair, in the plane."""
    hx, hy, kn, ankle = (origins[f"{leg}_{part}"] for part in ("hip", *_PARTS))
    at_body = (hx.origin[0] + hy.origin[0], 0.0, hx.origin[2] + hy.origin[2])
    chain = (("body", "uleg", hy, at_body), ("uleg", "lleg", kn, kn.origin), ("lleg", "foot", ankle, ankle.origin))
    return [
        replace(
            joint,
            name=f"{pair}{joint.name[len(leg) :]}",
            parent=parent if parent == "body" else f"{pair}_{parent}",
            child=f"{pair}_{child}",
            origin=(origin[0], 0.0, origin[2]),
            legs=2,
        )
        for parent, child, joint, origin in chain
    ]


def _joined_link(
    robot: RobotSpec, origins: dict[str, JointSpec], part: str, pair: str, legs: tuple[str, str]
) -> LinkSpec:
    """Return a link of both legs: one collision shape in the plane, both legs to look at."""
    one = robot.link(f"{legs[0]}_{part}")
    xx, yy, zz, _, xz, _ = one.inertia
    looks = tuple(
        _moved(shape, (0.0, _side(origins, leg), 0.0)) for leg in legs for shape in robot.link(f"{leg}_{part}").visual
    )
    return LinkSpec(
        name=f"{pair}_{part}",
        mass=2.0 * one.mass,
        com=(one.com[0], 0.0, one.com[2]),
        inertia=(2.0 * xx, 2.0 * yy, 2.0 * zz, 0.0, 2.0 * xz, 0.0),
        collision=one.collision,
        visual=looks,
    )


def _side(origins: dict[str, JointSpec], leg: str) -> float:
    """Return how far from the plane a leg hangs, m."""
    return origins[f"{leg}_hip"].origin[1] + origins[f"{leg}_uleg"].origin[1]


def _body(robot: RobotSpec, origins: dict[str, JointSpec]) -> LinkSpec:
    """Return the body with the hips on it."""
    base = robot.links[0]
    parts: list[tuple[LinkSpec, Sequence[float]]] = [(base, (0.0, 0.0, 0.0))]
    hips = [robot.link(f"{leg}_hip") for legs in _PAIRS.values() for leg in legs]
    parts += [(hip, origins[hip.name].origin) for hip in hips]
    mass = float(sum(link.mass for link, _ in parts))
    centres = [np.add(link.com, origin) for link, origin in parts]
    com = np.sum([link.mass * centre for (link, _), centre in zip(parts, centres, strict=True)], axis=0) / mass
    about = [_tensor(link) + link.mass * _parallel(at - com) for (link, _), at in zip(parts, centres, strict=True)]
    inertia = np.sum(about, axis=0)
    shapes = [
        (_moved(shape, origins[hip.name].origin), kind)
        for hip in hips
        for kind, group in (("collision", hip.collision), ("visual", hip.visual))
        for shape in group
    ]
    return LinkSpec(
        name=base.name,
        mass=mass,
        com=(float(com[0]), 0.0, float(com[2])),
        inertia=(float(inertia[0, 0]), float(inertia[1, 1]), float(inertia[2, 2]), 0.0, float(inertia[0, 2]), 0.0),
        collision=base.collision,
        visual=(*base.visual, *(shape for shape, kind in shapes if kind == "visual")),
    )


def _moved(shape: ShapeSpec, shift: Sequence[float]) -> ShapeSpec:
    x, y, z = (float(a + b) for a, b in zip(shape.position, shift, strict=True))
    return replace(shape, position=(x, y, z))


def _tensor(link: LinkSpec) -> NDArray[np.float64]:
    xx, yy, zz, xy, xz, yz = link.inertia
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _parallel(offset: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inertia of a unit mass at an offset."""
    return np.asarray(float(offset @ offset) * np.eye(3) - np.outer(offset, offset))


PLANAR_SPOT: Final = planar_spot()
"""Boston Dynamics' Spot in its plane of symmetry."""
