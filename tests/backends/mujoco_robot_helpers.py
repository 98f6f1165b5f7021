"""Starts, targets and rollouts of the batched MuJoCo backend, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.backends.mujoco import MujocoRobotBackend
from adc_wrappers.backends.spot_model import NOMINAL_POSE, standing_height

POSE = np.array(NOMINAL_POSE)
KNEES = np.arange(2, 12, 3)
HIPS = np.setdiff1d(np.arange(12), KNEES)
LEVEL, NOSE_DOWN = (1.0, 0.0, 0.0, 0.0), (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)


def start(n: int, height: float | None = None, quaternion: Any = LEVEL, **parts: Any) -> RobotStart:
    """The nominal stance on the ground, with parts of it replaced."""
    position = np.zeros((n, 3))
    position[:, 2] = standing_height(NOMINAL_POSE) if height is None else height
    joints = np.tile(POSE, (n, 1))
    values = RobotStart(
        position, np.tile(quaternion, (n, 1)), np.zeros((n, 3)), np.zeros((n, 3)), joints, np.zeros((n, 12))
    )
    return values._replace(**parts)


def shaken(n: int, rng: np.random.Generator) -> RobotStart:
    """Stances that differ from env to env, near the ground."""
    return start(n, 0.52)._replace(
        joint_positions=POSE + rng.normal(0.0, 0.1, (n, 12)), base_linear_velocity=rng.normal(0.0, 0.3, (n, 3))
    )


def targets(n: int, steps: int, rng: np.random.Generator, reach: float = 0.9) -> list[np.ndarray]:
    return [POSE + reach * rng.uniform(-1.0, 1.0, (n, 12)) for _ in range(steps)]


def copy(state: RobotState) -> RobotState:
    return RobotState(*(np.array(values) for values in state))


def run(backend: MujocoRobotBackend, begin: RobotStart, commands: list[np.ndarray]) -> list[RobotState]:
    backend.reset(begin)
    path = []
    for command in commands:
        backend.advance(command)
        path.append(copy(backend.state()))
    return path


def assert_same(one: RobotState, other: RobotState, rows: Any = slice(None)) -> None:
    """Bit for bit."""
    for name, a, b in zip(RobotState._fields, one, other, strict=True):
        np.testing.assert_array_equal(a[rows], b[rows], err_msg=name)


def touching(backend: MujocoRobotBackend, env: int = 0) -> set[str]:
    forces = backend.state().contact_forces[env]
    return {name for name, force in zip(backend.link_names, forces, strict=True) if force > 1.0}
