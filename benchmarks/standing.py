"""Time for which Spot stands under a constant command, over the joints' stiffness, in both engines.

A zero action (joint targets at q0) sags by the torque over K. A compensating command adds that torque over K to the
stance's joint angles. Whether the robot then stays there is a question of stability: with its feet on the ground it is
a body on springs, and gravity topples it fore and aft if they are too soft. `PinnedStance.stiffness` tells from Spot's
masses alone; the engines confirm it. Where q0 itself is not stable, the legs are spread until the stance is.

    python benchmarks/standing.py            # print
    python benchmarks/standing.py --write    # and write benchmarks/standing.md
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import adc_wrappers
from adc_wrappers import make_env
from adc_wrappers.backends.base import RobotStart
from adc_wrappers.backends.spot_model import NOMINAL_POSE, SPOT
from adc_wrappers.backends.spot_model.mechanics import link_poses
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.envs.spot import PRESETS
from adc_wrappers.envs.spot.body import feet_in_body, feet_in_world, rotate, touchdown_height
from adc_wrappers.runs.folder import source_commit

Array = NDArray[np.float64]

STIFFNESSES = (30.0, 40.0, 50.0, 60.0, 80.0, 120.0, 200.0)
STEPS = 1000
ENOUGH = 50.0
"""Stiffness of a stance, N/m, that is asked for: the body, moved by 2 cm, is pushed back with 1 N at least."""

_GRAVITY = 9.81
_ARM = 0.3  # m: how far out a turn of the body is counted as a motion
_SPREAD = np.array([[-0.0, -1.5, 1.0], [-0.0, 0.5, 1.0]])  # hx, hy, kn of front and hind legs per rad of spread


def spread_pose(spread: float) -> Array:
    """Return q0 with the front legs turned forwards, the hind legs backwards and the knees straightened, rad."""
    return np.asarray(NOMINAL_POSE) + spread * np.repeat(_SPREAD, 2, axis=0).ravel()


def rest(pose: Array) -> RobotStart:
    """Return a start at rest with all four feet on the ground, the body pitched as it must be."""
    feet = feet_in_body(pose[None])[0]
    x, _, z = feet[0] - feet[2]
    pitch = np.arctan2(z, x)
    quaternion = np.array([[np.cos(pitch / 2.0), 0.0, np.sin(pitch / 2.0), 0.0]])
    position = np.array([[0.0, 0.0, float(touchdown_height(quaternion, pose[None])[0])]])
    still = np.zeros((1, 3))
    return RobotStart(position, quaternion, still, still, pose[None], np.zeros((1, len(pose))))


class PinnedStance:
    """Spot with its feet pinned to the ground: six coordinates of the body decide all joint angles.

    Args:
        pose: Joint angles with all four feet on the ground, rad.
    """

    def __init__(self, pose: Array) -> None:
        self.pose = pose
        start = rest(pose)
        self._position, self._quaternion = start.base_position, start.base_quaternion
        self._feet = feet_in_world(self._position, self._quaternion, pose[None])
        self.slope = self._first(self.joints, 1e-4)
        """Change of the joint angles with the body's coordinates, ``(12, 6)``."""
        lift = self._first(lambda moves: self.energy(moves)[:, None], 1e-4)[0]
        self.torques: Array = self.slope @ np.linalg.solve(self.slope.T @ self.slope, lift)
        """The smallest joint torques that carry the robot, N·m."""

    def _body(self, moves: Array) -> tuple[Array, Array]:
        """Position and orientation of the body after small moves (shift, turn about the world's axes)."""
        angle = np.linalg.norm(moves[:, 3:], axis=1, keepdims=True)
        axis = moves[:, 3:] / np.where(angle > 0.0, angle, 1.0)
        w, v = np.cos(angle / 2.0), np.sin(angle / 2.0) * axis
        w0, v0 = self._quaternion[:, :1], self._quaternion[:, 1:]
        scalar = w * w0 - np.sum(v * v0, axis=1, keepdims=True)
        return self._position + moves[:, :3], np.concatenate((scalar, w * v0 + w0 * v + np.cross(v, v0)), axis=1)

    def joints(self, moves: Array) -> Array:
        """Return the joint angles with which the feet stay where they are, by Newton's method."""
        position, quaternion = self._body(moves)
        back = quaternion * [1.0, -1.0, -1.0, -1.0]
        wanted = rotate(back, self._feet - position[:, None, :]).reshape(len(moves), 12)
        angles = np.tile(self.pose, (len(moves), 1))
        for _ in range(6):
            jacobian = np.stack(
                [(self._reach(angles + d) - self._reach(angles - d)) / 2e-6 for d in 1e-6 * np.eye(12)], axis=2
            )
            angles += np.linalg.solve(jacobian, (wanted - self._reach(angles))[..., None])[..., 0]
        return angles

    @staticmethod
    def _reach(angles: Array) -> Array:
        return np.asarray(feet_in_body(angles).reshape(len(angles), 12))

    def energy(self, moves: Array) -> Array:
        """Return the potential energy of gravity, J."""
        position, quaternion = self._body(moves)
        moments = []
        for angles in self.joints(moves):
            poses = link_poses(angles)
            moments.append(sum(link.mass * (poses[link.name] @ [*link.com, 1.0])[:3] for link in SPOT.links))
        height = rotate(quaternion, np.stack(moments)[:, None, :])[:, 0, 2]
        return np.asarray(_GRAVITY * (height + SPOT.total_mass * position[:, 2]))

    def _first(self, function: Any, step: float) -> Array:
        moves = step * np.eye(6)
        return np.asarray((function(moves) - function(-moves)).T / (2.0 * step))

    def stiffness(self, joint_stiffness: float) -> float:
        """Return the least stiffness of the body against any move, N/m; below 0 the robot topples."""
        targets = self.command(joint_stiffness)

        def total(moves: Array) -> Array:
            sag = self.joints(moves) - targets
            return np.asarray(0.5 * joint_stiffness * np.sum(sag * sag, axis=1) + self.energy(moves))

        step, unit = 2e-3, np.diag([1.0, 1.0, 1.0, 1.0 / _ARM, 1.0 / _ARM, 1.0 / _ARM])
        rows, columns = np.triu_indices(6)
        a, b = step * unit[rows], step * unit[columns]
        second = (total(a + b) - total(a - b) - total(b - a) + total(-a - b)) / (4.0 * step * step)
        hessian = np.zeros((6, 6))
        hessian[rows, columns] = hessian[columns, rows] = second
        return float(np.linalg.eigvalsh(hessian)[0])

    def command(self, joint_stiffness: float) -> Array:
        """Return the joint targets that hold the stance: its angles plus the torques over K, rad."""
        return np.asarray(self.pose + self.torques / joint_stiffness)


def stable_stance(joint_stiffness: float) -> tuple[float, PinnedStance] | None:
    """Return the least spread of the legs, in steps of 0.05 rad, with a stable stance, and the stance, or None."""
    for spread in np.arange(0.0, 0.501, 0.05):
        stance = PinnedStance(spread_pose(float(spread)))
        if stance.stiffness(joint_stiffness) >= ENOUGH:
            return float(spread), stance
    return None


def survival(backend: str, stiffnesses: Sequence[float], targets: Array, starts: Sequence[RobotStart]) -> Array:
    """Return for how many policy steps of an episode robots with these gains stand under constant targets.

    Args:
        backend: The engine.
        stiffnesses: K per robot; damping is critical.
        targets: Joint targets per robot, rad.
        starts: Start per robot.
    """
    count = len(stiffnesses)
    env = make_env("spot-handstand", backend=backend, num_envs=count, randomize=False)
    try:
        gains = np.tile(np.asarray(stiffnesses)[:, None], (1, 12))
        env.actuator_backend.set_gains(gains, damping_for(gains, env.actuator_backend.effective_inertia()))
        env.reset(seed=0)
        env.actuator_backend.reset(RobotStart(*(np.concatenate(parts) for parts in zip(*starts, strict=True))))
        actions = ((targets - env.actuator_backend.nominal_pose) / env.unwrapped.task.action_scale).astype(np.float32)
        if np.abs(actions).max() > 1.0:
            raise ValueError(f"the targets ask for an action of {np.abs(actions).max():.2f}, which would be clipped.")
        lives = np.full(count, STEPS)
        for step in range(STEPS):
            terminated = env.step(actions)[2]
            lives = np.where(terminated, np.minimum(lives, step + 1), lives)
        return lives
    finally:
        env.close()


def standing_table() -> str:
    """Measure both engines."""
    upright = rest(np.asarray(NOMINAL_POSE))
    nominal = PinnedStance(np.asarray(NOMINAL_POSE))
    count = len(STIFFNESSES)
    runs: dict[str, tuple[Sequence[float], Array, list[RobotStart]]] = {
        "zero": (STIFFNESSES, np.tile(NOMINAL_POSE, (count, 1)), [upright] * count),
        "held": (STIFFNESSES, np.stack([nominal.command(k) for k in STIFFNESSES]), [upright] * count),
    }
    spreads = {k: found for k in STIFFNESSES if (found := stable_stance(k)) is not None}
    commands = {k: stance.command(k) for k, (_, stance) in spreads.items()}
    starts = [rest(stance.pose) for _, stance in spreads.values()]
    runs["spread"] = (tuple(spreads), np.stack(list(commands.values())), starts)
    seconds: dict[tuple[str, float], str] = {}
    for name, (stiffnesses, targets, begin) in runs.items():
        lives = [survival(backend, stiffnesses, targets, begin) for backend in ("mujoco", "pybullet")]
        for row, k in enumerate(stiffnesses):
            seconds[name, k] = " | ".join(f"{0.02 * life[row]:.2f}" for life in lives)
    lines = [
        "| K | zero action, s | | q0 compensated, s | | stiffness of q0, N/m | spread, rad | largest action "
        "| spread stance, s | |\n"
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        "| | MuJoCo | PyBullet | MuJoCo | PyBullet | | | | MuJoCo | PyBullet |"
    ]
    for k in STIFFNESSES:
        last = "none | | |"
        if k in spreads:
            action = np.abs(commands[k] - NOMINAL_POSE).max() / PRESETS["paper"].action_scale
            last = f"{spreads[k][0]:.2f} | {action:.2f} | {seconds['spread', k]}"
        firsts = f"{seconds['zero', k]} | {seconds['held', k]} | {nominal.stiffness(k):.0f}"
        lines.append(f"| {k:.0f} | {firsts} | {last} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write benchmarks/standing.md")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    table = standing_table()
    print(table)
    if not arguments.write:
        return
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("mujoco", "pybullet", "numpy"))
    command = (
        "Command: `python benchmarks/standing.py --write`, nothing is random, "
        f"{time.perf_counter() - begin:.0f} s, commit {source_commit()}. adc-wrappers "
        f"{adc_wrappers.__version__}, {versions}, Python {platform.python_version()}, {platform.machine()}."
    )
    remarks = (
        "Seconds until body, hip or upper leg touch the ground, at most 20 (the time limit), with critical damping and "
        "the paper preset's α = 0.9. All robots start at rest with four feet on the ground, in the stance that is "
        "named. Zero action: targets at q0. Compensated: targets at q0 plus the smallest torques that carry the robot, "
        "over K. Stiffness of q0: the least stiffness of the body under that command against a move with the feet "
        "pinned, from the masses alone; where it is negative the robot leaves q0 sooner or later. Feet that push "
        "against each other change it: of 15 such preloads that were tried at K = 40, none made it positive. Spread "
        "stance: the least spread of the legs (front forwards, hind backwards, knees straighter, in one fixed "
        f"proportion) whose stiffness is {ENOUGH:.0f} N/m, compensated likewise; the robot starts in it, because under "
        "such commands from q0 at K = 40 it fell while moving there."
    )
    paragraphs = ["# Standing still under a constant command", command, table, remarks]
    Path(__file__).with_suffix(".md").write_text("\n\n".join(paragraphs) + "\n")


if __name__ == "__main__":
    main()
