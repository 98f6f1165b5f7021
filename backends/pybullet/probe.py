"""A probe that moves one joint of a body in PyBullet and locks all else, to prove gains by motion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.core.actuators import ActuatorBackend
from adc_wrappers.core.errors import BackendError, MissingExtraError

__all__ = ["BulletProbe"]

_Array = NDArray[np.float64]

_LOCK = 1e5  # N·m: the most that a motor of the engine may use to hold a joint
_HOLD = 1e7  # N: the same for the base


class BulletProbe:
    """The joints of a body in PyBullet on a bench, for :func:`adc_wrappers.testing.check_backend`.

    The PD law is evaluated by whoever simulates, so the probe takes a function for one physics step. Joints whose
    targets are moved are free; motors of the engine hold the others, a constraint holds the base in the air, and
    gravity and collisions of the body are off until the probe is closed. A motor of the joint itself that the engine
    still has on is found: it is a second loop.

    Args:
        backend: The backend under test, with one env.
        client: PyBullet's physics client.
        body: The robot.
        joints: PyBullet's indices of the backend's joints, in its order.
        step: Called with joint targets, ``(joints,)``; applies the PD law once and steps the simulation once.
        time_step: Seconds in that step; by default the client's.
        pose: Joint positions to rest in; by default the backend's ``nominal_pose``, else where the joints are.

    Raises:
        BackendError: The joints are not the backend's.
        MissingExtraError: PyBullet is not installed.
    """

    def __init__(
        self,
        backend: ActuatorBackend,
        client: int,
        body: int,
        joints: Sequence[int],
        step: Callable[[_Array], None],
        *,
        time_step: float | None = None,
        pose: ArrayLike | None = None,
    ) -> None:
        try:
            import pybullet
        except ImportError as error:
            raise MissingExtraError("pybullet", "pybullet", "BulletProbe") from error
        if len(joints) != len(backend.joint_names) or backend.num_envs != 1:
            raise BackendError(
                f"expected one env and {len(backend.joint_names)} joints, one index for each of the backend's, got "
                f"{backend.num_envs} envs and {len(joints)} indices."
            )
        self.backend = backend
        self._bullet: Any = pybullet
        self._client, self._body, self._joints, self._step = client, body, list(joints), step
        settings = pybullet.getPhysicsEngineParameters(client)
        self.time_step = float(settings["fixedTimeStep"]) if time_step is None else time_step
        self._gravity = [settings[f"gravityAcceleration{axis}"] for axis in "XYZ"]
        own = getattr(backend, "nominal_pose", None) if pose is None else pose
        self.pose: _Array = self._positions()[0] if own is None else np.asarray(own, dtype=np.float64)
        """Joint positions at rest, ``(joints,)``."""
        every = range(pybullet.getNumJoints(body, client))
        moving = [index for index in every if pybullet.getJointInfo(body, index, client)[2] != pybullet.JOINT_FIXED]
        self._passive = {
            index: pybullet.getJointState(body, index, client)[0] for index in moving if index not in self._joints
        }
        self._free: set[int] = set()
        self._links = [-1, *every]
        self._place = pybullet.getBasePositionAndOrientation(body, client)
        self._anchor = self._fix_base()
        pybullet.setGravity(0.0, 0.0, 0.0, physicsClientId=client)
        self._collide(False)

    def _fix_base(self) -> int | None:
        """Hold a base that may move; one with plane joints or without mass is held already."""
        bullet, client = self._bullet, self._client
        if bullet.getDynamicsInfo(self._body, -1, client)[0] == 0.0:
            return None
        position, orientation = self._place
        anchor: int = bullet.createConstraint(
            self._body, -1, -1, -1, bullet.JOINT_FIXED, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], position,
            childFrameOrientation=orientation, physicsClientId=client,
        )  # fmt: skip
        bullet.changeConstraint(anchor, maxForce=_HOLD, physicsClientId=client)
        return anchor

    def _collide(self, wanted: bool) -> None:
        for link in self._links:
            self._bullet.setCollisionFilterGroupMask(
                self._body, link, int(wanted), int(wanted), physicsClientId=self._client
            )

    def rest(self) -> _Array:
        """Put the body to rest in its pose and lock every joint."""
        bullet, client = self._bullet, self._client
        bullet.resetBasePositionAndOrientation(self._body, *self._place, physicsClientId=client)
        bullet.resetBaseVelocity(self._body, [0.0] * 3, [0.0] * 3, physicsClientId=client)
        at = {**self._passive, **dict(zip(self._joints, self.pose.tolist(), strict=True))}
        for index, position in at.items():
            bullet.resetJointState(self._body, index, position, 0.0, physicsClientId=client)
            self._motor(index, _LOCK)
        self._free.clear()
        return self._positions()

    def move(self, targets: _Array) -> _Array:
        """Hold targets for one physics step; a joint whose target is not where it rested is free from then on."""
        wanted = np.asarray(targets, dtype=np.float64)[0]
        for place in np.flatnonzero(np.abs(wanted - self.pose) > 1e-12).tolist():
            if place not in self._free:
                self._free.add(place)
                self._motor(self._joints[place], 0.0)
        self._step(wanted)
        return self._positions()

    def _motor(self, joint: int, force: float) -> None:
        self._bullet.setJointMotorControl2(
            self._body, joint, self._bullet.VELOCITY_CONTROL, targetVelocity=0.0, force=force,
            physicsClientId=self._client,
        )  # fmt: skip

    def _positions(self) -> _Array:
        states = self._bullet.getJointStates(self._body, self._joints, self._client)
        return np.array([[state[0] for state in states]])

    def causes(self, joint: int, amplitude: float) -> list[str]:
        """Return what keeps a joint from following a step as its gains say."""
        bullet, client, index = self._bullet, self._client, self._joints[joint]
        info, found = bullet.getJointInfo(self._body, index, client), []
        start, end, (low, high) = self.pose[joint], self.pose[joint] + amplitude, info[8:10]
        if low < high and not (low < start < high and low < end < high):
            found.append(f"the step from {start:.3g} to {end:.3g} meets the joint's limits, {low:.3g} to {high:.3g}")
        if info[6]:
            found.append(f"the joint has a damping of its own, {info[6]:.3g}: changeDynamics(..., jointDamping=0)")
        if bullet.getDynamicsInfo(self._body, index, client)[0] == 0.0:
            found.append("the joint's link has no mass")
        return found

    def close(self) -> None:
        """Give gravity and collisions back, and let base and joints go; may be called twice."""
        if self._anchor is not None:
            self._bullet.removeConstraint(self._anchor, physicsClientId=self._client)
            self._anchor = None
        self._bullet.setGravity(*self._gravity, physicsClientId=self._client)
        self._collide(True)
        for index in (*self._passive, *self._joints):
            self._motor(index, 0.0)

    def __enter__(self) -> BulletProbe:
        """Return the probe, for a ``with`` block that closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()
