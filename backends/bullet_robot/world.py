"""One robot on flat ground in a physics client of its own."""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from adc_wrappers.backends.spot_model import NOMINAL_POSE

from .actuation import DelayLine, pd_torques
from .arrays import state_width
from .model import LoadedRobot, WorldSettings, connect, load_robot

__all__ = ["World"]

_CONTACT_STEPS: Final = 3
_OUT_OF_REACH: Final = [0.0, 0.0, 1000.0]
_NO_ROTATION: Final = [0.0, 0.0, 0.0, 1.0]


class World:
    """A robot whose torques are computed here, between the physics steps of PyBullet.

    When a number stops being finite, the world stops too, and reports NaN until its next reset, which builds it anew:
    PyBullet takes a body that was NaN out of collision detection for good, and it would fall through the ground.

    Args:
        settings: Common to the batch.
        link_names: Links whose contact is reported, in this order.
    """

    def __init__(self, settings: WorldSettings, link_names: Sequence[str]) -> None:
        self._settings = settings
        self._link_names = link_names
        self._delay = DelayLine(list(NOMINAL_POSE))
        self._recent_forces: deque[dict[int, float]] = deque(maxlen=_CONTACT_STEPS)
        self._friction = math.nan
        self._base_mass_offset = 0.0
        self._coulomb = self._viscous = [0.0] * len(NOMINAL_POSE)
        self._failed = False
        self._build()

    def _build(self) -> None:
        settings = self._settings
        self._bullet, self._client = connect()
        self._disconnect = weakref.finalize(self, self._bullet.disconnect, self._client)
        bullet, client = self._bullet, self._client
        bullet.setGravity(0.0, 0.0, -settings.gravity, physicsClientId=client)
        bullet.setTimeStep(settings.physics_step, physicsClientId=client)
        plane = bullet.createCollisionShape(bullet.GEOM_PLANE, physicsClientId=client)
        self._ground = bullet.createMultiBody(0.0, plane, physicsClientId=client)
        bullet.changeDynamics(self._ground, -1, lateralFriction=1.0, physicsClientId=client)  # friction is multiplied
        self._robot: LoadedRobot = load_robot(bullet, client, settings.model, fixed_base=settings.fixed_base)
        self._joints = tuple(self._robot.joints)  # PyBullet reads a tuple faster than a list
        places = {self._robot.links[name]: place for place, name in enumerate(self._link_names)}
        self._place_of_link: dict[int, int] = places
        info = bullet.getDynamicsInfo(self._robot.body, -1, client)
        self._base_mass, self._base_inertia = info[0], info[2]
        self._centre = info[3], info[4]
        """The base's centre of mass and principal axes in the base link: PyBullet's idea of where the base is."""
        self._link_in_centre = bullet.invertTransform(*self._centre)
        self._joint_states: Sequence[Any] = bullet.getJointStates(self._robot.body, self._robot.joints, client)
        self._torques = [0.0] * len(self._robot.joints)
        self.set_parameters(self._friction, self._base_mass_offset, self._delay.delay)
        self.set_joint_friction(self._coulomb, self._viscous)

    def set_parameters(self, friction: float, base_mass_offset: float, command_delay: int) -> None:
        """Give the robot physical parameters; a friction of NaN leaves the model's."""
        bullet, body, client = self._bullet, self._robot.body, self._client
        self._friction, self._base_mass_offset, self._delay.delay = friction, base_mass_offset, command_delay
        if not math.isnan(friction):
            for link in self._robot.links.values():
                bullet.changeDynamics(body, link, lateralFriction=friction, physicsClientId=client)
        if not self._settings.fixed_base:  # which has no mass
            mass = self._base_mass + base_mass_offset
            inertia = [value * (mass / self._base_mass) for value in self._base_inertia]
            bullet.changeDynamics(body, -1, mass=mass, localInertiaDiagonal=inertia, physicsClientId=client)

    def set_joint_friction(self, coulomb: list[float], viscous: list[float]) -> None:
        """Give the joints dry friction, N·m (a motor that holds them still with that torque), and viscous friction."""
        bullet, body, client = self._bullet, self._robot.body, self._client
        self._coulomb, self._viscous = coulomb, viscous
        for joint, dry, wet in zip(self._joints, coulomb, viscous, strict=True):
            bullet.setJointMotorControl2(
                body, joint, bullet.VELOCITY_CONTROL, targetVelocity=0.0, force=dry, physicsClientId=client
            )
            bullet.changeDynamics(body, joint, jointDamping=wet, physicsClientId=client)

    def reset(self, start: list[float]) -> None:
        """Put the robot into a start: a row of ``BatchArrays.starts``.

        On the way it is lifted off the ground for one collision test. PyBullet keeps contact points that lie near new
        ones, with the impulses of the past, and the new episode would depend on the old one.
        """
        if self._failed:
            self._disconnect()
            self._build()
            self._failed = False
        bullet, body, client = self._bullet, self._robot.body, self._client
        joints = self._robot.joints
        angles, speeds = start[13 : 13 + len(joints)], start[13 + len(joints) :]
        for joint, angle, speed in zip(joints, angles, speeds, strict=True):
            bullet.resetJointState(body, joint, angle, speed, physicsClientId=client)
        bullet.resetBasePositionAndOrientation(body, _OUT_OF_REACH, _NO_ROTATION, client)
        bullet.performCollisionDetection(client)
        self._place_base(start[:3], [*start[4:7], start[3]], start[7:10], start[10:13])
        self._joint_states = bullet.getJointStates(body, joints, client)
        self._torques = [0.0] * len(joints)
        self._delay.restart(angles)
        self._recent_forces.clear()

    def _place_base(
        self, position: list[float], quaternion: list[float], velocity: list[float], body_rates: list[float]
    ) -> None:
        """Move the base link's origin; quaternion x y z w, velocity in the world, rates in the base link."""
        bullet, body, client = self._bullet, self._robot.body, self._client
        centre, axes = bullet.multiplyTransforms(position, quaternion, *self._centre)
        bullet.resetBasePositionAndOrientation(body, centre, axes, client)
        if not self._settings.fixed_base:
            rates = bullet.rotateVector(quaternion, body_rates)
            arm = [there - here for there, here in zip(centre, position, strict=True)]
            moved = [v + turn for v, turn in zip(velocity, _cross(rates, arm), strict=True)]
            bullet.resetBaseVelocity(body, moved, rates, client)

    def push(self, velocity_change: list[float]) -> None:
        """Add to the base's linear velocity in the world."""
        if self._failed or self._settings.fixed_base:
            return
        bullet, body, client = self._bullet, self._robot.body, self._client
        linear, angular = bullet.getBaseVelocity(body, client)
        pushed = [old + change for old, change in zip(linear, velocity_change, strict=True)]
        bullet.resetBaseVelocity(body, pushed, angular, client)

    def advance(self, targets: list[float], stiffness: list[float], damping: list[float]) -> list[float]:
        """Simulate one policy step and return a row of ``BatchArrays.states``, all NaN if the state is not finite."""
        if not self._failed and self._simulate(targets, stiffness, damping):
            row = self._read()
            if math.isfinite(sum(row)):
                return row
        self._failed = True
        return [math.nan] * state_width(len(self._robot.joints), len(self._link_names))

    def _simulate(self, targets: list[float], stiffness: list[float], damping: list[float]) -> bool:
        """Run the physics steps of a policy step; False if a torque is not finite, which PyBullet never sees."""
        bullet, client, body, joints = self._bullet, self._client, self._robot.body, self._joints
        read, write, step = bullet.getJointStates, bullet.setJointMotorControlArray, bullet.stepSimulation
        torque_control, delayed = bullet.TORQUE_CONTROL, self._delay.pass_on
        states = self._joint_states
        for remaining in range(self._settings.decimation, 0, -1):
            torques = pd_torques(states, delayed(targets), stiffness, damping)
            if torques is None:
                return False
            write(body, joints, torque_control, forces=torques, physicsClientId=client)
            step(client)
            self._torques = torques
            states = read(body, joints, client)
            if remaining <= _CONTACT_STEPS:
                self._recent_forces.append(self._ground_forces())
        self._joint_states = states
        return True

    def _ground_forces(self) -> dict[int, float]:
        """Return the size of the ground's total force on each touching link in the last physics step, N."""
        totals: dict[int, tuple[float, float, float]] = {}
        points = self._bullet.getContactPoints(self._robot.body, self._ground, physicsClientId=self._client)
        for _, _, _, link, _, _, _, n, _, press, s, u, t, v in points:  # along the normal n and two tangents u, v
            x, y, z = totals.get(link, (0.0, 0.0, 0.0))
            totals[link] = (
                x + press * n[0] + s * u[0] + t * v[0],
                y + press * n[1] + s * u[1] + t * v[1],
                z + press * n[2] + s * u[2] + t * v[2],
            )
        return {self._place_of_link[link]: math.hypot(*total) for link, total in totals.items()}

    def _largest_forces(self) -> list[float]:
        """Return the largest recent ground force on each reported link, N."""
        largest = [0.0] * len(self._link_names)
        for forces in self._recent_forces:
            for place, force in forces.items():
                if force > largest[place]:
                    largest[place] = force
        return largest

    def _read(self) -> list[float]:
        """Return the state as a row of ``BatchArrays.states``."""
        bullet, body, client, states = self._bullet, self._robot.body, self._client, self._joint_states
        centre, axes = bullet.getBasePositionAndOrientation(body, client)
        velocity, rates = bullet.getBaseVelocity(body, client)
        origin, (x, y, z, w) = bullet.multiplyTransforms(centre, axes, *self._link_in_centre)
        matrix = bullet.getMatrixFromQuaternion((x, y, z, w))
        vx, vy, vz = _into_frame(matrix, velocity)
        p, q, r = _into_frame(matrix, rates)
        cx, cy, cz = self._centre[0]  # the link's origin moves with the centre, minus rates × centre
        return [
            *origin, w, x, y, z,
            vx - q * cz + r * cy, vy - r * cx + p * cz, vz - p * cy + q * cx,
            p, q, r,
            -matrix[6], -matrix[7], -matrix[8],
            *[state[0] for state in states],
            *[state[1] for state in states],
            *self._torques,
            *self._largest_forces(),
        ]  # fmt: skip

    def close(self) -> None:
        """Give the physics client back; may be called twice."""
        self._disconnect()


def _cross(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _into_frame(matrix: Sequence[float], vector: Sequence[float]) -> tuple[float, float, float]:
    """Turn a world vector into the frame whose axes are the columns of ``matrix`` (row by row)."""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = matrix
    x, y, z = vector
    return xx * x + yx * y + zx * z, xy * x + yy * y + zy * z, xz * x + yz * y + zz * z
