"""Policy steps per second of the handstand env, beside the bare engines and the usual ways to batch them.

Every variant plays the same windows: all robots are put on the ground, then follow the same random joint targets for
half a second (25 policy steps of ten physics steps). Variants take turns in one process; the table has medians over
rounds and, for each, the share of the bare engine in the same rounds. All MuJoCo variants step the model that this
library compiles, with the same gains; this library adds contact sensors to it, the others do without. A batch of
processes is as fast as its number of envs suits the machine, so AsyncVectorEnv is given several. The planar env takes
turns with the env in space, with the same physics step and, of the same targets, those of the left hips and knees.

    python benchmarks/throughput.py            # print
    python benchmarks/throughput.py --write    # and write benchmarks/throughput.md
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
import mujoco
import numpy as np
import pybullet
from gymnasium.envs.mujoco import MujocoEnv
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from stable_baselines3.common.vec_env import SubprocVecEnv

import adc_wrappers
from adc_wrappers import make_env
from adc_wrappers.backends.mujoco_robot import RobotLayout
from adc_wrappers.backends.mujoco_robot.model import compile_robot, joint_inertia, load_spec
from adc_wrappers.backends.spot_model import JOINT_NAMES, NOMINAL_POSE, standing_height
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.runs.folder import source_commit

WINDOW = 25
DECIMATION = 10
SCALE = 0.9
STIFFNESS = 60.0
PHYSICS_STEP = 0.002
CORES = len(os.sched_getaffinity(0))
MEMORY = {"mujoco": 1026, "pybullet": 34}
"""Number of envs whose memory is compared with that of two."""


def actions(num_envs: int) -> np.ndarray:
    """The same random actions for every variant, ``(window, envs, 12)``."""
    return np.random.default_rng(0).uniform(-1, 1, (WINDOW, num_envs, 12)).astype(np.float32)


class Variant(Protocol):
    """Something that plays windows."""

    num_envs: int

    def prepare(self) -> None:
        """Put all robots on the ground; not timed."""

    def play(self) -> None:
        """Play one window; timed."""

    def close(self) -> None:
        """Let go."""


class Stepped:
    """Anything with ``reset``, ``step`` and ``close`` over a batch."""

    def __init__(self, env: Any, num_envs: int, joints: Sequence[int] = range(12)) -> None:
        self.num_envs = num_envs
        self.env = env
        self.actions = np.ascontiguousarray(actions(num_envs)[..., list(joints)])

    def prepare(self) -> None:
        """Reset."""
        self.env.reset()

    def play(self) -> None:
        """Step."""
        for action in self.actions:
            self.env.step(action)

    def close(self) -> None:
        """Close."""
        self.env.close()


def our_env(backend: str, num_envs: int) -> Stepped:
    """The batched env of this library: observation, reward, termination, randomization and resets included."""
    return Stepped(make_env("spot-handstand", backend=backend, num_envs=num_envs), num_envs)


def planar_env(num_envs: int) -> Stepped:
    """The same task in Spot's plane of symmetry, with the same physics step."""
    return Stepped(
        make_env("spot-planar-handstand", backend="mujoco", num_envs=num_envs), num_envs, joints=(1, 2, 7, 8)
    )


def engine_spec() -> Any:
    """The model that the env steps, with the gains it begins with, but without its sensors: an ``MjSpec``."""
    spec, layout = load_spec(None), RobotLayout.make()
    inertia = joint_inertia(compile_robot(spec, layout, physics_step=PHYSICS_STEP), layout)
    for sensor in spec.sensors:
        spec.delete(sensor)
    for actuator, damping in zip(spec.actuators, damping_for(np.full(12, STIFFNESS), inertia), strict=True):
        actuator.gainprm[0], actuator.biasprm[1], actuator.biasprm[2] = STIFFNESS, -STIFFNESS, -damping
    return spec


class BareMujoco:
    """``mj_step`` of the same model on as many threads, nothing read and nothing reset."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.model = engine_spec().compile()
        self.data = [mujoco.MjData(self.model) for _ in range(num_envs)]
        self.targets = np.array(NOMINAL_POSE) + SCALE * actions(num_envs)

    def prepare(self) -> None:
        """Reset."""
        for data in self.data:
            mujoco.mj_resetData(self.model, data)
            data.qpos[2], data.qpos[7:] = standing_height(NOMINAL_POSE), NOMINAL_POSE

    def play(self) -> None:
        """Step all robots, a share on each thread."""
        threads = [threading.Thread(target=self._share, args=(i,)) for i in range(CORES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _share(self, first: int) -> None:
        for step in range(WINDOW):
            for env in range(first, self.num_envs, CORES):
                data = self.data[env]
                data.ctrl[:] = self.targets[step, env]
                mujoco.mj_step(self.model, data, DECIMATION)

    def close(self) -> None:
        """Nothing to do."""


class SpotMujocoEnv(MujocoEnv):
    """The same robot as Gymnasium's own base class has it: 45 observations, a simple reward, no randomization."""

    metadata = {"render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, path: str) -> None:
        space = gym.spaces.Box(-np.inf, np.inf, (45,), np.float64)
        super().__init__(path, DECIMATION, space, default_camera_config={})
        self.last = np.zeros(12)

    def step(self, action: Any) -> Any:
        """One policy step."""
        self.do_simulation(np.array(NOMINAL_POSE) + SCALE * np.clip(action, -1, 1), self.frame_skip)
        reward = -float(np.square(action - self.last).sum())
        self.last = np.asarray(action)
        return self._observe(), reward, bool(self.data.qpos[2] < 0.2), False, {}

    def _observe(self) -> Any:
        rotation = self.data.body("body").xmat.reshape(3, 3)
        qpos, qvel = self.data.qpos, self.data.qvel
        parts = (rotation.T @ qvel[:3], qvel[3:6], -rotation[2], qpos[7:] - NOMINAL_POSE, qvel[6:], self.last)
        return np.concatenate(parts)

    def reset_model(self) -> Any:
        """Stand on the ground."""
        qpos = self.init_qpos.copy()
        qpos[2], qpos[7:] = standing_height(NOMINAL_POSE), NOMINAL_POSE
        self.set_state(qpos, self.init_qvel)
        self.last = np.zeros(12)
        return self._observe()


def gymnasium_async(num_envs: int, path: str) -> Stepped:
    """Gymnasium's ``MujocoEnv`` in an ``AsyncVectorEnv``, a process for each env."""
    make = functools.partial(SpotMujocoEnv, path)
    return Stepped(AsyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP), num_envs)


def sb3_subproc(num_envs: int, path: str) -> Stepped:
    """The same env in SB3's ``SubprocVecEnv``."""
    return Stepped(SubprocVecEnv([functools.partial(SpotMujocoEnv, path)] * num_envs), num_envs)


class BareBullet:
    """``stepSimulation`` of the same world with the PD law as the engine's own motors: the least PyBullet can do.

    A robot without motors would lie on the ground, which is a slower world.
    """

    def __init__(self) -> None:
        from adc_wrappers.backends.spot_model import spot_urdf

        self.num_envs = 1
        self.client = pybullet.connect(pybullet.DIRECT)
        pybullet.setGravity(0, 0, -9.81, self.client)
        pybullet.setTimeStep(PHYSICS_STEP, self.client)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "spot.urdf"
            path.write_text(spot_urdf(visuals=False))
            plane = pybullet.createCollisionShape(pybullet.GEOM_PLANE, physicsClientId=self.client)
            pybullet.createMultiBody(0, plane, physicsClientId=self.client)
            flags = pybullet.URDF_USE_INERTIA_FROM_FILE
            self.robot = pybullet.loadURDF(str(path), flags=flags, physicsClientId=self.client)
        count = pybullet.getNumJoints(self.robot, self.client)
        names = {pybullet.getJointInfo(self.robot, i, self.client)[1].decode(): i for i in range(count)}
        self.joints = [names[name] for name in JOINT_NAMES]
        self.targets = (np.array(NOMINAL_POSE) + SCALE * actions(1)[:, 0]).tolist()

    def prepare(self) -> None:
        """Reset."""
        height = standing_height(NOMINAL_POSE)
        pybullet.resetBasePositionAndOrientation(self.robot, [0, 0, height], [0, 0, 0, 1], self.client)
        pybullet.resetBaseVelocity(self.robot, [0, 0, 0], [0, 0, 0], self.client)
        for joint, angle in zip(self.joints, NOMINAL_POSE, strict=True):
            pybullet.resetJointState(self.robot, joint, angle, 0.0, self.client)

    def play(self) -> None:
        """Set the motors once per policy step and step."""
        for target in self.targets:
            pybullet.setJointMotorControlArray(
                self.robot, self.joints, pybullet.POSITION_CONTROL, targetPositions=target, forces=[45.0] * 12,
                positionGains=[0.02] * 12, velocityGains=[0.5] * 12, physicsClientId=self.client,
            )  # fmt: skip
            for _ in range(DECIMATION):
                pybullet.stepSimulation(self.client)

    def close(self) -> None:
        """Disconnect."""
        pybullet.disconnect(self.client)


def rates(variants: dict[str, Variant], rounds: int) -> dict[str, list[float]]:
    """Policy steps per second of every variant in every round, the variants taking turns."""
    names = list(variants)
    result: dict[str, list[float]] = {name: [] for name in names}
    for round_ in range(-1, rounds):
        for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
            variant = variants[name]
            variant.prepare()
            begin = time.perf_counter()
            variant.play()
            if round_ >= 0:  # the first round warms up
                result[name].append(WINDOW * variant.num_envs / (time.perf_counter() - begin))
    return result


def memory_per_env(backend: str, few: int, many: int) -> float:
    """Memory that one more env takes after some steps, MB: of a fresh process and its children."""
    code = (
        "import os, sys, numpy as np; from pathlib import Path; from adc_wrappers import make_env\n"
        "n = int(sys.argv[2]); env = make_env('spot-handstand', backend=sys.argv[1], num_envs=n); env.reset(seed=0)\n"
        "for _ in range(5): env.step(np.zeros((n, 12), np.float32))\n"
        "def pages(pid): return int(Path(f'/proc/{pid}/statm').read_text().split()[1])\n"
        "def parent(pid):\n"
        "    try: return int(Path(f'/proc/{pid}/stat').read_text().rsplit(')')[-1].split()[1])\n"
        "    except OSError: return None  # it has ended\n"
        "mine = [p for p in os.listdir('/proc') if p.isdigit() and parent(p) == os.getpid()]\n"
        "print(sum(map(pages, [os.getpid(), *mine])) * os.sysconf('SC_PAGESIZE') / 2**20)\n"
        "env.close()\n"
    )

    def used(count: int) -> float:
        command = [sys.executable, "-c", code, backend, str(count)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(answer.stdout.split()[-1])

    return (used(many) - used(few)) / (many - few)


def median_ratio(result: dict[str, list[float]], name: str, base: str) -> float:
    """How many times as fast one variant is as another, in the median round."""
    return statistics.median(a / b for a, b in zip(result[name], result[base], strict=True))


def rows(engine: str, result: dict[str, list[float]], base: str) -> list[str]:
    """Format a group of variants."""
    lines = []
    for name, values in result.items():
        share = median_ratio(result, name, base)
        lines.append(f"| {engine} | {name} | {statistics.median(values):,.0f} | {share:.2f} |")
    return lines


def measure(rounds: int, num_envs: int, processes: int, async_processes: Sequence[int]) -> list[str]:
    """Run all groups."""
    with tempfile.TemporaryDirectory() as folder:
        path, spec = Path(folder) / "spot.xml", engine_spec()
        spec.compile()
        path.write_text(spec.to_xml())
        ours, planar = f"this library, {num_envs} envs", f"this library, in the plane, {num_envs} envs"
        rivals = {f"AsyncVectorEnv of MujocoEnv, {n} envs": gymnasium_async(n, str(path)) for n in async_processes}
        group: dict[str, Variant] = {
            f"bare mj_step, {num_envs} robots, {CORES} threads": BareMujoco(num_envs),
            ours: our_env("mujoco", num_envs),
            planar: planar_env(num_envs),
            **rivals,
            f"SubprocVecEnv of MujocoEnv, {processes} envs": sb3_subproc(processes, str(path)),
        }
        result = rates(group, rounds)
        lines = rows("MuJoCo", result, next(iter(group)))
        for variant in group.values():
            variant.close()
    best = max(rivals, key=lambda name: statistics.median(result[name]))
    ratio = median_ratio(result, ours, best)
    summary = f"{ours[0].upper()}{ours[1:]}, in MuJoCo: {ratio:.2f} times the fastest AsyncVectorEnv ({best})."
    summary += (
        f" In the plane it makes {median_ratio(result, planar, ours):.2f} times the policy steps of that in space."
    )
    bullet: dict[str, Variant] = {
        "bare stepSimulation, 1 robot": BareBullet(),
        "this library, 1 env": our_env("pybullet", 1),
        f"this library, {processes} envs": our_env("pybullet", processes),
    }
    lines += rows("PyBullet", rates(bullet, rounds), next(iter(bullet)))
    for variant in bullet.values():
        variant.close()
    return [*lines, "", summary]


def main() -> None:
    """Measure, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--async-processes", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--write", action="store_true", help="write benchmarks/throughput.md")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    header = "| engine | variant | policy steps/s | share of bare |\n|---|---|---:|---:|"
    counts = arguments.num_envs, arguments.processes, arguments.async_processes
    text = "\n".join([header, *measure(arguments.rounds, *counts)])
    memory = ", ".join(f"{name} {memory_per_env(name, 2, many):.2f} MB" for name, many in MEMORY.items())
    text += f"\n\nMemory of one more env: {memory}."
    print(text)
    if arguments.write:
        versions = (
            f"adc-wrappers {adc_wrappers.__version__}, MuJoCo {mujoco.__version__}, Gymnasium {gym.__version__}, "
            f"Python {platform.python_version()}, {platform.machine()}, {CORES} cores, load {os.getloadavg()[0]:.1f}"
        )
        options = f"--rounds {arguments.rounds} --num-envs {arguments.num_envs} --processes {arguments.processes}"
        options += f" --async-processes {' '.join(map(str, arguments.async_processes))}"
        command = (
            f"Command: `python benchmarks/throughput.py --write {options}`, actions of seed 0, "
            f"{time.perf_counter() - begin:.0f} s, commit {source_commit()}. {versions}."
        )
        Path(__file__).with_suffix(".md").write_text(
            "\n\n".join(["# Throughput of the handstand env", command, text, (__doc__ or "").split("\n\n")[1]]) + "\n"
        )


if __name__ == "__main__":
    main()
