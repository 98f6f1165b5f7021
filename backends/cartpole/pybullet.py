"""Carts with poles in PyBullet, from a generated URDF."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.env_states import EnvState, put_array
from adc_wrappers.core.errors import MissingExtraError

from .base import CartBackend
from .model import CartModel, StateT

__all__ = ["BulletCart", "chain_urdf"]


_POINT = 1e-9  # kg m²: a point mass; the engine wants a positive number


def chain_urdf(model: CartModel[Any], rail: float = 1.0) -> str:
    """Return a URDF with the joints ``cart`` (prismatic along x) and ``pole1``, ``pole2``, … (revolute about y).

    A pole's joint angle is relative to what carries it, 0 where both point up.

    Args:
        model: Masses and lengths.
        rail: Half length of the drawn rail, m.
    """
    poles = ""
    parent, height = "cart", 0.0
    for number, (mass, length) in enumerate(model.poles, start=1):
        poles += _pole(f"pole{number}", parent, height, mass, length)
        parent, height = f"pole{number}", length
    return f"""<?xml version="1.0"?>
<robot name="cart">
  <link name="rail">
    <inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
    {_box_visual((2.0 * rail + 0.4, 0.03, 0.02), (0.0, 0.0, -0.06), "rail", (0.55, 0.55, 0.58))}
  </link>
  <link name="cart">
    {_inertial(model.cart_mass, 0.0, 0.01)}
    {_box_visual((0.24, 0.14, 0.09), (0.0, 0.0, 0.0), "cart", (0.16, 0.18, 0.22))}
  </link>
  <joint name="cart" type="prismatic">
    <parent link="rail"/><child link="cart"/><axis xyz="1 0 0"/>
    <limit lower="-1000" upper="1000" effort="100000" velocity="100000"/>
  </joint>
{poles}</robot>
"""


def _pole(name: str, parent: str, height: float, mass: float, length: float) -> str:
    return f"""  <link name="{name}">
    {_inertial(mass, length, _POINT)}
    <visual>
      <origin xyz="0 0 {length / 2}"/>
      <geometry><cylinder radius="0.012" length="{length}"/></geometry>
      <material name="rod"><color rgba="0.75 0.76 0.78 1"/></material>
    </visual>
    <visual>
      <origin xyz="0 0 {length}"/>
      <geometry><sphere radius="0.045"/></geometry>
      <material name="mass"><color rgba="0.95 0.70 0.05 1"/></material>
    </visual>
  </link>
  <joint name="{name}" type="continuous">
    <parent link="{parent}"/><child link="{name}"/><origin xyz="0 0 {height}"/><axis xyz="0 1 0"/>
    <limit effort="100000" velocity="100000"/>
  </joint>
"""


def _inertial(mass: float, height: float, inertia: float) -> str:
    return (
        f'<inertial><origin xyz="0 0 {height}"/><mass value="{mass}"/>'
        f'<inertia ixx="{inertia}" ixy="0" ixz="0" iyy="{inertia}" iyz="0" izz="{inertia}"/></inertial>'
    )


def _box_visual(
    size: tuple[float, float, float], origin: tuple[float, float, float], name: str, colour: tuple[float, float, float]
) -> str:
    def text(values: tuple[float, ...]) -> str:
        return " ".join(f"{value:g}" for value in values)

    return (
        f'<visual><origin xyz="{text(origin)}"/><geometry><box size="{text(size)}"/></geometry>'
        f'<material name="{name}"><color rgba="{text(colour)} 1"/></material></visual>'
    )


_CART = 0
_SPACING = 10.0  # m: neighbours stay outside each other's pictures


class BulletCart(CartBackend[StateT]):
    """Mechanisms side by side in one PyBullet world, without collision shapes, so that they do not touch.

    The PD force is computed and applied before every physics step; the engine's own joint motors are off. The engine's
    joint angles are relative to the pole below, the state's are absolute.
    """

    def __init__(
        self, num_envs: int, model: CartModel[StateT], *, physics_step: float = 0.002, decimation: int = 10
    ) -> None:
        super().__init__(num_envs, model, physics_step=physics_step, decimation=decimation)
        self._bullet, self._client = _connect()
        self._bullet.setGravity(0.0, 0.0, -model.gravity, physicsClientId=self._client)
        self._bullet.setTimeStep(physics_step, physicsClientId=self._client)
        self._joints = tuple(range(1 + len(model.poles)))
        self._bodies = self._load()

    @property
    def explicit_time_step(self) -> float:
        """The PD law is evaluated explicitly, once per physics step."""
        return self.physics_step

    def _load(self) -> list[int]:
        bullet, client = self._bullet, self._client
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cart.urdf"
            path.write_text(chain_urdf(self.model))
            flags = bullet.URDF_USE_INERTIA_FROM_FILE
            bodies = [
                bullet.loadURDF(
                    str(path), [0.0, _SPACING * i, 0.0], useFixedBase=True, flags=flags, physicsClientId=client
                )
                for i in range(self.num_envs)
            ]
        for body in bodies:
            for link in self._joints:
                bullet.changeDynamics(
                    body,
                    link,
                    linearDamping=0.0,
                    angularDamping=0.0,
                    jointDamping=0.0,
                    maxJointVelocity=1e5,
                    physicsClientId=client,
                )
                bullet.setJointMotorControl2(body, link, bullet.VELOCITY_CONTROL, force=0.0, physicsClientId=client)
        return bodies

    def state(self) -> StateT:
        """Read the joints."""
        values = self._read_joints()
        values[:, 1:] = np.cumsum(values[:, 1:], axis=1)
        return self.model.name_state(values.transpose(1, 0, 2).reshape(-1, self.num_envs))

    def _read_joints(self) -> NDArray[np.float64]:
        """Return positions and velocities of every joint of every mechanism, relative to the link below."""
        values = np.empty((2, len(self._joints), self.num_envs))
        for i, body in enumerate(self._bodies):
            joints = self._bullet.getJointStates(body, self._joints, physicsClientId=self._client)
            values[:, :, i] = [joint[0] for joint in joints], [joint[1] for joint in joints]
        return values

    def _write_joints(self, values: NDArray[np.float64], env_ids: Iterable[int]) -> None:
        """Set the joints of chosen mechanisms, ``(2, joints, len(env_ids))``."""
        for column, env in enumerate(env_ids):
            for joint, (position, velocity) in zip(self._joints, values[:, :, column].T.tolist(), strict=True):
                self._bullet.resetJointState(self._bodies[env], joint, position, velocity, physicsClientId=self._client)

    def physics_state(self) -> EnvState:
        """Return the engine's joints, whose sums would lose bits."""
        return {"joints": self._read_joints()}

    def load_physics_state(self, state: EnvState) -> None:
        """Set them."""
        values = self._read_joints()
        put_array(values, state, "joints")
        self._write_joints(values, range(self.num_envs))

    def reset(self, state: StateT, env_ids: NDArray[np.int64] | None = None) -> None:
        """Set the joints of chosen mechanisms."""
        values = np.stack(state).reshape(len(self._joints), 2, -1)
        values[2:] -= values[1:-1].copy()
        self._write_joints(values.transpose(1, 0, 2), range(self.num_envs) if env_ids is None else env_ids.tolist())

    def advance(self, command: NDArray[np.float64]) -> None:
        """Simulate one policy step, with the PD force applied at every physics step."""
        bullet, client = self._bullet, self._client
        torque_control = bullet.TORQUE_CONTROL
        rows = list(
            zip(
                self._bodies,
                self._stiffness[:, 0].tolist(),
                self._damping[:, 0].tolist(),
                np.asarray(command, dtype=np.float64).tolist(),
                strict=True,
            )
        )
        for _ in range(self.decimation):
            for body, stiffness, damping, target in rows:
                x, x_dot = bullet.getJointState(body, _CART, client)[:2]
                force = stiffness * (target - x) - damping * x_dot
                bullet.setJointMotorControl2(body, _CART, torque_control, force=force, physicsClientId=client)
            bullet.stepSimulation(client)

    def render(self, env_id: int = 0) -> NDArray[np.uint8]:
        """Return PyBullet's own picture (software renderer) of one mechanism."""
        bullet, client = self._bullet, self._client
        width, height = 640, 400
        reach = sum(length for _, length in self.model.poles)
        centre = [0.0, _SPACING * env_id, 0.12 + max(0.0, reach - 0.5) / 2]
        distance = 1.9 * max(1.0, reach)
        view = bullet.computeViewMatrixFromYawPitchRoll(centre, distance, 0.0, -8.0, 0.0, 2, physicsClientId=client)
        projection = bullet.computeProjectionMatrixFOV(
            48.0, width / height, 0.5, distance + 1.1, physicsClientId=client
        )
        pixels = bullet.getCameraImage(
            width, height, view, projection, renderer=bullet.ER_TINY_RENDERER, physicsClientId=client
        )[2]
        picture: NDArray[np.uint8] = np.array(pixels, dtype=np.uint8).reshape(height, width, 4)[:, :, :3]
        return np.ascontiguousarray(picture)

    def close(self) -> None:
        """Disconnect from the physics server."""
        if self._client >= 0:
            self._bullet.disconnect(self._client)
            self._client = -1


def _connect() -> tuple[Any, int]:
    try:
        import pybullet
    except ImportError as error:
        raise MissingExtraError("pybullet", "pybullet", "The PyBullet backend") from error
    return pybullet, pybullet.connect(pybullet.DIRECT)
