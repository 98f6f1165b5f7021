"""Robots without physics and hand-made states, for tests of Spot's tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from adc_wrappers.backends.base import RobotBackend, RobotParameters, RobotStart, RobotState
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, NOMINAL_POSE
from adc_wrappers.core.actuators import Gains
from adc_wrappers.envs.spot import HANDSTAND, SpotSettings, SpotStandTask, Stance

POSE = np.array(NOMINAL_POSE)
LEVEL = (0.0, 0.0, -1.0)
NOSE_DOWN = (1.0, 0.0, 0.0)
TAIL_DOWN = (-1.0, 0.0, 0.0)


def link(name: str) -> int:
    return LINK_NAMES.index(name)


def make_state(n: int = 1, touching: Any = (), **parts: Any) -> RobotState:
    """A level robot at rest in the nominal pose that touches the ground with the named links, with parts replaced."""
    zeros = {"base_linear_velocity": 3, "base_angular_velocity": 3, "joint_velocities": 12, "joint_torques": 12}
    values: dict[str, Any] = {name: np.zeros((n, size)) for name, size in zeros.items()}
    values["base_position"] = np.tile([0.0, 0.0, 0.5], (n, 1))
    values["base_quaternion"] = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1))
    values["projected_gravity"] = np.tile(LEVEL, (n, 1))
    values["joint_positions"] = np.tile(POSE, (n, 1))
    values["contact_forces"] = np.zeros((n, len(LINK_NAMES)))
    values["contact_forces"][:, [link(name) for name in touching]] = 50.0
    for name, value in parts.items():
        values[name] = np.broadcast_to(np.asarray(value, dtype=np.float64), values[name].shape).copy()
    return RobotState(**values)


class FakeRobots(RobotBackend):
    """Robots that stay in the state they are told and remember what was done to them."""

    def __init__(self, num_envs: int = 1) -> None:
        self.num_envs = num_envs
        self.joint_names, self.link_names = JOINT_NAMES, LINK_NAMES
        self.physics_step, self.decimation = 0.002, 10
        self.nominal_pose = POSE
        self._gains = Gains(np.full((num_envs, 12), 60.0), np.full((num_envs, 12), 1.0))
        self.now = make_state(num_envs)
        self.targets: list[np.ndarray] = []
        self.pushes: list[tuple[int, np.ndarray, np.ndarray]] = []
        self.parameters: list[tuple[RobotParameters, np.ndarray]] = []
        self.starts: list[tuple[RobotStart, np.ndarray]] = []

    def effective_inertia(self) -> np.ndarray:
        return np.full(12, 0.05)

    def gains(self) -> Gains:
        return self._gains

    def set_gains(self, stiffness: Any, damping: Any, env_ids: Any = None) -> None:
        rows = slice(None) if env_ids is None else env_ids
        self._gains.stiffness[rows], self._gains.damping[rows] = stiffness, damping

    def reset(self, start: RobotStart, env_ids: Any = None) -> None:
        self.starts.append((start, np.array(env_ids)))

    def advance(self, targets: np.ndarray) -> None:
        self.targets.append(np.array(targets))

    def state(self) -> RobotState:
        return self.now

    def push(self, velocity_change: np.ndarray, env_ids: np.ndarray) -> None:
        self.pushes.append((len(self.targets), np.array(velocity_change), np.array(env_ids)))

    def set_parameters(self, parameters: RobotParameters, env_ids: np.ndarray) -> None:
        self.parameters.append((parameters, np.array(env_ids)))

    def render(self, env_id: int = 0) -> np.ndarray:
        return np.zeros((4, 4, 3), np.uint8)

    def close(self) -> None:
        pass


def fake_task(num_envs: int = 1, stance: Stance = HANDSTAND, **settings: Any) -> tuple[SpotStandTask, FakeRobots]:
    """A task over robots without physics; not randomized unless told."""
    backend = FakeRobots(num_envs)
    return SpotStandTask(backend, SpotSettings(**{"randomize": False, **settings}), stance), backend
