"""Physics steps of 4 ms against 2 ms: what changes for the planar handstand.

Motions: the same robots begin in the same randomized states of the task and follow the same random joint targets, once
with each physics step. The table has the difference of joint angles (the largest of four) and of the base's place after
some time: median and 95th percentile over robots. How far 2 ms is from 1 ms, in the same way, is the yardstick. A robot
whose upper legs or body touched the ground in any of the runs counts up to the moment before: what it does then is no
part of an episode. Success: one policy, evaluated with each physics step from the same first states.

    python benchmarks/physics_step.py --policy RUN_FOLDER            # print
    python benchmarks/physics_step.py --policy RUN_FOLDER --write    # and write benchmarks/physics_step.md
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

import adc_wrappers
from adc_wrappers import make_env
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.envs.spot.terms import any_contact
from adc_wrappers.runs.evaluation import wilson_interval
from adc_wrappers.runs.folder import source_commit

TASK = "spot-planar-handstand"
POLICY_STEP = 0.02
STEPS = (0.001, 0.002, 0.004)
MOMENTS = (0.1, 0.2, 0.5)
"""Seconds after which motions are compared."""


class Motion(NamedTuple):
    """Robots after each policy step."""

    joints: np.ndarray
    """rad, ``(steps, robots, 4)``."""
    place: np.ndarray
    """x and z of the base, m, ``(steps, robots, 2)``."""
    alive: np.ndarray
    """Whether no link that ends an episode has touched the ground so far, ``(steps, robots)``."""


def settings(step: float) -> dict[str, Any]:
    """Return the task's settings for a physics step."""
    return {"physics_step": step, "decimation": round(POLICY_STEP / step)}


def motion(step: float, stiffness: float, reach: float, robots: int, seed: int) -> Motion:
    """Follow random targets within ``reach`` of the nominal pose for as long as the last moment."""
    task = make_env(TASK, num_envs=robots, randomize=["joints", "velocity"], **settings(step)).unwrapped.task
    gains = np.full((robots, 4), stiffness)
    task.backend.set_gains(gains, damping_for(gains, task.backend.effective_inertia()))
    rng = np.random.default_rng(seed)
    task.begin(np.arange(robots), rng)
    falls = [i for i, name in enumerate(task.backend.link_names) if name.endswith(("body", "uleg"))]
    joints, place, alive = [], [], []
    for _ in range(round(max(MOMENTS) / POLICY_STEP)):
        task.backend.advance(task.backend.nominal_pose + reach * rng.uniform(-1.0, 1.0, (robots, 4)))
        state = task.backend.state()
        joints.append(state.joint_positions.copy())
        place.append(state.base_position[:, [0, 2]].copy())
        alive.append(~any_contact(state, falls))
    task.backend.close()
    return Motion(np.array(joints), np.array(place), np.logical_and.accumulate(alive, axis=0))


def motion_rows(robots: int, seed: int) -> list[str]:
    """Compare 4 ms and 1 ms with 2 ms."""
    lines = []
    for stiffness in (40.0, 60.0):
        for reach in (0.2, 0.6):
            found = {step: motion(step, stiffness, reach, robots, seed) for step in STEPS}
            together = np.logical_and.reduce([item.alive for item in found.values()])
            for moment in MOMENTS:
                row = round(moment / POLICY_STEP) - 1
                cells = [f"{stiffness:g}", f"{reach:g}", f"{moment:g}", f"{int(together[row].sum())}"]
                for step in (0.004, 0.001):
                    one, two = found[step], found[0.002]
                    angle = np.abs(one.joints[row] - two.joints[row]).max(axis=1)[together[row]]
                    place = np.linalg.norm(one.place[row] - two.place[row], axis=1)[together[row]]
                    cells += [_spread(angle, 1.0), _spread(place, 1e3)]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def _spread(values: np.ndarray, factor: float) -> str:
    if not values.size:
        return "–"
    middle, high = np.quantile(values, [0.5, 0.95]) * factor
    return f"{middle:.2g} / {high:.2g}"


def success_rows(folder: Path, episodes: int, seed: int) -> list[str]:
    """Evaluate a policy at K_* with each physics step."""
    from adc_wrappers.runs import RunFolder
    from adc_wrappers.training import load_trained
    from adc_wrappers.training.evaluating import EvaluationSetup, evaluate_policy

    policy = load_trained(RunFolder.open(folder))
    lines = []
    for step in STEPS[1:]:
        setup = EvaluationSetup.of(policy.config, settings=settings(step))
        _, summary = evaluate_policy(policy, setup, episodes=episodes, seed=seed, num_envs=min(episodes, 250))
        rate = summary["success_rate"]
        low, high = wilson_interval(round(rate * episodes), episodes)
        lines.append(
            f"| {1e3 * step:g} ms | {rate:.1%} | {low:.1%} to {high:.1%} | {summary['length_mean']:.0f} | "
            f"{summary['return_mean']:.1f} |"
        )
    return lines


def main() -> None:
    """Measure, print, and write the tables if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--policy", type=Path, help="run folder of a policy of the task")
    parser.add_argument("--robots", type=int, default=256)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=20_000)
    parser.add_argument("--write", action="store_true", help="write benchmarks/physics_step.md")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    parts = [
        "| K | targets within, rad | after, s | robots | 4 ms: joints, rad | base, mm | 1 ms: joints, rad | "
        "base, mm |\n"
        "|---:|---:|---:|---:|---:|---:|---:|---:|\n" + "\n".join(motion_rows(arguments.robots, arguments.seed))
    ]
    if arguments.policy is not None:
        parts.append(
            "| physics step | success | 95 % | length | return |\n|---|---:|---:|---:|---:|\n"
            + "\n".join(success_rows(arguments.policy, arguments.episodes, arguments.seed))
        )
    text = "\n\n".join(parts)
    print(text)
    if arguments.write:
        options = f"--robots {arguments.robots} --episodes {arguments.episodes} --seed {arguments.seed}"
        versions = (
            f"adc-wrappers {adc_wrappers.__version__}, MuJoCo {mujoco.__version__}, Python {platform.python_version()}"
        )
        policy = f" --policy {arguments.policy.name}" if arguments.policy is not None else ""
        command = (
            f"Command: `python benchmarks/physics_step.py --write {options}{policy}`, "
            f"{time.perf_counter() - begin:.0f} s, commit {source_commit()}. {versions}."
        )
        title = "# The physics step of the planar handstand"
        about = (__doc__ or "").split("\n\n")[1]
        Path(__file__).with_suffix(".md").write_text("\n\n".join([title, command, text, about]) + "\n")


if __name__ == "__main__":
    main()
