"""The cart-pole in PyBullet, from a generated URDF."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError

from .base import CartPoleBackend
from .model import CartPoleModel, CartPoleState
from .urdf import cartpole_urdf

__all__ = ["BulletCartPole"]

_CART, _POLE = 0, 1
_SPACING = 1.0


class BulletCartPole(CartPoleBackend):
    """Cart-poles side by side in one PyBullet world, without collision shapes, so that they do not touch.

    The PD force is computed and applied before every physics step; the engine's own joint motors are off.
    """

    def __init__(
        self, num_envs: int, model: CartPoleModel, *, physics_step: float = 0.002, decimation: int = 10
    ) -> None:
        super().__init__(num_envs, model, physics_step=physics_step, decimation=decimation)
        self._bullet, self._client = _connect()
        self._bullet.setGravity(0.0, 0.0, -model.gravity, physicsClientId=self._client)
        self._bullet.setTimeStep(physics_step, physicsClientId=self._client)
        self._bodies = self._load()

    @property
    def explicit_time_step(self) -> float:
        """The PD law is evaluated explicitly, once per physics step."""
        return self.physics_step

    def _load(self) -> list[int]:
        bullet, client = self._bullet, self._client
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cartpole.urdf"
            path.write_text(cartpole_urdf(self.model))
            flags = bullet.URDF_USE_INERTIA_FROM_FILE
            bodies = [
                bullet.loadURDF(
                    str(path), [0.0, _SPACING * i, 0.0], useFixedBase=True, flags=flags, physicsClientId=client
                )
                for i in range(self.num_envs)
            ]
        for body in bodies:
            for link in (_CART, _POLE):
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

    def state(self) -> CartPoleState:
        """Read the joints."""
        values = np.empty((4, self.num_envs))
        for i, body in enumerate(self._bodies):
            cart, pole = self._bullet.getJointStates(body, (_CART, _POLE), physicsClientId=self._client)
            values[:, i] = cart[0], cart[1], pole[0], pole[1]
        return CartPoleState(*values)

    def reset(self, state: CartPoleState, env_ids: NDArray[np.int64] | None = None) -> None:
        """Set the joints of chosen cart-poles."""
        chosen = range(self.num_envs) if env_ids is None else env_ids
        for env, x, x_dot, theta, theta_dot in zip(chosen, *np.stack(state).tolist(), strict=True):
            body = self._bodies[env]
            self._bullet.resetJointState(body, _CART, x, x_dot, physicsClientId=self._client)
            self._bullet.resetJointState(body, _POLE, theta, theta_dot, physicsClientId=self._client)

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
        """Return PyBullet's own picture (software renderer) of one cart-pole."""
        bullet, client = self._bullet, self._client
        width, height = 640, 400
        view = bullet.computeViewMatrixFromYawPitchRoll(
            [0.0, _SPACING * env_id, 0.12], 1.9, 0.0, -8.0, 0.0, 2, physicsClientId=client
        )
        projection = bullet.computeProjectionMatrixFOV(48.0, width / height, 0.5, 3.0, physicsClientId=client)
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
