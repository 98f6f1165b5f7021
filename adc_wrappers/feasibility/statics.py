"""Spot balancing on two feet, at rest: which way its body must lean, and what its joints must hold.

Everything is computed from the robot's table in numpy, for many postures at once; no engine is needed. Vectors are in
the body's frame, so a posture is the same whichever way the robot looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import FOOT_RADIUS, SPOT, RobotSpec, ShapeSpec, knee_torque_limit

__all__ = ["GRAVITY", "Balance", "StaticRobot"]

GRAVITY = 9.81
"""m/s², as in both engines."""

_Array = NDArray[np.float64]
_Outline = tuple[_Array, _Array]


class Balance(NamedTuple):
    """Rest on two feet, for ``n`` postures that are mirror images of themselves."""

    down: _Array
    """Direction of gravity in the body frame that puts the centre of mass over the feet, ``(n, 3)``."""

    torques: _Array
    """What the joints of one leg must hold, N·m, ``(n, joints)``."""

    torque_limits: _Array
    """What they can hold at their angles, N·m, ``(n, joints)``."""

    clearance: _Array
    """Height of the lowest point of all links but the supporting feet and their lower legs, m, ``(n,)``."""

    shank_clearance: _Array
    """The same of the supporting lower legs, which end just above their feet, m, ``(n,)``."""

    apart: _Array
    """Distance of the left lower legs and feet from the plane that mirrors them, m, ``(n,)``; below 0 legs cross."""

    height: _Array
    """Height of the body's origin, m, ``(n,)``."""


class StaticRobot:
    """Spot on some of its feet.

    Args:
        support_feet: The links that stand on the ground, in pairs, the left one first; one of a planar robot.
        robot: The table.
    """

    def __init__(self, support_feet: Sequence[str], robot: RobotSpec = SPOT) -> None:
        self.robot = robot
        self.weight = robot.total_mass * GRAVITY
        """N."""
        self.lower = np.array([joint.lower for joint in robot.actuated])
        self.upper = np.array([joint.upper for joint in robot.actuated])
        self._effort = np.array([joint.effort for joint in robot.actuated])
        self._knees = [i for i, joint in enumerate(robot.actuated) if joint.name.endswith("_kn")]
        names = [link.name for link in robot.links]
        self._index = {name: i for i, name in enumerate(names)}
        self._feet = [self._index[foot] for foot in support_feet]
        self._legs = np.array([float(joint.legs) for joint in robot.actuated])
        self._mass = np.array([link.mass for link in robot.links])
        self._com = np.array([link.com for link in robot.links])
        self._pivots = [self._index[joint.child] for joint in robot.actuated]
        self._axes = np.array([joint.axis for joint in robot.actuated])
        self._carried = np.array([_carried_links(robot, joint.child) for joint in robot.actuated])
        shanks = [joint.parent for joint in robot.joints if joint.child in support_feet]
        shaped = [link for link in robot.links if link.collision and link.name not in support_feet]
        self._outlines = {link.name: _outline(link.collision) for link in shaped}
        self._left = {
            link.name: _outline(link.collision) for link in robot.links if link.name.endswith(("l_lleg", "l_foot"))
        }
        self._shanks = {name: self._outlines.pop(name) for name in shanks if name in self._outlines}

    def balance(self, joints: _Array, squeeze: _Array) -> Balance:
        """Put postures into balance.

        Two feet that touch the ground in a point each carry the robot only if its centre of mass is above the line
        between them, which leaves one angle of the body. Each foot then carries half the weight; what friction leaves
        open is a pair of forces along that line. In the plane both feet are one, and nothing is left open.

        Args:
            joints: Angles that mirror left and right, rad, ``(n, joints)``.
            squeeze: Force with which the ground pushes each foot towards the other, N, ``(n,)``.
        """
        rotation, origin = self._frames(joints)
        centres = origin + (rotation @ self._com[:, None, :, None])[..., 0]
        centre = np.einsum("l,lni->ni", self._mass, centres) / self._mass.sum()
        feet = origin[self._feet]
        lean = feet.mean(axis=0) - centre
        lean[:, 1] = 0.0
        down = lean / np.linalg.norm(lean, axis=1, keepdims=True)
        contacts = feet + FOOT_RADIUS * down
        push = np.zeros_like(contacts)
        if len(self._feet) == 2:  # a planar robot's one foot has nothing to push against
            push[0, :, 1], push[1, :, 1] = -squeeze, squeeze
        push -= self.weight / len(self._feet) * down
        ground = _dot(contacts[0], down)
        return Balance(
            down,
            self._torques(rotation, origin, centres, down, contacts, push),
            self._torque_limits(joints),
            self._clearance(self._outlines, rotation, origin, down, ground),
            self._clearance(self._shanks, rotation, origin, down, ground),
            self._clearance(self._left, rotation, origin, np.tile([0.0, -1.0, 0.0], (len(joints), 1)), 0.0 * ground),
            ground,
        )

    def standing_torques(self, joints: _Array, press: tuple[float, float] = (0.6, 0.3)) -> _Array:
        """Return what the joints of a leg must hold if the body is level on all its feet and they press outwards.

        The centre of mass divides the weight between the front and the hind feet; what friction leaves open is how much
        the feet press against each other. Pressing outwards steadies soft joints: with K = 40 a Spot that only carries
        its weight sways over and falls within 2 s, one that presses as by default stands.

        Args:
            joints: Angles that mirror left and right, rad, ``(n, joints)``.
            press: Force between front and hind feet as a share of the smaller load of the two pairs, and between left
                and right feet as a share of their load. It takes as much friction.
        """
        rotation, origin = self._frames(joints)
        centres = origin + (rotation @ self._com[:, None, :, None])[..., 0]
        centre = np.einsum("l,lni->ni", self._mass, centres) / self._mass.sum()
        feet = origin[self._feet]
        front, hind = feet[0], feet[-1]
        span = front[:, 0] - hind[:, 0]
        share = (centre[:, 0] - hind[:, 0]) / span
        forward = press[0] * self.weight * np.minimum(share, 1.0 - share)
        share = share + forward * (hind[:, 2] - front[:, 2]) / (self.weight * span)  # if one pair is lower, it tips
        pair = len(feet) // 2  # feet of a pair: two, or the one of a planar robot
        load = self.weight / pair * np.stack((share,) * pair + (1.0 - share,) * pair)
        push = np.zeros_like(feet)
        push[:, :, 0] = -forward / pair * np.repeat([1.0, -1.0], pair)[:, None]
        if pair == 2:
            push[:, :, 1] = -press[1] * load * np.array([1.0, -1.0, 1.0, -1.0])[:, None]
        push[:, :, 2] = load
        down = np.tile([0.0, 0.0, -1.0], (len(joints), 1))
        return self._torques(rotation, origin, centres, down, feet + FOOT_RADIUS * down, push)

    def _frames(self, joints: _Array) -> tuple[_Array, _Array]:
        """Rotation ``(links, n, 3, 3)`` and origin ``(links, n, 3)`` of every link."""
        count, links = len(joints), len(self._index)
        rotation = np.zeros((links, count, 3, 3))
        origin = np.zeros((links, count, 3))
        rotation[0] = np.eye(3)
        angles = iter(joints.T)
        for joint in self.robot.joints:
            parent, child = self._index[joint.parent], self._index[joint.child]
            turn = rotation[parent]
            origin[child] = origin[parent] + turn @ np.array(joint.origin)
            rotation[child] = turn if joint.axis is None else turn @ _rotation(joint.axis, next(angles))
        return rotation, origin

    def _torques(
        self, rotation: _Array, origin: _Array, centres: _Array, down: _Array, contacts: _Array, push: _Array
    ) -> _Array:
        """What each joint must hold against the forces on the links that it carries."""
        force = self._mass[:, None, None] * GRAVITY * down
        moment = np.cross(centres, force)
        force[self._feet] += push
        moment[self._feet] += np.cross(contacts, push)
        carried_force = np.einsum("jl,lni->jni", self._carried, force)
        carried_moment = np.einsum("jl,lni->jni", self._carried, moment)
        moment_at_joint = carried_moment - np.cross(origin[self._pivots], carried_force)
        axes = (rotation[self._pivots] @ self._axes[:, None, :, None])[..., 0]  # a joint does not turn its own axis
        return np.asarray(-np.einsum("jni,jni->nj", axes, moment_at_joint) / self._legs)

    def _torque_limits(self, joints: _Array) -> _Array:
        limits = np.tile(self._effort, (len(joints), 1))
        limits[:, self._knees] = np.minimum(limits[:, self._knees], knee_torque_limit(joints[:, self._knees]))
        return limits

    def _clearance(
        self, outlines: dict[str, _Outline], rotation: _Array, origin: _Array, down: _Array, ground: _Array
    ) -> _Array:
        """Lowest point above the plane on which the feet stand."""
        lowest = np.full(len(down), np.inf)
        for name, (points, radii) in outlines.items():
            link = self._index[name]
            direction = (down[:, None, :] @ rotation[link])[:, 0, :]  # in the link's frame
            depth = (direction @ points.T + radii).max(axis=1) + _dot(origin[link], down)
            lowest = np.minimum(lowest, ground - depth)
        return lowest


def _dot(left: _Array, right: _Array) -> _Array:
    return np.asarray(np.einsum("ni,ni->n", left, right))


def _rotation(axis: Sequence[float], angles: _Array) -> _Array:
    """Rodrigues' formula for a whole column of angles."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    sine, versine = np.sin(angles)[:, None, None], (1.0 - np.cos(angles))[:, None, None]
    return np.asarray(np.eye(3) + sine * cross + versine * (cross @ cross))


def _carried_links(robot: RobotSpec, link: str) -> list[float]:
    """1 for the link and everything that hangs on it, 0 for the rest."""
    names = {link}
    for joint in robot.joints:  # parents come before children
        if joint.parent in names:
            names.add(joint.child)
    return [float(other.name in names) for other in robot.links]


def _outline(shapes: Sequence[ShapeSpec]) -> _Outline:
    """Points with radii whose hull holds the shapes; it is exact but for a cylinder, which gets round ends."""
    points, radii = [], []
    for shape in shapes:
        if shape.kind == "box":
            half = np.array(shape.size) / 2.0
            corners, radius = np.array(np.meshgrid(*([-1.0, 1.0],) * 3)).reshape(3, -1).T * half, 0.0
        elif shape.kind == "sphere":
            corners, radius = np.zeros((1, 3)), shape.size[0]
        else:
            corners, radius = np.array([[0.0, 0.0, -0.5], [0.0, 0.0, 0.5]]) * shape.size[1], shape.size[0]
        turn = np.eye(3)
        for axis, angle in zip(np.eye(3), shape.rpy, strict=True):
            turn = _rotation(axis.tolist(), np.array([angle]))[0] @ turn
        points.append(corners @ turn.T + np.array(shape.position))
        radii.append(np.full(len(corners), radius))
    return np.concatenate(points), np.concatenate(radii)
