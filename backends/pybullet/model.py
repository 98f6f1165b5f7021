"""Models: a robot loaded into a PyBullet client, and what is read from it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import PLANE_JOINTS, SPOT, RobotSpec
from adc_wrappers.core.errors import BackendError, MissingExtraError

__all__ = ["LoadedRobot", "RobotDescription", "WorldSettings", "connect", "describe", "load_robot"]

Vector = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class WorldSettings:
    """Settings that every world of a batch shares; sent to worker processes."""

    model: str
    """URDF text, or the path of a URDF file."""

    physics_step: float
    decimation: int
    fixed_base: bool
    gravity: float
    robot: RobotSpec = SPOT
    """The table whose joints and links the model has."""


@dataclass(frozen=True)
class LoadedRobot:
    """A robot in a client, with its joints and links found by name."""

    body: int
    joints: list[int]
    """PyBullet's indices of the table's actuated joints."""

    links: dict[str, int]
    """PyBullet's index of every link; the root's is −1."""

    base_joints: tuple[int, ...] = ()
    """PyBullet's indices of the joints that a planar base moves on; none if it is free."""


@dataclass(frozen=True, kw_only=True)
class RobotDescription:
    """Facts about a model that the backend needs before it makes worlds of it."""

    link_names: tuple[str, ...]
    base_mass: float
    effective_inertia: NDArray[np.float64]


def connect() -> tuple[Any, int]:
    """Return the module pybullet and a new physics client.

    Raises:
        MissingExtraError: PyBullet is not installed.
        BackendError: PyBullet gives no further client.
    """
    try:
        import pybullet
    except ImportError as error:
        raise MissingExtraError("pybullet", "pybullet", "The PyBullet robot backend") from error
    client = pybullet.connect(pybullet.DIRECT)
    if client < 0:
        raise BackendError(
            "PyBullet gives no further physics client to this process (it holds 1024 at most). Close backends that are "
            "not needed, or spread the envs over more workers."
        )
    return pybullet, client


def load_robot(
    bullet: Any, client: int, model: str, *, fixed_base: bool, visuals: bool = False, robot: RobotSpec = SPOT
) -> LoadedRobot:
    """Load a URDF with the inertias it states, switch off the engine's motors and damping, and look up names.

    Raises:
        BackendError: The file cannot be read, or its moving joints are not the table's.
    """
    flags = bullet.URDF_USE_INERTIA_FROM_FILE | (0 if visuals else bullet.URDF_IGNORE_VISUAL_SHAPES)
    body = _load(bullet, client, model, flags, fixed_base or _has_plane_joints(model))
    infos = [bullet.getJointInfo(body, index, client) for index in range(bullet.getNumJoints(body, client))]
    moving = {info[1].decode(): info[0] for info in infos if info[2] != bullet.JOINT_FIXED}
    base = tuple(moving.pop(name) for name in PLANE_JOINTS) if set(PLANE_JOINTS) <= set(moving) else ()
    _check_joints(moving, robot)
    links = {bullet.getBodyInfo(body, client)[0].decode(): -1, **{info[12].decode(): info[0] for info in infos}}
    for link in links.values():
        bullet.changeDynamics(
            body, link, linearDamping=0.0, angularDamping=0.0, jointDamping=0.0, maxJointVelocity=1e5,
            physicsClientId=client,
        )  # fmt: skip
    joints = [moving[name] for name in robot.joint_names]
    for joint in (*joints, *base):
        bullet.setJointMotorControl2(body, joint, bullet.VELOCITY_CONTROL, force=0.0, physicsClientId=client)
    return LoadedRobot(body, joints, links, base)


def _has_plane_joints(model: str) -> bool:
    """Whether a model's base moves on joints of its own, whose root must not move."""
    text = model if model.lstrip().startswith("<") else Path(model).read_text() if Path(model).is_file() else ""
    return PLANE_JOINTS[-1] in text


def describe(model: str, table: RobotSpec = SPOT) -> RobotDescription:
    """Load a model once, check it, and read what the backend must know.

    Links that the table has come first and in its order, then the model's others.
    """
    bullet, client = connect()
    try:
        robot = load_robot(bullet, client, model, fixed_base=False, robot=table)
        ours = [name for name in table.link_names if name in robot.links]
        return RobotDescription(
            link_names=(*ours, *(name for name in robot.links if name not in ours)),
            base_mass=bullet.getDynamicsInfo(robot.body, -1, client)[0],
            effective_inertia=_effective_inertia(bullet, client, robot, table),
        )
    finally:
        bullet.disconnect(client)


def _effective_inertia(bullet: Any, client: int, robot: LoadedRobot, table: RobotSpec) -> NDArray[np.float64]:
    """Diagonal of the mass matrix at the nominal pose; PyBullet wants the moving joints in the order of its indices."""
    order = np.argsort(robot.joints)
    angles = np.asarray(table.nominal_pose)[order].tolist()
    matrix = np.array(bullet.calculateMassMatrix(robot.body, angles, physicsClientId=client))
    inertia = np.empty(len(order))
    inertia[order] = np.diag(matrix)[-len(order) :]  # six rows of the free base come first
    return inertia / [joint.legs for joint in table.actuated]


def _load(bullet: Any, client: int, model: str, flags: int, fixed_base: bool) -> int:
    options = {"flags": flags, "useFixedBase": fixed_base, "physicsClientId": client}
    is_text = model.lstrip().startswith("<")
    if not is_text and not Path(model).is_file():
        raise BackendError(f"expected URDF text or the path of a URDF file, got {model!r}, which is no file.")
    try:
        if not is_text:
            return int(bullet.loadURDF(model, **options))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "robot.urdf"
            path.write_text(model, encoding="utf-8")
            return int(bullet.loadURDF(str(path), **options))
    except bullet.error as error:
        source = "the given URDF text" if is_text else model
        raise BackendError(f"PyBullet cannot load {source}: {error} Its own messages are printed above.") from error


def _check_joints(moving: Iterable[str], robot: RobotSpec) -> None:
    """Refuse a model that lacks one of the table's joints, or that has others which nobody would hold."""
    names = set(moving)
    missing = [name for name in robot.joint_names if name not in names]
    if missing:
        raise BackendError(
            f"the URDF lacks the moving joints {', '.join(missing)}; it has {', '.join(sorted(names)) or 'none'}. "
            f"Rename its joints: expected {', '.join(robot.joint_names)}."
        )
    extra = sorted(names - set(robot.joint_names))
    if extra:
        raise BackendError(
            f"the URDF has further moving joints, which nothing would hold: {', '.join(extra)}. "
            'Give them type="fixed", or remove them.'
        )
