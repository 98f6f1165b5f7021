"""States of Spot, and what MuJoCo made of them: numbers that every simulator must reproduce.

``python tests/envs/spot_reference.py`` writes ``tests/data/spot_reference.json``. ``test_spot_reference.py`` beside it
holds MuJoCo and PyBullet to it, ``test_isaaclab_spot.py`` and ``test_mjlab_spot.py`` in ``tests/backends`` Isaac Lab
and mjlab in environments of their own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[1] / "data" / "spot_reference.json"
SETTINGS = {"preset": "authors", "randomize": False, "scale_by_dt": False}
"""The preset with the most reward terms."""

NAMES = ("in the air", "moving", "standing", "lying", "handstand", "hind-leg stand")


def starts() -> Any:
    """The states, one per name."""
    from adc_wrappers.backends.base import RobotStart
    from adc_wrappers.backends.spot_model import NOMINAL_POSE
    from adc_wrappers.envs.spot.body import touchdown_height

    rng = np.random.default_rng(5)
    count = len(NAMES)
    joints = np.tile(NOMINAL_POSE, (count, 1))
    joints[:2] += rng.uniform(-0.2, 0.2, (2, 12))
    joints[4, [1, 4]], joints[4, [2, 5]] = -0.85, -0.3  # legs that reach past the nose
    joints[5, [7, 10]], joints[5, [8, 11]] = 2.2, -0.3  # and past the tail
    half = np.sqrt(0.5)
    quaternion = np.tile([1.0, 0.0, 0.0, 0.0], (count, 1))
    quaternion[:2] = rng.normal(size=(2, 4))
    quaternion[3] = (0.0, 1.0, 0.0, 0.0)  # on its back
    quaternion[4] = (half, 0.0, half, 0.0)  # nose down
    quaternion[5] = (half, 0.0, -half, 0.0)  # tail down
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    position = np.zeros((count, 3))
    position[:, :2] = rng.uniform(-0.3, 0.3, (count, 2))
    position[:, 2] = touchdown_height(quaternion, joints) - 0.001
    position[:2, 2] = 2.0
    position[3, 2] = 0.074
    moving = np.zeros((count, 1))
    moving[:2] = 1.0
    return RobotStart(
        position, quaternion, moving * rng.uniform(-1, 1, (count, 3)), moving * rng.uniform(-1, 1, (count, 3)), joints,
        moving * rng.uniform(-2, 2, (count, 12)),
    )  # fmt: skip


def moments() -> tuple[Any, Any]:
    """The last action of every state, and what came before it."""
    from adc_wrappers.envs.spot.rewards import RewardInputs

    rng, start = np.random.default_rng(6), starts()
    action = rng.uniform(-1, 1, (len(NAMES), 12))
    return action, RewardInputs(
        action=rng.uniform(-1, 1, action.shape),
        joint_velocities=start.joint_velocities - 0.1,
        base_position=start.base_position - 0.01,
        base_quaternion=start.base_quaternion,
        joint_positions=start.joint_positions - 0.01,
    )


def holding(action_scale: float) -> Any:
    """The action that commands the joints to where they are."""
    from adc_wrappers.backends.spot_model import NOMINAL_POSE

    return (starts().joint_positions - np.array(NOMINAL_POSE)) / action_scale


def judge(engine: str) -> dict[str, Any]:
    """Put the states into an engine: observation and reward at once, contacts and reward after a step, a motion."""
    from adc_wrappers.backends.robots import make_robot_backend
    from adc_wrappers.core.actuators import damping_for
    from adc_wrappers.envs.spot import HANDSTAND, SpotSettings, SpotStandTask

    backend = make_robot_backend(engine, len(NAMES))
    task = SpotStandTask(backend, SpotSettings(**SETTINGS), HANDSTAND)
    stiffness = np.full((len(NAMES), 12), 60.0)
    backend.set_gains(stiffness, damping_for(stiffness, backend.effective_inertia()))
    backend.reset(starts())
    task._action, task._before = moments()
    task.look()
    result: dict[str, Any] = {"observation": task.observe().tolist()}
    result["terms"] = {name: values.tolist() for name, values in task.reward_terms().items()}
    task._action = holding(task.action_scale)
    task.advance(holding(task.action_scale).astype(np.float32))
    result["after"] = {name: values.tolist() for name, values in task.reward_terms().items()}
    result["terminated"] = task.terminated().tolist()
    result["holds"] = task.holds().tolist()
    result["inertia"] = backend.effective_inertia().tolist()
    result["motion"] = _motion(task)
    task.close()
    return result


STEPS = 4
"""Policy steps of the motion."""


def swings() -> Any:
    """Actions of the motion, ``(STEPS, states, joints)``: about a quarter of what a policy may ask for."""
    return np.random.default_rng(7).uniform(-0.25, 0.25, (STEPS, len(NAMES), 12))


def _motion(task: Any) -> dict[str, Any]:
    """Swing the joints from where the states have them; poses and rewards after every policy step."""
    backend, hold = task.backend, holding(task.action_scale)
    task.early_termination = False  # a fall is paid once, as where nothing is reset
    backend.reset(starts())
    task.logic.begin(np.arange(len(NAMES)))
    task._action = hold
    found: dict[str, Any] = {"positions": [], "quaternions": [], "joints": [], "rewards": []}
    for swing in swings():
        task.advance((hold + swing).astype(np.float32))
        state = backend.state()
        found["positions"].append(state.base_position.tolist())
        found["quaternions"].append(state.base_quaternion.tolist())
        found["joints"].append(state.joint_positions.tolist())
        found["rewards"].append(sum(task.reward_terms().values()).tolist())
    return found


def load() -> dict[str, Any]:
    """What MuJoCo made of them."""
    data: dict[str, Any] = json.loads(FILE.read_text())
    return data


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    found = judge("mujoco")
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(f"{FILE}: terminated {found['terminated']}, holds {found['holds']}\n")
