"""A bench for an env's joints: a probe that moves them, the weight on them, and what else is known of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.base import RobotBackend, RobotStart
from adc_wrappers.backends.cartpole import CartBackend, make_cartpole_backend
from adc_wrappers.backends.robots import RobotProbe, make_robot_backend
from adc_wrappers.backends.spot_model import RobotSpec, standing_height
from adc_wrappers.backends.spot_model.mechanics import link_poses
from adc_wrappers.core.actuators import damping_for, to_numpy
from adc_wrappers.core.curriculum import ActuatorCurriculum
from adc_wrappers.core.errors import BackendError, CurriculumError, did_you_mean
from adc_wrappers.envs.registry import TASKS, make_env
from adc_wrappers.testing import JointProbe

__all__ = ["Bench", "JointWeight", "Standing", "carried", "hanging", "load_of", "open_bench", "standing_table"]

_Array = NDArray[np.float64]

GRAVITY = 9.81
_SETTLING = 12.0  # time constants
_NUDGE = 0.02  # rad or m

_FEATHER = 1e-6  # kg: what stands on a cart that is measured
_STANDING = 2.0  # seconds until a robot that is told to stand is looked at
_FALLEN = np.deg2rad(20.0)
SUNK = 1.0
"""Sag in rad beyond which a robot lies rather than stands."""
_ENGINES = ("mujoco", "pybullet")


@dataclass(frozen=True, kw_only=True)
class JointWeight:
    """The weight on one joint at the nominal pose."""

    torque: float
    """What the joint must hold, N·m (N)."""

    stiffness: float
    """How that torque changes with the joint, N·m/rad (N/m). Below zero the weight pulls the joint further the further
    it is: it takes that much away from K, and a joint with a smaller K cannot hold its pose at all."""

    how: str
    """What the joint carries, in words."""

    def sag(self, stiffness: float) -> float:
        """Return by how much a joint of stiffness K gives way, rad (m); infinite if it cannot hold the weight."""
        left = stiffness + self.stiffness
        return float("inf") if left <= 0.0 else self.torque / left


def load_of(
    axis: ArrayLike, anchor: ArrayLike, mass: float, centre: ArrayLike, *, share: float = 1.0
) -> tuple[float, float]:
    """Return torque and stiffness of a mass that turns about an axis: first and second derivative of its potential.

    >>> torque, stiffness = load_of((0, 1, 0), (0, 0, 0), 2.0, (0, 0, 0.5))  # upside down: it topples
    >>> round(torque, 3), round(stiffness, 3)
    (0.0, -9.81)
    """
    axis, lever = np.asarray(axis, dtype=np.float64), np.subtract(centre, anchor)
    across = lever - axis * float(axis @ lever)
    scale = share * mass * GRAVITY
    return scale * float(np.cross(axis, lever)[2]), -scale * float(across[2])


def carried(axis: ArrayLike, anchor: ArrayLike, foot: ArrayLike, mass: float, feet: int) -> JointWeight:
    """Return the weight on a joint above a foot that carries its share of a robot: a vertical force at that point.

    >>> carried((0, 1, 0), (0, 0, 0.5), (0, 0, 0), 2.0, 1).stiffness  # straight above its foot it buckles
    -9.81
    """
    torque, stiffness = load_of(axis, anchor, mass, foot, share=1.0 / feet)
    return JointWeight(torque=-torque, stiffness=-stiffness, how=f"the robot, on {feet} feet")


def standing_table(robot: RobotSpec) -> list[JointWeight]:
    """Return the weight on every joint of a robot that stands on all its feet, each carrying the same."""
    poses = link_poses(robot.nominal_pose, robot)
    feet = len(robot.foot_names) * robot.actuated[0].legs
    found = []
    for joint in robot.actuated:
        (foot,) = (name for name in _below(robot, joint.child) if name in robot.foot_names)
        pose = poses[joint.child]
        axis = pose[:3, :3] @ np.asarray(joint.axis)
        found.append(carried(axis, pose[:3, 3], poses[foot][:3, 3], robot.total_mass, feet))
    return found


def _below(robot: RobotSpec, link: str) -> list[str]:
    """Return a link and all that hangs on it."""
    return [link, *(name for _, child in robot.children(link) for name in _below(robot, child.name))]


def hanging(probe: Any, joints: NDArray[np.int64]) -> list[JointWeight]:
    """Measure what hangs on joints, one in each env, with the gains that are live: let them settle at two targets.

    Args:
        probe: A probe with ``release`` whose world has gravity.
        joints: Which joint of each env.
    """
    rows, backend = np.arange(len(joints)), probe.backend
    stiffness = to_numpy(backend.gains().stiffness)[rows, joints]
    slowest = np.sqrt(stiffness / backend.effective_inertia()[joints]).min()
    samples = int(np.ceil(_SETTLING / slowest / probe.time_step))
    start = probe.rest()
    probe.release(joints if len(joints) > 1 else int(joints[0]))
    ends = []
    for offset in (0.0, _NUDGE):
        targets = start.copy()
        targets[rows, joints] += offset
        for _ in range(samples):
            last = probe.move(targets)
        ends.append(last[rows, joints] - start[rows, joints])
    moved = np.maximum(ends[1] - ends[0], 1e-9)
    return [
        JointWeight(torque=float(-k * end), stiffness=float(k * (_NUDGE / step - 1.0)), how="what hangs on it")
        for k, end, step in zip(stiffness, ends[0], moved, strict=True)
    ]


@dataclass(frozen=True)
class Standing:
    """The fate of a robot that was told to hold its nominal pose on the ground."""

    sag: _Array
    """``q_d − q`` per joint at the end, rad."""
    stands: bool
    """Whether it is still up and at rest."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The joints of an env, ready to be measured."""

    name: str
    """Name of the task, or id of the env."""
    engine: str
    """Who does the physics."""
    probe: JointProbe
    """Moves one joint while the rest is locked and nothing weighs."""
    inertia: _Array
    joint_range: _Array
    """Stops, ``(joints, 2)``; infinite where there are none."""
    torque_limits: _Array
    """Infinite where there are none."""
    physics_step: float
    policy_step: float
    integrator: str
    """How the PD law is integrated: ``"explicit"``, ``"implicit"`` (its damping) or ``"rk4"``."""
    action_scale: _Array
    """α: how far a full action moves a target."""
    target: _Array | None = None
    """K_*, where the env knows it."""
    start: _Array | None = None
    """K_0, where the env knows it."""
    weigh: Callable[[_Array], list[JointWeight]]
    """From K to the weight on every joint."""
    stand: Callable[[_Array], Standing] | None = None
    """From K to what becomes of the robot on the ground; None where there is nothing to stand."""
    close: Callable[[], None]

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints."""
        return tuple(self.probe.backend.joint_names)

    @property
    def nominal_pose(self) -> _Array:
        """q_0."""
        pose: _Array = self.probe.pose  # type: ignore[attr-defined]
        return pose


def open_bench(name: str, *, backend: str | None = None, **settings: Any) -> Bench:
    """Put the joints of an env on a bench.

    Args:
        name: A task of this library, or the id of a Gymnasium MuJoCo env.
        backend: The engine of a task; by default the task's first.
        **settings: Settings of the task, or arguments of ``gymnasium.make``.

    Raises:
        CurriculumError: There is no such task or id.
        BackendError: Its joints cannot be put on a bench.
    """
    known = {spec.gymnasium_id: spec.name for spec in TASKS.values()}
    name = known.get(name, name)
    if name in TASKS:
        return _bench_of_task(name, backend, settings)
    if backend is not None:
        raise CurriculumError(f"--backend {backend}: only tasks of this library have a choice of engines.")
    if name not in gym.registry and ":" not in name:
        ids = [*TASKS, *(key for key, spec in gym.registry.items() if "mujoco" in str(spec.entry_point))]
        raise CurriculumError(f"neither a task nor a Gymnasium id: {name!r}. {did_you_mean(name, ids)}")
    from .gymnasium_bench import bench_of_env

    return bench_of_env(gym.make(name, **settings), name)


def _bench_of_task(name: str, backend: str | None, settings: dict[str, Any]) -> Bench:
    engine = TASKS[name].backends[0] if backend is None else backend
    if engine not in (*_ENGINES, "analytic"):
        raise BackendError(
            f"{engine!r} has no bench: gains are measured in a simulator where everything else can be locked. Choose "
            f"--backend {' or '.join(item for item in TASKS[name].backends if item in (*_ENGINES, 'analytic'))}."
        )
    env = make_env(name, backend=engine, **settings)
    task: Any = env.unwrapped.task
    try:
        curriculum = ActuatorCurriculum(task.adc_config, task.backend.joint_names)
        common = {"name": name, "engine": engine, "target": curriculum.target_stiffness}
        common |= {"start": curriculum.start_stiffness, "policy_step": task.policy_step}
        if isinstance(task.backend, CartBackend):
            return _bench_of_cart(task, engine, common)
        return _bench_of_robot(task, engine, common)
    finally:
        env.close()


class _CartProbe:
    """Carts whose poles weigh next to nothing."""

    def __init__(self, backend: CartBackend[Any]) -> None:
        self.backend = backend
        self.time_step = backend.policy_step
        self.pose: _Array = np.zeros(1)

    def rest(self) -> _Array:
        """Put the carts to rest in the middle."""
        still = np.zeros_like(np.stack(self.backend.state()))
        self.backend.reset(self.backend.model.name_state(still))
        return self._positions()

    def move(self, targets: _Array) -> _Array:
        """Hold targets for one physics step."""
        self.backend.advance(targets[:, 0])
        return self._positions()

    def _positions(self) -> _Array:
        return np.array(self.backend.state()[0])[:, None]


def _bench_of_cart(task: Any, engine: str, common: dict[str, Any]) -> Bench:
    full = task.backend.model
    light = {field.name: _FEATHER for field in dataclasses.fields(full) if field.name.endswith("_mass")}
    model = dataclasses.replace(full, **{**light, "cart_mass": full.cart_mass})
    step = task.backend.physics_step
    backend = make_cartpole_backend(engine, 1, model, physics_step=step, decimation=5)
    nothing = JointWeight(torque=0.0, stiffness=0.0, how="nothing: gravity is across the rail")
    return Bench(
        **common, probe=_CartProbe(backend), inertia=backend.effective_inertia(),
        joint_range=task.settings.position_limit * np.array([[-1.0, 1.0]]), torque_limits=np.array([np.inf]),
        physics_step=step, integrator="rk4" if engine == "analytic" else "explicit",
        action_scale=np.array([task.settings.command_limit]), weigh=lambda _: [nothing], close=backend.close,
    )  # fmt: skip


def _bench_of_robot(task: Any, engine: str, common: dict[str, Any]) -> Bench:
    robot: RobotSpec = task.body.robot
    step, count = task.backend.physics_step, len(robot.actuated)
    still: dict[str, Any] = {"gravity": False, "nthread": 1} if engine == "mujoco" else {"gravity": 0.0, "workers": 0}
    backend = make_robot_backend(engine, count, robot=robot, fixed_base=True, physics_step=step, decimation=1, **still)
    weights = standing_table(robot)
    return Bench(
        **common, probe=RobotProbe(backend), inertia=backend.effective_inertia(),
        joint_range=np.array([(joint.lower, joint.upper) for joint in robot.actuated]),
        torque_limits=np.array([joint.effort for joint in robot.actuated]),
        physics_step=step, integrator="implicit" if engine == "mujoco" else "explicit",
        action_scale=np.broadcast_to(np.asarray(task.action_scale, dtype=np.float64), (count,)).copy(),
        weigh=lambda _: weights, stand=lambda stiffness: _stand(engine, robot, step, stiffness), close=backend.close,
    )  # fmt: skip


def _stand(engine: str, robot: RobotSpec, step: float, stiffness: _Array) -> Standing:
    """Put a robot on its feet and tell it to hold its nominal pose."""
    backend: RobotBackend = make_robot_backend(engine, 1, robot=robot, physics_step=step, decimation=10)
    try:
        pose, none = backend.nominal_pose[None], np.zeros((1, 3))
        height = np.array([[0.0, 0.0, standing_height(robot.nominal_pose, robot)]])
        backend.set_gains(stiffness[None], damping_for(stiffness[None], backend.effective_inertia()))
        backend.reset(RobotStart(height, np.array([[1.0, 0.0, 0.0, 0.0]]), none, none, pose, np.zeros_like(pose)))
        for _ in range(round(_STANDING / backend.policy_step)):
            backend.advance(pose)
        state = backend.state()
        tilt = np.arccos(np.clip(-float(state.projected_gravity[0, 2]), -1.0, 1.0))
        calm = float(np.abs(state.joint_velocities).max()) < 0.1
        sag = np.array(pose - state.joint_positions)[0]
        return Standing(sag, bool(calm and tilt < _FALLEN and np.abs(sag).max() < SUNK))
    finally:
        backend.close()
