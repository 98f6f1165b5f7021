"""A Spot in PyBullet and ways to move it, for tests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.base import RobotBackend, RobotStart, RobotState
from adc_wrappers.backends.pybullet import BulletRobotBackend
from adc_wrappers.backends.spot_model import FOOT_NAMES, LINK_NAMES, NOMINAL_POSE, standing_height
from adc_wrappers.core.actuators import damping_for

Array = NDArray[np.float64]
Make = Callable[..., BulletRobotBackend]

HEIGHT = standing_height(NOMINAL_POSE)
LEVEL = (1.0, 0.0, 0.0, 0.0)
HALF = math.sqrt(0.5)
NOSE_DOWN = (HALF, 0.0, HALF, 0.0)
FACING_LEFT = (HALF, 0.0, 0.0, HALF)
FEET = [LINK_NAMES.index(name) for name in FOOT_NAMES]
NO_ENVS = np.array([], dtype=np.int64)


def bullet_robots() -> Iterator[Make]:
    """Makes backends and closes them after the test."""
    made: list[BulletRobotBackend] = []

    def build(num_envs: int = 1, **settings: Any) -> BulletRobotBackend:
        made.append(BulletRobotBackend(num_envs, **{"workers": 0, **settings}))
        return made[-1]

    yield build
    for backend in made:
        backend.close()


def start(
    num_envs: int = 1,
    *,
    position: ArrayLike = (0.0, 0.0, HEIGHT),
    quaternion: ArrayLike = LEVEL,
    velocity: ArrayLike = (0.0, 0.0, 0.0),
    rates: ArrayLike = (0.0, 0.0, 0.0),
    joints: ArrayLike = NOMINAL_POSE,
    speeds: ArrayLike = (0.0,) * 12,
) -> RobotStart:
    parts = (position, quaternion, velocity, rates, joints, speeds)
    return RobotStart(*(np.tile(np.asarray(part, dtype=np.float64), (num_envs, 1)) for part in parts))


def hold(backend: RobotBackend, steps: int, targets: ArrayLike = NOMINAL_POSE) -> RobotState:
    commands = np.tile(np.asarray(targets, dtype=np.float64), (backend.num_envs, 1))
    for _ in range(steps):
        backend.advance(commands)
    return backend.state()


def stiffen(backend: RobotBackend, stiffness: float) -> None:
    values = np.full((backend.num_envs, 12), stiffness)
    backend.set_gains(values, damping_for(values, backend.effective_inertia()))


def rollout(backend: RobotBackend, steps: int, seed: int, size: float = 0.4) -> Array:
    """Advance under the same random targets for all envs; return every state, ``(steps, num_envs, numbers)``."""
    generator = np.random.default_rng(seed)
    path = []
    for _ in range(steps):
        hold(backend, 1, backend.nominal_pose + generator.uniform(-size, size, 12))
        path.append(np.concatenate(backend.state(), axis=1))
    return np.stack(path)


def running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()
