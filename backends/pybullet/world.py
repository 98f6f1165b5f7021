"""One robot on flat ground in a physics client of its own, with the torque law of its joints in plain floats."""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from adc_wrappers.backends.base import MAX_COMMAND_DELAY
from adc_wrappers.backends.spot_model import HIP_TORQUE_LIMIT, JOINT_NAMES, KNEE_ANGLES, KNEE_TORQUES

from .arrays import CONTACT_STEPS, saved_width, state_width
from .base_motion import BASE_NUMBERS, BaseMotion, FreeBase, PlanarBase
from .model import LoadedRobot, WorldSettings, connect, load_robot

__all__ = ["DelayLine", "World", "knee_limit", "pd_torques"]

# Plain floats: the law runs between any two physics steps, where numpy would cost more.
_TABLE: Final[list[float]] = KNEE_TORQUES.tolist()
_LAST: Final = len(_TABLE) - 1
_LOWER: Final = float(KNEE_ANGLES[0])
_PER_RADIAN: Final = _LAST / float(KNEE_ANGLES[-1] - KNEE_ANGLES[0])
_KNEES: Final = tuple(name.endswith("_kn") for name in JOINT_NAMES)
_NEVER_CLIPPED: Final = min(HIP_TORQUE_LIMIT, *_TABLE)


def knee_limit(angle: float) -> float:
    """Return the knee's largest torque at an angle, N·m: linear interpolation in a table of even steps.

    >>> round(knee_limit(-1.443626), 3), knee_limit(-3.0), knee_limit(0.0)
    (113.236, 37.165077, 30.6025)
    """
    place = (angle - _LOWER) * _PER_RADIAN
    if place <= 0.0:
        return _TABLE[0]
    if place >= _LAST:
        return _TABLE[_LAST]
    row = int(place)
    return _TABLE[row] + (place - row) * (_TABLE[row + 1] - _TABLE[row])


def pd_torques(
    states: Sequence[Any],
    targets: Sequence[float],
    stiffness: Sequence[float],
    damping: Sequence[float],
    knees: Sequence[bool] = _KNEES,
) -> list[float] | None:
    """Return ``K (q_d − q) − B q̇`` of every joint within its torque limit, or None if a torque is not finite.

    Args:
        states: PyBullet's joint states: angle, speed, reaction forces and motor torque of each joint.
        targets: q_d.
        stiffness: K.
        damping: B.
        knees: Whether each joint is a knee, whose limit depends on its angle.
    """
    torques = [
        k * (target - angle) - b * speed
        for (angle, speed, _, _), target, k, b in zip(states, targets, stiffness, damping, strict=False)  # strict: 15 %
    ]
    if not math.isfinite(sum(torques)):
        return None
    if max(torques) > _NEVER_CLIPPED or min(torques) < -_NEVER_CLIPPED:
        for joint, torque in enumerate(torques):
            if -_NEVER_CLIPPED <= torque <= _NEVER_CLIPPED:
                continue
            limit = knee_limit(states[joint][0]) if knees[joint] else HIP_TORQUE_LIMIT
            if torque > limit:
                torques[joint] = limit
            elif torque < -limit:
                torques[joint] = -limit
    return torques


class DelayLine:
    """Position targets on their way, some physics steps late; until the first arrives, a pose is held."""

    def __init__(self, pose: list[float]) -> None:
        self.delay = 0
        self._recent: deque[list[float]] = deque(maxlen=MAX_COMMAND_DELAY + 1)
        self.restart(pose)

    def restart(self, pose: list[float]) -> None:
        """Forget every target, as if the robot had been told to hold this pose so far."""
        self._recent.extend([pose] * (MAX_COMMAND_DELAY + 1))

    def pass_on(self, targets: list[float], steps: int) -> list[list[float]]:
        """Take in the targets of some physics steps and return those that act in each of them."""
        late = min(self.delay, steps)
        first = len(self._recent) - self.delay
        acting = [*list(self._recent)[first : first + late], *[targets] * (steps - late)] if late else [targets] * steps
        self._recent.extend([targets] * steps)
        return acting

    def save(self) -> list[float]:
        """Return the targets under way, the oldest first, in one row."""
        return [value for targets in self._recent for value in targets]

    def load(self, values: list[float]) -> None:
        """Restore them."""
        joints = len(values) // (MAX_COMMAND_DELAY + 1)
        self._recent.extend(values[begin : begin + joints] for begin in range(0, len(values), joints))


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
        robot = settings.robot
        self._delay = DelayLine(list(robot.nominal_pose))
        self._knees = tuple(name.endswith("_kn") for name in robot.joint_names)
        self._legs = robot.actuated[0].legs
        self._recent_forces: deque[dict[int, float]] = deque(maxlen=CONTACT_STEPS)
        self._friction = math.nan
        self._base_mass_offset = 0.0
        self._coulomb = self._viscous = [0.0] * len(robot.nominal_pose)
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
        self._robot: LoadedRobot = load_robot(
            bullet, client, settings.model, fixed_base=settings.fixed_base, robot=settings.robot
        )
        self._joints = tuple(self._robot.joints)  # PyBullet reads a tuple faster than a list
        places = {self._robot.links[name]: place for place, name in enumerate(self._link_names)}
        self._place_of_link: dict[int, int] = places
        self._base: BaseMotion = (
            PlanarBase(bullet, client, self._robot, self._robot.base_joints)
            if self._robot.base_joints
            else FreeBase(bullet, client, self._robot, held=settings.fixed_base)
        )
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
        self._base.set_mass(base_mass_offset)

    def set_joint_friction(self, coulomb: list[float], viscous: list[float]) -> None:
        """Give the joints dry friction, N·m (a motor that holds them still with that torque), and viscous friction."""
        bullet, body, client = self._bullet, self._robot.body, self._client
        self._coulomb, self._viscous = coulomb, viscous
        for joint, dry, wet in zip(self._joints, coulomb, viscous, strict=True):
            bullet.setJointMotorControl2(
                body, joint, bullet.VELOCITY_CONTROL, targetVelocity=0.0, force=self._legs * dry, physicsClientId=client
            )
            bullet.changeDynamics(body, joint, jointDamping=self._legs * wet, physicsClientId=client)

    def reset(self, start: list[float]) -> None:
        """Put the robot into a start: a row of ``BatchArrays.starts``.

        On the way it is lifted off the ground for one collision test. PyBullet keeps contact points that lie near new
        ones, with the impulses of the past, and the new episode would depend on the old one.
        """
        self._revive()
        bullet, body, client = self._bullet, self._robot.body, self._client
        joints = self._robot.joints
        angles, speeds = start[13 : 13 + len(joints)], start[13 + len(joints) :]
        self._lift(angles, speeds)
        self._base.place(start[:3], [*start[4:7], start[3]], start[7:10], start[10:13])
        self._joint_states = bullet.getJointStates(body, joints, client)
        self._torques = [0.0] * len(joints)
        self._delay.restart(angles)
        self._recent_forces.clear()

    def _revive(self) -> None:
        """Build the world anew if it has failed."""
        if self._failed:
            self._disconnect()
            self._build()
            self._failed = False

    def _lift(self, angles: list[float], speeds: list[float]) -> None:
        """Set the joints, away from the ground."""
        bullet, body, client = self._bullet, self._robot.body, self._client
        for joint, angle, speed in zip(self._robot.joints, angles, speeds, strict=True):
            bullet.resetJointState(body, joint, angle, speed, physicsClientId=client)
        self._base.lift()
        bullet.performCollisionDetection(client)

    def save(self) -> list[float]:
        """Return a row of ``BatchArrays.saved``, and put the robot into it.

        PyBullet rounds the pose that a base is put into, and keeps contact points that nobody can set. So the robot
        that is saved goes through the same motions as one that loads it, and both go on alike to the last bit; beside a
        robot that was left alone that makes a difference of about 1e-12.
        """
        if self._failed:
            return [1.0, *[0.0] * (saved_width(len(self._joints), len(self._link_names)) - 1)]
        bullet, body, client = self._bullet, self._robot.body, self._client
        states = bullet.getJointStates(body, self._joints, client)
        places = range(len(self._link_names))
        nothing: list[dict[int, float]] = [{}] * (CONTACT_STEPS - len(self._recent_forces))
        forces = [*nothing, *self._recent_forces]
        row = [
            0.0, *self._base.save(),
            *[state[0] for state in states],
            *[state[1] for state in states],
            *self._delay.save(),
            *[step.get(place, 0.0) for step in forces for place in places],
        ]  # fmt: skip
        self.load(row)
        return row

    def load(self, row: list[float]) -> None:
        """Put the robot where :meth:`save` was called."""
        joints, links = len(self._joints), len(self._link_names)
        self._revive()
        self._failed = bool(row[0]) or not math.isfinite(sum(row))
        if self._failed:
            return
        bullet, body, client = self._bullet, self._robot.body, self._client
        angles = 1 + BASE_NUMBERS
        targets, forces = angles + 2 * joints, len(row) - CONTACT_STEPS * links
        self._lift(row[angles : angles + joints], row[angles + joints : targets])
        self._base.load(row[1:angles])
        self._joint_states = bullet.getJointStates(body, self._robot.joints, client)
        self._delay.load(row[targets:forces])
        self._recent_forces.clear()
        for begin in range(forces, len(row), links):
            self._recent_forces.append(dict(enumerate(row[begin : begin + links])))

    def push(self, velocity_change: list[float]) -> None:
        """Add to the base's linear velocity in the world."""
        if not self._failed:
            self._base.push(velocity_change)

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
        torque_control, decimation = bullet.TORQUE_CONTROL, self._settings.decimation
        states, knees, legs = self._joint_states, self._knees, self._legs
        first_contact = decimation - CONTACT_STEPS
        for count, acting in enumerate(self._delay.pass_on(targets, decimation)):
            torques = pd_torques(states, acting, stiffness, damping, knees)
            if torques is None:
                return False
            forces = torques if legs == 1 else [legs * torque for torque in torques]
            write(body, joints, torque_control, forces=forces, physicsClientId=client)
            step(client)
            self._torques = torques
            states = read(body, joints, client)
            if count >= first_contact:
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
        states = self._joint_states
        return [
            *self._base.read(),
            *[state[0] for state in states],
            *[state[1] for state in states],
            *self._torques,
            *self._largest_forces(),
        ]  # fmt: skip

    def close(self) -> None:
        """Give the physics client back; may be called twice."""
        self._disconnect()
