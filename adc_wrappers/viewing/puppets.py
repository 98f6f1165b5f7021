"""Puppets, what is drawn of a task: rigid shapes on links, and where the links are now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotBackend, RobotState
from adc_wrappers.backends.spot_model import JOINT_NAMES, SPOT, ShapeSpec, link_poses
from adc_wrappers.core.errors import BackendError
from adc_wrappers.envs.task import Task

__all__ = ["CartPuppet", "FollowingCamera", "HasState", "LinkPose", "Puppet", "SpotPuppet", "puppet_of"]

_STEEL, _DARK, _YELLOW, _RED = (0.55, 0.56, 0.6), (0.16, 0.18, 0.22), (0.98, 0.74, 0.06), (0.75, 0.24, 0.24)
_RAIL_HEIGHT = 0.6


class LinkPose(NamedTuple):
    """The pose of a link in the world."""

    position: NDArray[np.float64]
    """m, ``(3,)``."""

    quaternion: NDArray[np.float64]
    """w x y z, ``(4,)``."""


class Puppet(ABC):
    """The drawing of a task's first env."""

    shapes: Mapping[str, tuple[ShapeSpec, ...]]
    """The shapes of every link, in the link's frame."""

    camera: tuple[tuple[float, float, float], tuple[float, float, float]]
    """Where to look from, and at what, m."""

    @abstractmethod
    def poses(self) -> dict[str, LinkPose]:
        """Return where every link of ``shapes`` is now."""

    moving: str | None = None
    """The link that the camera follows; None where nothing leaves the frame."""


class FollowingCamera:
    """The shifts of a camera that keep something in the frame.

    It stays where it is while that moves about within ``radius``, so that whoever looks may turn the camera in peace.

    Args:
        radius: How far it may go, m.
    """

    def __init__(self, radius: float = 0.4) -> None:
        self._radius = radius
        self._centre = np.zeros(2)

    def shift(self, position: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return by how much the camera must move, m, ``(3,)``; None for not at all."""
        away = position[:2] - self._centre
        distance = float(np.linalg.norm(away))
        if distance <= self._radius:
            return None
        move = away * (1.0 - self._radius / distance)
        self._centre = self._centre + move
        return np.array([*move, 0.0])


class HasState(Protocol):
    """Anything that knows where a Spot is: a backend, or a mirror of a robot elsewhere."""

    def state(self) -> RobotState:
        """Return the present state; base pose and joint positions are drawn."""


class SpotPuppet(Puppet):
    """Spot, drawn with the shell of the table, whatever engine moves it."""

    camera = ((1.25, -1.35, 0.75), (0.0, 0.0, 0.4))
    moving = SPOT.links[0].name

    def __init__(self, backend: HasState) -> None:
        self._backend = backend
        self.shapes = {link.name: link.visual for link in SPOT.links if link.visual}

    def poses(self) -> dict[str, LinkPose]:
        """Return the links' poses from the base's pose and the joints' angles."""
        state = self._backend.state()
        base = np.asarray(state.base_position[0], dtype=np.float64)
        turn = np.asarray(state.base_quaternion[0], dtype=np.float64)
        if not (np.isfinite(base).all() and np.isfinite(turn).all()):
            return {}  # broken physics: the picture stays until the reset
        world = _matrix(turn)
        links = link_poses(np.asarray(state.joint_positions[0], dtype=np.float64))
        return {
            name: LinkPose(base + world @ links[name][:3, 3], _quaternion(world @ links[name][:3, :3]))
            for name in self.shapes
        }


class CartPuppet(Puppet):
    """A cart on a rail and the chain of poles on it."""

    camera = ((0.0, -2.6, 1.1), (0.0, 0.0, 0.8))

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._lengths = [length for _, length in backend.model.poles]
        rail = ShapeSpec(kind="box", size=(2.4, 0.03, 0.02), position=(0.0, 0.0, -0.06), color=_STEEL)
        ends = [
            ShapeSpec(kind="box", size=(0.015, 0.06, 0.1), position=(x, 0.0, -0.06), color=_RED) for x in (-1.0, 1.0)
        ]
        cart = ShapeSpec(kind="box", size=(0.24, 0.14, 0.1), position=(0.0, 0.0, 0.0), color=_DARK)
        self.shapes = {"rail": (rail, *ends), "cart": (cart,)}
        for index, length in enumerate(self._lengths):
            rod = ShapeSpec(kind="capsule", size=(0.012, length), position=(0.0, 0.0, length / 2), color=_STEEL)
            bob = ShapeSpec(kind="sphere", size=(0.045,), position=(0.0, 0.0, length), color=_YELLOW)
            self.shapes[f"pole_{index}"] = (rod, bob)

    def poses(self) -> dict[str, LinkPose]:
        """Return the cart at its place and every pole at its angle from upright."""
        state = [float(part[0]) for part in self._backend.state()]
        level = np.array([1.0, 0.0, 0.0, 0.0])
        joint = np.array([state[0], 0.0, _RAIL_HEIGHT])
        poses = {"rail": LinkPose(np.array([0.0, 0.0, _RAIL_HEIGHT]), level), "cart": LinkPose(joint.copy(), level)}
        for index, (length, angle) in enumerate(zip(self._lengths, state[2::2], strict=True)):
            poses[f"pole_{index}"] = LinkPose(joint.copy(), np.array([np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0]))
            joint = joint + length * np.array([np.sin(angle), 0.0, np.cos(angle)])
        return poses


def puppet_of(task: Task) -> Puppet:
    """Return the drawing of a task.

    Raises:
        BackendError: There is none for it.
    """
    backend: Any = task.backend
    if isinstance(backend, RobotBackend) and tuple(backend.joint_names) == JOINT_NAMES:
        return SpotPuppet(backend)
    if hasattr(getattr(backend, "model", None), "poles"):
        return CartPuppet(backend)
    raise BackendError(
        f"there is no live drawing of {type(task).__name__} on {type(backend).__name__}: expected Spot or a cart with "
        "poles. Film it with `adc play RUN --out film.gif`, or pass a Puppet of your own to BrowserView."
    )


def _matrix(quaternion: NDArray[np.float64]) -> NDArray[np.float64]:
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _quaternion(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a rotation matrix as w x y z, by the largest of the four (Shepperd)."""
    m = matrix
    squares = 1.0 + np.array(
        [
            m[0, 0] + m[1, 1] + m[2, 2],
            m[0, 0] - m[1, 1] - m[2, 2],
            m[1, 1] - m[0, 0] - m[2, 2],
            m[2, 2] - m[0, 0] - m[1, 1],
        ]
    )
    largest = int(squares.argmax())
    products = np.array(
        [
            [squares[0], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], squares[1], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]],
            [m[0, 2] - m[2, 0], m[0, 1] + m[1, 0], squares[2], m[1, 2] + m[2, 1]],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], squares[3]],
        ]
    )[largest]
    return np.asarray(products / np.linalg.norm(products))


def shape_quaternion(shape: ShapeSpec) -> NDArray[np.float64]:
    """Return the turn of a shape in its link's frame, w x y z."""
    roll, pitch, yaw = (0.5 * angle for angle in shape.rpy)
    cr, sr, cp, sp, cy, sy = np.cos(roll), np.sin(roll), np.cos(pitch), np.sin(pitch), np.cos(yaw), np.sin(yaw)
    return np.array(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ]
    )
